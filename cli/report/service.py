"""What requests feel: TTFT, TPOT and throughput of the pairs of backends under one load, with intervals."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from cli.report.charts import Axis, Series, XYChart, log_ticks
from cli.report.page import Section
from cli.report.palette import colour_of
from cli.report.tables import Cell, Column, DataTable, TableRow, number
from costmodel import ConfigError, Incompatible, Model
from costmodel.serving import Advice, Asked, Choice, Load, Parallel, Point, Rates, advise, front, points
from hwprofiles import MissingValue, Profile

if TYPE_CHECKING:
    from collections.abc import Mapping

MOST_PAIRS = 8
"""Pairs that are drawn; the table holds all."""


@dataclass(frozen=True, slots=True)
class Traffic:
    """A model and the load it serves."""

    model: Model
    load: Load
    tp: int = 1


FAR_BEHIND = 2.0
"""Pairs whose throughput is below the best by more than this factor are in the table alone."""

Metric = tuple[str, str, Callable[[Rates], float], str]
METRICS: tuple[Metric, ...] = (
    ("ttft", "Time to the first token", lambda r: r.ttft_seconds * 1e3, "ms"),
    ("tpot", "Time per output token", lambda r: r.tpot_seconds * 1e3, "ms"),
    ("throughput", "Output tokens per second and GPU", lambda r: r.tokens_per_s, "tokens/s"),
)


def service_section(profile: Profile, traffic: Traffic | None, measured: "Mapping[str, float] | None") -> Section:
    """Compare the pairs, or say why they are not compared."""
    title = "What requests feel"
    if traffic is None:
        lead = "No model was given; --model, --isl, --osl and --concurrency add time to first token, time per token "
        return Section("service", title, f"{lead}and throughput of every pair of backends.")
    asked = Asked(traffic.model, profile, Parallel(traffic.tp))
    load = traffic.load
    words = f"{traffic.model.name} at TP {traffic.tp}, {load.concurrency} requests of {load.isl} + {load.osl} tokens"
    try:
        advice = advise(asked, load, "throughput", measured=measured)
        curves = points(asked, [c.pair for c in shown_pairs(advice)], load, measured)
    except (ConfigError, Incompatible, MissingValue, ValueError) as error:
        return Section("service", title, f"{words}: not compared, because {error}.")
    return Section(
        "service",
        title,
        f"{words}: {advice.verdict}.",
        (_curves(curves, words), *(_metric(advice, metric, words) for metric in METRICS)),
        (_table(advice),),
        note="A closed form for a steady load, not a simulation. Intervals are those of the attention calls alone: all "
        "else is the same for two pairs on one device, so pairs whose intervals overlap cannot be told apart. The "
        "charts hold the best pair of each decode backend, without those below half of the best throughput; the table "
        "has all.",
    )


def shown_pairs(advice: Advice) -> list[Choice]:
    """Give the best pair of each decode backend that is not far behind, best first, with SGLang's default."""
    best = max(choice.service.rates.tokens_per_s for choice in advice.choices)
    by_decode: dict[str, Choice] = {}
    for choice in advice.choices:
        if choice.service.rates.tokens_per_s * FAR_BEHIND >= best:
            by_decode.setdefault(choice.pair.decode, choice)
    shown = list(by_decode.values())[:MOST_PAIRS]
    for further in (advice.ahead, advice.default):
        if further is not None and all(choice.name != further.name for choice in shown):
            shown.append(further)
    return shown


def _label(advice: Advice, choice: Choice) -> str:
    is_default = advice.default is not None and choice.name == advice.default.name
    if is_default:
        return f"{choice.name} (SGLang's default)"
    return choice.name if choice.measured else f"{choice.name} (unmeasured)"


