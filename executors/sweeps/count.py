"""How many records there are, by backend and kind of workload, as a Markdown table."""

from collections import Counter
from collections.abc import Iterable

from costmodel import Record

KINDS = ("decode", "extend", "verify", "mixed", "MLA", "fp8, fp16, windows, other dims")
_COMMON_DIM = 128


def kind(record: Record) -> str:
    """Sort a record under one of `KINDS`."""
    attention = record.to_attention()
    if attention.kv_lora_rank is not None:
        return "MLA"
    plain = attention.dtype == attention.kv_dtype == "bf16" and attention.head_dim == attention.value_dim == _COMMON_DIM
    masked = attention.sliding_window or attention.chunk_size or attention.sinks or attention.logit_soft_cap
    return record.batch.phase if plain and not masked else KINDS[-1]


def table(records: Iterable[Record]) -> str:
    """Count measured records by kind, and the others by outcome."""
    measured: dict[str, Counter[str]] = {}
    others: dict[str, Counter[str]] = {}
    for record in records:
        counts = measured.setdefault(record.backend, Counter())
        failed = others.setdefault(record.backend, Counter())
        if record.outcome == "measured":
            counts[kind(record)] += 1
        else:
            failed[record.outcome] += 1
    lines = [
        _line(["backend", *KINDS, "all measured", "not measured"]),
        _line(["---", *["---:"] * (len(KINDS) + 1), "---"]),
    ]
    for backend in sorted(measured):
        counts, failed = measured[backend], others[backend]
        cells = [str(counts[k]) for k in KINDS]
        lines.append(_line([f"`{backend}`", *cells, str(counts.total()), _words(failed)]))
    totals = sum(measured.values(), Counter())
    lines.append(
        _line(["all", *(str(totals[k]) for k in KINDS), str(totals.total()), _words(sum(others.values(), Counter()))])
    )
    return "\n".join(lines)


def _words(counts: Counter[str]) -> str:
    return ", ".join(f"{n} {outcome}" for outcome, n in sorted(counts.items())) or "-"


def _line(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"
