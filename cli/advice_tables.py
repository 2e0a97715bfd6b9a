"""Advice as tables: the verdict, the pairs, the parts of the recommended one's steps, the Pareto front."""

from typing import TYPE_CHECKING, Any

from cli.advice import recorded_json
from cli.output import print_table, stdout_console

if TYPE_CHECKING:
    from collections.abc import Sequence

    from cli.recorded import Recorded
    from costmodel.serving import Advice, Asked, Choice, Point

SHOWN = 8
"""Pairs in the table; JSON has all."""
SHORTEST_COMPILE_S = 0.1
NARROW = 100
"""Columns below which page sizes are left to JSON."""


def print_advice(advice: "Advice", asked: "Asked", recorded: "Recorded", model: str) -> None:
    """Print the verdict, the pairs, the parts of the recommended one's steps, and what would settle it."""
    from costmodel.serving import best_within, disaggregate, front, points, to_be_sure

    console, load = stdout_console(), advice.load
    traffic = f"{load.rate:g} requests/s" if load.rate is not None else f"{load.concurrency} requests at a time"
    console.print(advice.verdict, markup=False, soft_wrap=True)
    title = (
        f"{asked.model.name} on {asked.parallel.tp} x {asked.profile.name}: {load.isl} in, {load.osl} out, {traffic}"
    )
    print_table(_choices_table(title, advice))
    for row in _notes(advice, recorded):
        console.print(row, markup=False, soft_wrap=True)
    print_table(_parts_table(advice.recommended))
    apart = disaggregate(asked, [c.pair for c in advice.choices], load, recorded.seconds)
    if apart is not None:
        console.print(
            f"apart: {apart.prefill_backend} prefill on {apart.prefill_servers:.2f} servers for each "
            f"{apart.decode_backend} decode server: TTFT {apart.ttft_seconds * 1e3:.1f} ms "
            f"({apart.transfer_seconds * 1e3:.2f} ms of it KV transfer), TPOT {apart.tpot_seconds * 1e3:.2f} ms, "
            f"{apart.tokens_per_s:.0f} tokens/s a GPU (attention from {apart.evidence})",
            markup=False,
            soft_wrap=True,
        )
    evaluated = points(asked, [c.pair for c in advice.choices], load, recorded.seconds)
    print_table(_front_table(front(evaluated)))
    if advice.slo.given:
        console.print(_within(best_within(evaluated, advice.slo)), markup=False, soft_wrap=True)
    for command in to_be_sure(advice, model):
        console.print(f"to be sure: {command}", markup=False, soft_wrap=True)


def _choices_table(title: str, advice: "Advice") -> Any:
    from rich.table import Table

    table = Table(title=title, title_justify="left")
    table.add_column("prefill + decode", no_wrap=True)
    wide = stdout_console().width >= NARROW
    for name in (*(("page",) if wide else ()), "TTFT ms", "TPOT ms", "tokens/s a GPU"):
        table.add_column(name, justify="right")
    table.add_column("attention from" if wide else "from", no_wrap=True)
    rows = [("", choice) for choice in advice.choices[:SHOWN]]
    shown = {choice.name for _, choice in rows}
    rows += [("", choice) for choice in (advice.ahead,) if choice.name not in shown]
    if advice.default is not None:
        rows.append(("SGLang: ", advice.default))
    for mark, choice in rows:
        s = choice.service
        table.add_row(
            mark + choice.name + (" ✗" if choice.missed else ""),
            *((str(choice.pair.page_size),) if wide else ()),
            _range(s.rates.ttft_seconds * 1e3, s.best.ttft_seconds * 1e3, s.worst.ttft_seconds * 1e3),
            _range(s.rates.tpot_seconds * 1e3, s.best.tpot_seconds * 1e3, s.worst.tpot_seconds * 1e3),
            _range(s.rates.tokens_per_s, s.worst.tokens_per_s, s.best.tokens_per_s),
            s.evidence,
        )
    return table


