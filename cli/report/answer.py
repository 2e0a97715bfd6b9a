"""The answer in one sentence: what to use on this device, and why."""

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from math import exp, log

from cli.report.palette import colour_of
from cli.report.source import Source, Workload
from cli.report.tables import Cell, Column, DataTable, TableRow, number
from cli.report.words import PHASE_NAMES, count_of, percent

VERBS = {"extend": "prefill", "decode": "decode"}
LEAST_GAIN = 0.01
"""Losses against the best below this are not worth a word."""
FEW = 3


@dataclass(frozen=True, slots=True)
class Standing:
    """How one backend does at its defaults, over the workloads of a phase that several backends ran."""

    backend: str
    loss: float
    """Geometric mean of its time over the fastest backend's, minus one."""
    wins: float
    """Share of workloads where it is the fastest."""
    workloads: int


def standings(workloads: Sequence[Workload]) -> list[Standing]:
    """Rank backends that ran at least half of the contested workloads, smallest loss first."""
    contested = _contested(workloads)
    ratios: dict[str, list[float]] = defaultdict(list)
    for w in contested:
        fastest = min(r.measured for r in w.defaults.values())
        for backend, row in w.defaults.items():
            ratios[backend].append(row.measured / fastest)
    found = [
        Standing(name, exp(sum(map(log, own)) / len(own)) - 1, sum(r == 1 for r in own) / len(own), len(own))
        for name, own in ratios.items()
        if 2 * len(own) >= len(contested)
    ]
    return sorted(found, key=lambda s: s.loss)


def too_rare(workloads: Sequence[Workload]) -> list[str]:
    """Name the backends that ran fewer than half of the contested workloads, and so have no standing."""
    contested = _contested(workloads)
    runs = Counter(backend for w in contested for backend in w.defaults)
    return sorted(backend for backend, count in runs.items() if 2 * count < len(contested))


def _contested(workloads: Sequence[Workload]) -> list[Workload]:
    return [w for w in workloads if len(w.defaults) > 1]


def answer(source: Source) -> str:
    """Say in one sentence which backends to use, and why."""
    return _tuned(source) if source.configurations else _recorded(source)


def details(source: Source) -> str:
    """Say how clear the answer is, and what binds."""
    parts, rare = [], set[str]()
    for phase in ("extend", "decode"):
        rare |= set(too_rare([w for w in source.workloads if w.batch.phase == phase]))
        ranked = standings([w for w in source.workloads if w.batch.phase == phase])
        if len(ranked) > 1:
            first, second = ranked[:2]
            lead = (1 + second.loss) / (1 + first.loss) - 1
            clear = f"{percent(lead)} ahead of" if lead > LEAST_GAIN else "level with"
            parts.append(
                f"For {PHASE_NAMES[phase]}, {first.backend} is the fastest in {percent(first.wins, 0)} of "
                f"{first.workloads} workloads and on average {clear} {second.backend}."
            )
    if rare:
        parts.append(f"Measured on too few of these workloads to be compared here: {', '.join(sorted(rare))}.")
    return " ".join([*parts, binding(source)]).strip()


def _recorded(source: Source) -> str:
    name = source.profile.name
    ranked = {p: standings([w for w in source.workloads if w.batch.phase == p]) for p in ("extend", "decode")}
    firsts = [(phase, found[0]) for phase, found in ranked.items() if found]
    if not firsts:
        return f"On {name}, no workload was measured with more than one backend: there is nothing to choose."
    uses = _uses([(phase, s.backend) for phase, s in firsts])
    losses = " and ".join(percent(s.loss) for _, s in firsts)
    they = "they lose" if len(firsts) > 1 else "it loses"
    return f"On {name}, {uses}: at default knobs {they} least against the fastest backend, {losses} on average."


def _tuned(source: Source) -> str:
    from tuner.reduce import NothingReachable, reduce_to_pair

    configuration = max(source.configurations, key=lambda c: len(c.rows))
    try:
        pair = reduce_to_pair(configuration)
    except NothingReachable:
        pair = None
    sides = [(p, s) for p, s in (("extend", pair.prefill), ("decode", pair.decode)) if s] if pair else []
    uses = _uses([(phase, side.choice.backend) for phase, side in sides])
    text = f"On {source.profile.name}, {uses or 'keep the default, which no measured choice of the server beats'}"
    gains = [row.gain for c in source.configurations for row in c.rows if row.gain]
    mean = exp(sum(map(log, gains)) / len(gains)) if gains else 1.0
    batches = count_of(len(gains), "measured batch", "measured batches")
    if mean > 1 + LEAST_GAIN:
        return f"{text}: the tuned choices are {mean:.2f}× as fast as the default over {batches}."
    return f"{text}: over {batches} nothing beats the default by more than the noise."


def _uses(pairs: Sequence[tuple[str, str]]) -> str:
    if len(pairs) == 2 and pairs[0][1] == pairs[1][1]:
        return f"prefill and decode with {pairs[0][1]}"
    return " and ".join(f"{VERBS[phase]} with {backend}" for phase, backend in pairs)


def binding(source: Source) -> str:
    """Say what limits prefill and decode, from the model's account of the fastest candidates."""
    parts = []
    for phase in ("extend", "decode"):
        bounds = Counter(w.best.prediction.bound for w in source.workloads if w.batch.phase == phase)
        if sum(bounds.values()) < FEW:
            continue
        (name, count), total = bounds.most_common(1)[0], sum(bounds.values())
        parts.append(f"{PHASE_NAMES[phase]} is bound by {_WHAT[name]} in {percent(count / total, 0)} of workloads")
    text = "; ".join(parts)
    return f"{text[0].upper()}{text[1:]}." if text else ""


_WHAT = {
    "memory": "memory bandwidth",
    "compute": "the matrix units",
    "softmax": "exponentials",
    "latency": "latency (too little work to fill the device)",
    "host": "the host",
}


def standings_table(source: Source) -> DataTable:
    """List how the backends do at their defaults, by phase."""
    rows = []
    for phase, name in PHASE_NAMES.items():
        for s in standings([w for w in source.workloads if w.batch.phase == phase]):
            cells = (
                Cell(name),
                Cell(s.backend, colour=colour_of(s.backend)),
                number(1 + s.loss, f"{1 + s.loss:.2f}×"),
                Cell(percent(s.wins, 0), s.wins, bar=s.wins),
                number(s.workloads, str(s.workloads)),
            )
            rows.append(TableRow(cells, {"phase": phase, "backend": s.backend}))
    columns = (
        Column("phase"),
        Column("backend"),
        Column("time over the fastest", number=True),
        Column("fastest in", number=True),
        Column("workloads", number=True),
    )
    return DataTable("standings-table", "Backends at default knobs, all shapes", columns, tuple(rows))
