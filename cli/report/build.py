"""From a source to the page: which sections there are and what each of them says first."""

from math import exp, log

from cli.report.accuracy import accuracy_chart, accuracy_table, judged
from cli.report.answer import answer, details, standings_table
from cli.report.charts import Chart
from cli.report.choices import rejected_table, tuned_table, winners_table
from cli.report.page import Page, Section
from cli.report.palette import colour_of
from cli.report.provenance import library_table, provenance_facts
from cli.report.roofline import roofline
from cli.report.source import Source
from cli.report.splits import split_charts
from cli.report.timeline import timelines
from cli.report.winners import winner_maps
from cli.report.words import PHASE_NAMES, count_of, percent
from costmodel.accuracy import summarize


def build(source: Source, command: str, service: Section) -> Page:
    """Bring everything together; `service` says what the backends mean for requests, or why it cannot."""
    sections = (
        *_tuned(source),
        *_choice(source),
        *_roofline(source),
        _winners(source),
        *_splits(source),
        *_timeline(source),
        _accuracy(source),
        service,
        _rejected(source),
        Section(
            "libraries",
            "What was measured",
            "Libraries and versions behind each backend.",
            tables=(library_table(source),),
        ),
    )
    phases = {w.batch.phase for w in source.workloads}
    backends = sorted({r.backend for r in source.rows})
    return Page(
        device=source.profile.name,
        date=max(r.time for r in source.records)[:10],
        answer=answer(source),
        why=details(source),
        figures=_figures(source),
        sections=sections,
        shapes=_shapes(source, [c for s in sections for c in s.charts]),
        phases=tuple((p, name) for p, name in PHASE_NAMES.items() if p in phases),
        backends=tuple((b, colour_of(b)) for b in backends),
        facts=tuple(provenance_facts(source, command)),
    )


def _shapes(source: Source, charts: list[Chart]) -> tuple[str, ...]:
    """Shape names, the one with the most kinds of charts and then the most workloads first."""
    kinds = {name: {c.name for c in charts if c.tags.get("shape") == name} for name in source.shapes}
    first = max(source.shapes, key=lambda name: (len(kinds[name]), len(source.shapes[name])))
    return (first, *sorted(name for name in source.shapes if name != first))


def _figures(source: Source) -> tuple[tuple[str, str], ...]:
    total = summarize(judged(source))
    gains = [next(iter(w.defaults.values())).measured / w.best.measured for w in source.workloads if w.defaults]
    found = [
        (
            f"{len(source.rows):,}",
            f"measurements of {count_of(len(source.workloads), 'workload')}, "
            f"{count_of(len(source.shapes), 'attention shape')}",
        ),
        (percent(total.median), f"median error of the prediction; repeats differ by {percent(total.noise)}"),
        (percent(total.coverage, 0), "of measurements inside the 90 % interval"),
    ]
    if gains:
        mean = exp(sum(map(log, gains)) / len(gains))
        found.append((f"{mean:.2f}×", f"gained by the best knobs over the best default, at most {max(gains):.2f}×"))
    return tuple(found)


def _tuned(source: Source) -> tuple[Section, ...]:
    if not source.configurations:
        return ()
    return (
        Section(
            "tuned",
            "What the configuration says",
            "The best choice of each batch, what the server can be told by flags, and what it takes by itself.",
            tables=(tuned_table(source),),
            note="Gain is the default's measured time over the best one's; noise is the half-width of that comparison. "
            "A best choice that no flag reaches needs an engine of one's own.",
        ),
    )


def _choice(source: Source) -> tuple[Section, ...]:
    table = standings_table(source)
    section = Section(
        "choice",
        "How the backends do at their defaults",
        "Each backend against the fastest one of the same workload, over the workloads that several backends ran.",
        tables=(table,),
        note="Time over the fastest is a geometric mean. A backend that is rarely the fastest can still lose least on "
        "average. attnroof's own Triton kernels cannot be chosen in a server and are left out here.",
    )
    return (section,) if table.rows else ()


def _roofline(source: Source) -> tuple[Section, ...]:
    chart = roofline(source)
    if chart is None:
        return ()
    return (
        Section(
            "roofline",
            "Where the time goes",
            "The fastest candidate of every workload under the device's roof; colour and symbol say what binds it.",
            (chart,),
            note="Across: FLOPs over the bytes that any kernel has to move. Up: FLOPs over measured time. Points under "
            "the slope wait for memory, points under the flat part for the matrix units; points far below both "
            "are too small to fill the device. Pale points are outside the filter.",
        ),
    )


def _winners(source: Source) -> Section:
    return Section(
        "winners",
        "Who wins where",
        "Fields: the model's winner at default knobs, stronger where the lead is larger; the number is the next "
        "backend's time over the winner's. Dots: measured winners.",
        tuple(winner_maps(source)),
        (winners_table(source),),
        note="A dot of another colour than its field is a workload where the model was wrong about the winner; look at "
        "the margin before you mind. Maps show even batches over pages of 64 tokens; the table holds all workloads.",
    )


def _splits(source: Source) -> tuple[Section, ...]:
    charts = split_charts(source)
    if not charts:
        return ()
    return (
        Section(
            "splits",
            "How many splits",
            "Splitting the KV cache fills idle SMs and costs a merge. Two workloads of each shape: where the best "
            "count gains most over the library's own, and where counts differ most.",
            tuple(charts),
            note="Lines are predicted, points measured with the spread of their repeats. Counts that cut the KV tiles "
            "alike share one prediction.",
        ),
    )


def _timeline(source: Source) -> tuple[Section, ...]:
    charts = timelines(source)
    if not charts:
        return ()
    return (
        Section(
            "timeline",
            "How the work fills the device",
            "One row a slot of an SM, time to the right: one workload at default and at the best measured knobs.",
            tuple(charts),
            note="This is the model's schedule of the kernel's own plan, not a trace: jobs in launch order, each to "
            "the slot that is free first, tiles at an even pace within the predicted time.",
        ),
    )


def _accuracy(source: Source) -> Section:
    total = summarize(judged(source))
    return Section(
        "accuracy",
        "How far the prediction can be trusted",
        f"Half of the rows are within {percent(total.median)}, {percent(total.within, 0)} within 10 %; the datasheet "
        f"roofline alone is off by {percent(total.roofline, 0)} on average.",
        (accuracy_chart(source),),
        (accuracy_table(source),),
        note="Only rows of workloads that the parameters were not fitted on, where there are any. The interval is "
        "meant to hold nine measurements of ten.",
    )


def _rejected(source: Source) -> Section:
    return Section(
        "rejected",
        "What is out, and why",
        f"Backends that cannot run these shapes on {source.profile.name}, and runs that gave no time.",
        tables=(rejected_table(source),),
    )