def _notes(advice: "Advice", recorded: "Recorded") -> list[str]:
    chosen = advice.recommended
    memory = chosen.service.memory
    rows = []
    if any(choice.missed for choice in advice.choices):
        rows.append("✗ misses the SLO")
    if len(advice.choices) > SHOWN:
        rows.append(f"{len(advice.choices) - SHOWN} more pairs run; --json has them all")
    if not advice.ahead.measured:
        rows.append("structure: nobody measured this attention; such a pair is never recommended")
    names = sorted(name for name in advice.refused if " + " not in name)
    rows.append(f"cannot be used: {', '.join(names)} (reasons with --json)" if names else "every backend can be used")
    rows.append(
        f"memory of a rank: {memory.weight_bytes / 1e9:.1f} GB of weights, {memory.kv_tokens} KV tokens "
        f"({memory.static_fraction:g} of {memory.device_bytes / 1e9:.1f} GB, SGLang's default)"
    )
    rows += [f"approximate: {note}" for note in advice.notes]
    facts = recorded_json(chosen, recorded)
    errors = _errors(advice, recorded)
    if errors:
        rows.append(f"largest recorded error over its tolerance (1 is the limit): {errors}")
    if facts["attention_joules_per_token"] is not None:
        rows.append(f"attention of a decoded token takes {facts['attention_joules_per_token']:.3g} J (recorded power)")
    if facts["compile_s"] and facts["compile_s"] >= SHORTEST_COMPILE_S:
        rows.append(f"start-up compiles for up to {facts['compile_s']:.1f} s (recorded)")
    return rows


def _errors(advice: "Advice", recorded: "Recorded") -> str:
    """Name the recorded numerical error of every backend in the table."""
    shown = [*advice.choices[:SHOWN], advice.ahead, *([advice.default] if advice.default else [])]
    names = dict.fromkeys(name for choice in shown for name in (choice.pair.prefill, choice.pair.decode))
    known = [(name, recorded.relative_error.get(name)) for name in names]
    return ", ".join(f"{name} {error:.2f}" for name, error in known if error is not None)


def _parts_table(choice: "Choice") -> Any:
    from rich.table import Table

    table = Table(title=f"parts of {choice.name}'s steps, ms", title_justify="left")
    table.add_column("part")
    for name in ("prefill", "from", "decode", "from"):
        table.add_column(name, justify="right" if name != "from" else "left")
    prefill, decode = choice.service.prefill, choice.service.decode
    for name in dict.fromkeys((*prefill.parts, *decode.parts)):
        a, b = prefill.parts[name], decode.parts[name]
        table.add_row(name, f"{a.seconds * 1e3:.3f}", a.evidence, f"{b.seconds * 1e3:.3f}", b.evidence)
    table.add_row("step", f"{prefill.seconds * 1e3:.3f}", "", f"{decode.seconds * 1e3:.3f}", "")
    return table


def _within(best: "Point | None") -> str:
    if best is None:
        return "no pair keeps the SLO at any number of requests from 1 to 512 at a time"
    rates = best.choice.service.rates
    doubt = "" if best.choice.measured else "; nobody measured its attention"
    felt = f"TTFT {rates.ttft_seconds * 1e3:.1f} ms and TPOT {rates.tpot_seconds * 1e3:.2f} ms"
    where = f"{best.choice.name} with {best.concurrency} at a time"
    return f"most throughput within the SLO: {where}, {best.tokens_per_s:.0f} tokens/s a GPU at {felt}{doubt}"


def _front_table(found: "Sequence[Point]") -> Any:
    from rich.table import Table

    table = Table(title="Pareto front: no pair and concurrency is better in both", title_justify="left")
    table.add_column("requests at a time", justify="right")
    table.add_column("prefill + decode", no_wrap=True)
    for name in ("TTFT ms", "TPOT ms", "tokens/s a GPU"):
        table.add_column(name, justify="right")
    table.add_column("attention from")
    for point in found:
        tpot = point.choice.service.rates.tpot_seconds
        values = (f"{point.ttft_seconds * 1e3:.1f}", f"{tpot * 1e3:.2f}", f"{point.tokens_per_s:.0f}")
        table.add_row(str(point.concurrency), point.choice.name, *values, point.choice.service.evidence)
    return table


def _range(value: float, low: float, high: float) -> str:
    """Give a value and its interval, the ends to three digits."""
    digits = 0 if value >= 1000 else 1 if value >= 100 else 2
    return f"{value:.{digits}f} ({_three(low)}-{_three(high)})"


def _three(value: float) -> str:
    return f"{value:.0f}" if value >= 100 else f"{value:.1f}" if value >= 10 else f"{value:.2f}"
