"""The generated parts of README.md: an example, the accuracy table, the gains of the shipped configurations."""

import math
import re
from collections.abc import Callable, Iterable
from pathlib import Path

from tour import run

from costmodel.accuracy import Row, grouped, rows_of, summarize
from costmodel.regret import choice_regret, split_regret
from executors.recordings import PACKAGED, read_records
from hwprofiles import load_profile
from tuner.configuration import TABLES, read
from tuner.lookup import PACKAGED as CONFIGURATIONS
from tuner.row import Choice

ROOT = Path(__file__).parents[2]
README = ROOT / "README.md"
EXAMPLE = (
    "attnroof predict --model examples/models/Llama-3.1-8B --gpu h200 --batch-spec q1s32k"
    " --backend fa3 --backend flashinfer"
)
FEWEST = 30
"""Rows (or workloads) below which a mean says too little to print."""


def example() -> str:
    """What the README's predict command prints."""
    return f"```\n{run(EXAMPLE, ROOT)}\n```"


def kind(row: Row) -> str:
    """The class of calls that a row belongs to."""
    attention = row.attention
    if attention.is_latent:
        return "MLA decode, verify" if row.phase in ("decode", "verify") else "MLA extend"
    special = attention.sliding_window or attention.sinks or attention.kv_dtype != "bf16" or attention.dtype != "bf16"
    if special or attention.head_dim != 128:
        return "fp8, fp16, windows, other head dims"
    return "decode" if row.phase == "decode" else "extend, verify, mixed"


def accuracy() -> str:
    """Errors by class of calls and backend, on workloads that were not fitted on."""
    rows = [r for r in rows_of(read_records(PACKAGED).records, load_profile("h200")) if not r.fitted]
    lines = [
        "| calls | backend | rows | error | p95 | within 10 % | in the 90 % interval | roofline |",
        "|---|---|--:|--:|--:|--:|--:|--:|",
    ]
    for (calls, backend), group in grouped(rows, lambda r: (kind(r), r.backend)).items():
        if len(group) < FEWEST:
            continue
        s = summarize(group)
        shares = (s.mean, s.p95, s.within, s.coverage, s.roofline)
        lines.append(f"| {calls} | `{backend}` | {s.rows} | " + " | ".join(f"{100 * x:.1f}" for x in shares) + " |")
    s = summarize(rows)
    shares = (s.mean, s.p95, s.within, s.coverage, s.roofline)
    lines.append(f"| all | | {s.rows} | " + " | ".join(f"{100 * x:.1f}" for x in shares) + " |")
    return "\n".join([*lines, "", regrets(rows)])


def regrets(rows: list[Row]) -> str:
    """What choosing without measuring costs."""
    served = [r for r in rows if r.backend != "attnroof_triton"]
    parts = []
    for name, group in grouped(served, lambda r: ("MLA" if r.attention.is_latent else r.phase,)).items():
        regret = choice_regret(group)
        if regret is not None and regret.workloads >= FEWEST:
            parts.append(f"{name[0]} {regret.mean:.3f} ({regret.workloads} workloads)")
    split = split_regret([r for r in served if r.backend == "fa3"])
    assert split is not None
    assert split.default is not None
    return (
        "Backend and knobs chosen by the model alone, without the project's own kernels, cost this multiple of the\n"
        f"best measured time (geometric mean): {', '.join(parts)};\n"
        f"the split count of `fa3` {split.mean:.3f}, its own choice {split.default:.3f}."
    )


def gains() -> str:
    """What the shipped configurations gain over SGLang's default."""
    found: dict[str, list[tuple[float, float, float]]] = {}
    for path in sorted(CONFIGURATIONS.glob("*.json")):
        configuration = read(path)
        for table in TABLES:
            for row in configuration.table(table).values():
                times = timed(row.sglang_default, row.best, row.best_sglang)
                if times is not None:
                    found.setdefault(shape(path), []).append(times)
    total = [times for group in found.values() for times in group]
    lines = [
        "| shipped configurations (NVIDIA H200) | calls | best of all | best that SGLang's flags reach |",
        "|---|--:|--:|--:|",
        *(f"| {name} | {len(group)} | {ratio(group, 1)} | {ratio(group, 2)} |" for name, group in found.items()),
        f"| all | {len(total)} | {ratio(total, 1)} | {ratio(total, 2)} |",
    ]
    best, reached = (sum(t[0] for t in total) / sum(t[i] for t in total) for i in (1, 2))
    return "\n".join(
        [
            *lines,
            "",
            "Time of SGLang's default over that of the choice, geometric mean over the calls; weighted by time "
            f"{best:.3f} and {reached:.3f}.",
            '`attnroof report --config` shows each; "best of all" may be own kernels or a knob without a flag.',
        ]
    )


def timed(default: Choice | None, *choices: Choice | None) -> tuple[float, float, float] | None:
    """Measured microseconds of the default and of each choice; None where one was not measured."""
    times = [c.measured_us if c is not None else None for c in (default, *choices)]
    if any(t is None for t in times):
        return None
    first, second, third = (float(t) for t in times if t is not None)
    return first, second, third


def ratio(times: Iterable[tuple[float, float, float]], index: int) -> str:
    """Geometric mean of the default's time over that of a choice."""
    logs = [math.log(t[0] / t[index]) for t in times]
    return f"{math.exp(sum(logs) / len(logs)):.3f}×"


def shape(path: Path) -> str:
    """The class of shapes that a configuration's file name tells."""
    parts = dict(p.split("=", 1) for p in path.stem.split(",") if "=" in p)
    words = ["MLA" if parts["family"] == "mla" else "GQA, MQA"]
    words += [f"head dim {parts['hd']}"] if parts["family"] != "mla" else ["16, 64 and 128 heads"]
    words += [f"window {parts['window']}"] if "window" in parts else []
    words += ["sinks"] if "sinks" in parts else []
    words += [f"{parts['kv_dtype']} KV"] if parts["kv_dtype"] != "auto" else []
    return ", ".join(words)


BLOCKS: dict[str, Callable[[], str]] = {"predict": example, "accuracy": accuracy, "gain": gains}


def block(name: str) -> re.Pattern[str]:
    """Where a generated part stands."""
    return re.compile(rf"(<!-- {name}:begin -->\n)(.*?)(<!-- {name}:end -->)", re.DOTALL)


def refreshed(text: str) -> str:
    """The README with its generated parts as they are now."""
    for name, make in BLOCKS.items():
        content = make()
        text = block(name).sub(lambda found, content=content: f"{found[1]}{content}\n{found[3]}", text)
    return text