def _metric(advice: Advice, metric: Metric, words: str) -> XYChart:
    name, title, value, unit = metric
    chosen = shown_pairs(advice)
    y = tuple(value(c.service.rates) for c in chosen)
    ends = [sorted((value(c.service.fast_attention), value(c.service.slow_attention))) for c in chosen]
    best = (max if name == "throughput" else min)(zip(y, chosen, strict=True), key=lambda item: item[0])
    series = Series(
        name=f"{title.lower()}, {unit}",
        x=tuple(float(i) for i in reversed(range(len(chosen)))),
        y=y,
        colour="accent",
        hover=tuple(f"{_label(advice, c)}<br>{v:.4g} {unit}" for c, v in zip(chosen, y, strict=True)),
        low=tuple(low for low, _ in ends),
        high=tuple(high for _, high in ends),
    )
    ticks = tuple(
        (float(len(chosen) - 1 - i), _label(advice, c).replace(" (", " · ").removesuffix(")"))
        for i, c in enumerate(chosen)
    )
    return XYChart(
        name=f"service-{name}",
        title=title,
        alt=f"{words}: best {_label(advice, best[1])} with {best[0]:.4g} {unit}",
        x=Axis("", ticks=ticks, span=(-0.5, len(chosen) - 0.5)),
        y=Axis(unit),
        series=(series,),
        flip=True,
    )


def _curves(found: Sequence[Point], words: str) -> XYChart:
    by_pair: dict[str, list[Point]] = {}
    for point in found:
        by_pair.setdefault(point.choice.name, []).append(point)
    symbols = ("circle", "square", "diamond", "triangle-up", "cross")
    series = []
    for i, (name, own) in enumerate(by_pair.items()):
        decode = own[0].choice.pair.decode
        hover = tuple(
            f"{name}<br>{p.concurrency} at a time<br>TTFT {p.ttft_seconds * 1e3:.4g} ms, {p.tokens_per_s:.0f} tokens/s"
            for p in own
        )
        x, y = tuple(p.ttft_seconds * 1e3 for p in own), tuple(p.tokens_per_s for p in own)
        series.append(Series(name, x, y, colour_of(decode), symbol=symbols[i % len(symbols)], hover=hover))
    best = front(found)
    x, y = tuple(p.ttft_seconds * 1e3 for p in best), tuple(p.tokens_per_s for p in best)
    measured = any(p.choice.measured for p in best)
    series.append(Series("best of the measured pairs" if measured else "best of all pairs", x, y, "ink", "dash"))
    every = [(p.ttft_seconds * 1e3, p.tokens_per_s) for p in found]
    xs, ys = [x for x, _ in every], [y for _, y in every]
    return XYChart(
        name="service-front",
        title="Throughput against time to the first token, 1 to 512 requests at a time",
        alt=f"{words}, over concurrency: {len(by_pair)} pairs; the front has {len(best)} points",
        x=Axis("time to the first token, ms", log=True, ticks=log_ticks(min(xs) * 0.9, max(xs) * 1.1)),
        y=Axis("tokens/s and GPU", log=True, ticks=log_ticks(min(ys) * 0.9, max(ys) * 1.1)),
        series=tuple(series),
    )


def _table(advice: Advice) -> DataTable:
    names = ("TTFT ms", "TPOT ms", "tokens/s and GPU", "page", "KV tokens")
    columns = (Column("prefill + decode"), *(Column(name, number=True) for name in names), Column("evidence"))
    rows = []
    for choice in advice.choices:
        s = choice.service
        cells = [Cell(_label(advice, choice), colour=colour_of(choice.pair.decode))]
        for _, _, value, _ in METRICS:
            low, high = sorted((value(s.fast_attention), value(s.slow_attention)))
            cells.append(number(value(s.rates), f"{value(s.rates):.4g} ({low:.4g} to {high:.4g})"))
        cells.append(number(choice.pair.page_size, str(choice.pair.page_size)))
        cells += [number(s.memory.kv_tokens, f"{s.memory.kv_tokens:,}"), Cell(s.evidence)]
        rows.append(TableRow(tuple(cells), {}))
    return DataTable("service-table", "Pairs of backends under this load, best throughput first", columns, tuple(rows))
