"""Estimates on devices that nothing was fitted to, against public operator tables: `python -m benchmarks.transfer`.

What was fitted on an H200 is carried to the others by their profiles. A table's time holds the KV write, which is added
to the estimate. Its decode calls run on the same buffers again and again, so that KV of up to about twice the L2 is
partly read from there; latency is defined for KV in memory: those rows (`warm`) are counted apart.

`--write` puts the table into docs/model.md.
"""

import statistics
import sys
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from benchmarks.operator_tables import Row, read
from benchmarks.operator_tables.compared import compared_of
from costmodel import Attention, Batch, Incompatible, predict
from costmodel.prediction import Prediction
from costmodel.serving.kernels import kernels_of
from hwprofiles import Profile, load_profile

DOCUMENT = Path(__file__).parents[1] / "docs" / "model.md"
BEGIN, END = "<!-- other devices: begin -->", "<!-- other devices: end -->"
WARM_L2 = 2.0
"""KV over the L2 below which a repeated call finds part of it there."""


@dataclass(frozen=True, slots=True)
class Compare:
    """One row with its estimate, KV write included, in seconds."""

    row: Row
    backend: str
    estimate: float
    low: float
    high: float
    roofline: float
    evidence: str
    warm: bool

    @property
    def measured(self) -> float:
        """Seconds that the table gives."""
        return self.row.latency_us * 1e-6

    @property
    def error(self) -> float:
        """Relative error."""
        return abs(self.estimate / self.measured - 1)

    @property
    def roofline_error(self) -> float:
        """Relative error of the datasheet roofline."""
        return abs(self.roofline / self.measured - 1)

    @property
    def covered(self) -> bool:
        """Whether the 90 % interval holds the measured time."""
        return self.low <= self.measured <= self.high


def call_of(row: Row, page_size: int) -> tuple[Attention, Batch]:
    """Write a row as a call."""
    if row.mla:
        attention = Attention.mla(num_qo_heads=row.qo_heads, kv_dtype=row.kv_dtype)
    else:
        attention = Attention(
            num_qo_heads=row.qo_heads,
            num_kv_heads=row.kv_heads,
            head_dim=row.head_dim,
            v_head_dim=row.v_head_dim,
            kv_dtype=row.kv_dtype,
            sliding_window=row.window or None,
        )
    lens = [row.kv_len] * row.batch
    if row.phase == "decode":
        return attention, Batch.decode(kv_lens=lens, page_size=page_size)
    return attention, Batch.extend(q_lens=[row.q_len] * row.batch, kv_lens=lens, page_size=page_size)


def compare(rows: list[Row]) -> Iterator[Compare]:
    """Estimate every row that the library call can run."""
    for row in rows:
        source = compared_of(row)
        attention, batch = call_of(row, source.page_size)
        profile = load_profile(row.device)
        try:
            predicted = predict(attention, batch, backend=source.backend, profile=profile)
        except (Incompatible, ValueError):
            continue
        tokens = row.batch * row.q_len
        write = kernels_of(profile).pass_over("kv_write", tokens, 2.0 * tokens * attention.kv_bytes_per_token)
        warm = row.phase == "decode" and _kv_bytes(row, attention) < WARM_L2 * (profile.l2_bytes or 0)
        yield Compare(
            row=row,
            backend=source.backend,
            estimate=predicted.seconds + write.seconds,
            low=predicted.low + write.low,
            high=predicted.high + write.high,
            roofline=_roofline(predicted, profile),
            evidence=predicted.evidence,
            warm=warm,
        )


def _kv_bytes(row: Row, attention: Attention) -> float:
    seen = min(row.kv_len, row.window) if row.window else row.kv_len
    return row.batch * seen * attention.kv_bytes_per_token


def _roofline(predicted: Prediction, profile: Profile) -> float:
    return max(
        predicted.dram_bytes / profile.require("memory_bytes_per_s"), predicted.flops / profile.matrix_rate("bf16")
    )


def table(rows: list[Compare]) -> str:
    """Give the errors as Markdown: kernel by kernel, then each device."""
    groups: defaultdict[tuple[str, ...], list[Compare]] = defaultdict(list)
    for each in rows:
        kind = "MLA" if each.row.mla else "fp8 cache" if each.row.kv_dtype != "bf16" else ""
        groups[(each.row.device, each.backend, each.row.table, each.row.phase, kind)].append(each)
    lines = [
        "| device | backend | table | call | rows | median | p90 | roofline | in interval | KV in L2: rows, median |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    for (device, backend, source, phase, kind), group in groups.items():
        lines.append(_line(f"{device} | `{backend}` | {source} | {phase}{' ' * bool(kind)}{kind}", group))
    for device in dict.fromkeys(each.row.device for each in rows):
        lines.append(_line(f"**{device}** | | | all", [each for each in rows if each.row.device == device]))
    return "\n".join(lines)


def _line(title: str, group: list[Compare]) -> str:
    cold = [each for each in group if not each.warm]
    warm = [each.error for each in group if each.warm]
    aside = f"{len(warm)}, {statistics.median(warm):.0%}" if warm else "-"
    if not cold:
        return f"| {title} | 0 | - | - | - | - | {aside} |"
    errors = sorted(each.error for each in cold)
    shares = (
        statistics.median(errors),
        errors[int(0.9 * (len(errors) - 1))],
        statistics.median(each.roofline_error for each in cold),
        sum(each.covered for each in cold) / len(cold),
    )
    return f"| {title} | {len(cold)} | {' | '.join(f'{share:.0%}' for share in shares)} | {aside} |"


def main() -> None:
    """Print the table, or write it into the document."""
    text = table(list(compare(read())))
    if sys.argv[1:] != ["--write"]:
        print(text)
        return
    document = DOCUMENT.read_text(encoding="utf-8")
    head, _, rest = document.partition(BEGIN)
    DOCUMENT.write_text(f"{head}{BEGIN}\n\n{text}\n\n{END}{rest.partition(END)[2]}", encoding="utf-8")


if __name__ == "__main__":
    main()
