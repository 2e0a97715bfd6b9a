"""Draw the extract from a checkout of the tables (needs pyarrow).

python -m benchmarks.operator_tables.extract SYSTEMS_DATA
"""

import random
import sys
from collections import defaultdict
from pathlib import Path
from typing import Any

from benchmarks.operator_tables import Row, write
from benchmarks.operator_tables.compared import COMPARED, Compared

LEAST_MS = 0.03
ROWS = 1200
"""Rows of one device, each with the same chance."""
LATENT_DIM, LATENT_VALUE_DIM = 576, 512
UNEQUAL_DIM, UNEQUAL_VALUE_DIM = 192, 128
"""SGLang's rows of that head dim are MiMo-V2's; the tables do not name the value dim."""


def main(folder: Path) -> None:
    """Read every compared table below `folder` and write the sample."""
    draw = random.Random(0)
    alike: defaultdict[str, list[Row]] = defaultdict(list)
    for compared in COMPARED:
        for phase, prefix in (("extend", "context"), ("decode", "generation")):
            if phase not in compared.phases:
                continue
            kind = "mla" if compared.mla else "attention"
            file = folder / compared.system / kind / compared.table / f"{prefix}_{kind}_perf.parquet"
            alike[compared.device] += [row for row in _rows(file, compared, phase) if compared.alike(row)]
    rows = [found[i] for found in alike.values() for i in sorted(draw.sample(range(len(found)), ROWS))]
    write(rows)
    print(f"{len(rows)} rows")


def _rows(file: Path, compared: Compared, phase: str) -> list[Row]:
    import pyarrow.parquet as pq

    lines = pq.read_table(file).to_pylist()
    return [
        _row(line, compared, phase)
        for line in lines
        if line["kernel_source"] == compared.kernel and line["latency"] >= LEAST_MS
    ]


def _row(line: dict[str, Any], compared: Compared, phase: str) -> Row:
    decode = phase == "decode"
    heads, dim = line["num_heads"], LATENT_DIM if compared.mla else line["head_dim"]
    return Row(
        device=compared.device,
        table=compared.table,
        kernel=compared.kernel,
        phase=phase,
        mla=compared.mla,
        batch=line["batch_size"],
        q_len=1 if decode else line["isl"],
        kv_len=line["step"] + 1 if decode else line["isl"],
        qo_heads=heads,
        kv_heads=1 if compared.mla else line["num_key_value_heads"] or heads,
        head_dim=dim,
        v_head_dim=_value_dim(dim, compared),
        kv_dtype="fp8_e4m3" if line["kv_cache_dtype"] == "fp8" else "bf16",
        window=line.get("window_size") or 0,
        latency_us=1e3 * line["latency"],
    )


def _value_dim(dim: int, compared: Compared) -> int:
    if compared.mla:
        return LATENT_VALUE_DIM
    return UNEQUAL_VALUE_DIM if dim == UNEQUAL_DIM and compared.table.startswith("sglang") else dim


if __name__ == "__main__":
    main(Path(sys.argv[1]))
