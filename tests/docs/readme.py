"""The generated parts of README.md: an example, the accuracy table, the gains of the shipped configurations."""

import math
import re
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean

from tour import run

from costmodel.accuracy import Row, grouped, rows_of, summarize
from costmodel.regret import choice_regret, split_regret
from executors.recordings import PACKAGED, read_records
from hwprofiles import load_profile
from tuner.configuration import TABLES, read
from tuner.lookup import PACKAGED as CONFIGURATIONS
from tuner.row import Choice
from tuner.row import Row as TunedRow

ROOT = Path(__file__).parents[2]
README = ROOT / "README.md"
EXAMPLE = "attnroof predict --model examples/models/Llama-3.1-8B --gpu h200 --batch-spec q1s32k --backend fa3"
FEWEST = 51
"""Rows (or workloads) below which a mean says too little to print."""


def example() -> str:
    """The README's predict command and what it prints."""
    return f"```\n$ {EXAMPLE}\n{run(EXAMPLE, ROOT)}\n```"


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
    h200 = load_profile("h200")
    rows = [r for r in rows_of(read_records(PACKAGED, h200).records, h200) if not r.fitted]
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


@dataclass(frozen=True)
class Gained:
    """Measured microseconds of one tuned call."""

    default: float
    library: float
    flags: float
    own: float

    @classmethod
    def of(cls, row: TunedRow) -> "Gained | None":
        """Read a row; None where SGLang's default was not measured."""
        default = _time(row.sglang_default)
        if default is None:
            return None
        flags = _time(row.best_sglang) or default
        library = min(flags, default / (row.gain or 1.0))
        return cls(default, library, flags, min(library, _time(row.best) or default))


def gains() -> str:
    """What the shipped configurations gain over SGLang's default."""
    found: dict[str, list[Gained]] = {}
    for path in sorted(CONFIGURATIONS.glob("*.json")):
        configuration = read(path)
        for table in TABLES:
            for row in configuration.table(table).values():
                gained = Gained.of(row)
                if gained is not None:
                    found.setdefault(shape(path), []).append(gained)
    total = [gained for group in found.values() for gained in group]
    lines = [
        "| shipped configurations (NVIDIA H200) | calls | SGLang's flags | any library call | apart: own kernels |",
        "|---|--:|--:|--:|--:|",
        *(f"| {name} | {len(group)} | {ratios(group)} |" for name, group in found.items()),
        f"| all | {len(total)} | {ratios(total)} |",
    ]
    weighted = [sum(g.default for g in total) / sum(getattr(g, name) for g in total) for name in CHOICES]
    return "\n".join(
        [
            *lines,
            "",
            "Time of SGLang's default over that of the best that each can reach, geometric mean over the calls; "
            f"by time {', '.join(f'{w:.3f}' for w in weighted)} (`python benchmarks/gains.py` shows each shape).",
        ]
    )


CHOICES = ("flags", "library", "own")


def ratios(group: Sequence[Gained]) -> str:
    """Geometric means of the default's time over those of the choices."""
    means = [math.exp(fmean(math.log(g.default / getattr(g, name)) for g in group)) for name in CHOICES]
    return " | ".join(f"{mean:.3f}×" for mean in means)


def _time(choice: Choice | None) -> float | None:
    return None if choice is None else choice.measured_us


def shape(path: Path) -> str:
    """The class of shapes that a configuration's file name tells."""
    parts = dict(p.split("=", 1) for p in path.stem.split(",") if "=" in p)
    words = ["MLA" if parts["family"] == "mla" else "GQA, MQA"]
    words += [f"head dim {parts['hd']}"] if parts["family"] != "mla" else ["16, 64 and 128 heads"]
    words += [f"window {parts['window']}"] if "window" in parts else []
    words += ["sinks"] if "sinks" in parts else []
    words += [f"{parts['kv_dtype']} KV"] if parts["kv_dtype"] != "auto" else []
    return ", ".join(words)


def searches() -> str:
    """How few measurements find the best, replayed on the records."""
    sys.path.insert(0, str(ROOT / "benchmarks"))
    from replay import LEAST, load_cases, report

    return "\n".join(report(list(load_cases(PACKAGED, LEAST))))


BLOCKS: dict[str, Callable[[], str]] = {"predict": example, "accuracy": accuracy, "gain": gains, "replay": searches}


def block(name: str) -> re.Pattern[str]:
    """Where a generated part stands."""
    return re.compile(rf"(<!-- {name}:begin -->\n)(.*?)(<!-- {name}:end -->)", re.DOTALL)


def refreshed(text: str) -> str:
    """The README with its generated parts as they are now."""
    for name, make in BLOCKS.items():
        content = make()
        text = block(name).sub(lambda found, content=content: f"{found[1]}{content}\n{found[3]}", text)
    return text
