"""`attnroof accuracy`: how far the estimates are from the recorded measurements."""

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cli.errors import AnswerIsNo, WrongInput
from cli.options import JsonOption

if TYPE_CHECKING:
    from costmodel.accuracy import Row, Summary
    from costmodel.perturbation import Agreement
    from costmodel.regret import Regret

RecordsOption = Annotated[Path | None, typer.Option("--records", help="File or folder of records; else the shipped.")]
AllOption = Annotated[bool, typer.Option("--all", help="Count the workloads that were fitted on, too.")]


def accuracy(records: RecordsOption = None, include_fitted: AllOption = False, as_json: JsonOption = False) -> None:
    """Compare estimates with records, per device, backend and phase, on workloads that were not fitted on."""
    from cli.output import stderr_console, write_json
    from costmodel.accuracy import grouped, rows_of, summarize
    from costmodel.machine import machine_of
    from costmodel.perturbation import bound_agreement
    from costmodel.regret import choice_regret, split_regret
    from executors.recordings import PACKAGED, independent_files, read_records

    source = records or PACKAGED
    if not source.exists():
        raise WrongInput(f"no records at {source}: give --records with a .jsonl or .jsonl.xz file, or their folder")
    loaded = read_records(source)
    if loaded.damaged:
        stderr_console().print(f"{loaded.damaged} damaged lines left out")
    drawn = by_id(by_device(read_records(independent_files()).records)) if records is None else {}
    documents: list[dict[str, Any]] = []
    for profile, own in by_device(loaded.records):
        rows = [r for r in rows_of(own, profile) if include_fitted or not r.fitted]
        if not rows:
            continue
        groups = {key: summarize(group) for key, group in grouped(rows, lambda r: (r.backend, r.phase)).items()}
        choices = {phase: choice_regret(group) for (phase,), group in grouped(rows, lambda r: (r.phase,)).items()}
        splits = {name: split_regret(group) for (name,), group in grouped(rows, lambda r: (r.backend,)).items()}
        bounds = bound_agreement(rows, machine_of(profile))
        later = drawn.get(profile.id, [])
        independent = independent_groups(rows_of(later, profile))
        capped = capped_figures(rows_of([*own, *later], profile, sustained=True))
        apart = {"independent": independent, "power_capped": capped}
        documents.append(document(profile.id, groups, choices, splits, bounds) | apart)
        if not as_json:
            print_device(profile.name, groups, summarize(rows))
            print_regrets(choices, splits)
            if bounds is not None:
                print_bounds(bounds)
            print_apart(independent, capped)
    if not documents:
        raise AnswerIsNo(f"no record in {source} can be compared: none is a cold measurement of a known device")
    if as_json:
        write_json(documents)


def by_device(records: Any) -> list[tuple[Any, list[Any]]]:
    """Group records by the profile of the device they name, most records first; others are left out."""
    from hwprofiles import UnknownProfile, load_profile

    found: dict[str, tuple[Any, list[Any]]] = {}
    for record in records:
        name = record.device.name
        if name not in found:
            try:
                found[name] = (load_profile(name), [])
            except UnknownProfile:
                found[name] = (None, [])
        found[name][1].append(record)
    known = [(profile, rows) for profile, rows in found.values() if profile is not None]
    return sorted(known, key=lambda pair: -len(pair[1]))


def by_id(devices: list[tuple[Any, list[Any]]]) -> dict[str, list[Any]]:
    """Give the records of each device by the id of its profile."""
    return {profile.id: rows for profile, rows in devices}


def independent_groups(rows: "list[Row]") -> list[dict[str, Any]]:
    """Give the errors on records that were drawn after the fit, per backend and phase."""
    from costmodel.accuracy import grouped, summarize

    groups = grouped(rows, lambda r: (r.backend, r.phase))
    return [{"backend": b, "phase": p, **asdict(summarize(group))} for (b, p), group in groups.items()]


def capped_figures(rows: "list[Row]") -> dict[str, Any] | None:
    """Count the records measured under the power cap, which are not what is estimated, and give their mean error."""
    if not rows:
        return None
    return {"rows": len(rows), "mean_signed": sum(r.error for r in rows) / len(rows)}


def document(
    device: str,
    groups: "dict[tuple[str, ...], Summary]",
    choices: "dict[str, Regret | None]",
    splits: "dict[str, Regret | None]",
    bounds: "Agreement | None",
) -> dict[str, Any]:
    """Give one device's figures as JSON; shares, not per cent."""
    return {
        "device": device,
        "groups": [{"backend": b, "phase": p, **asdict(s)} for (b, p), s in groups.items()],
        "choice_regret": {phase: asdict(r) for phase, r in choices.items() if r},
        "split_regret": {backend: asdict(r) for backend, r in splits.items() if r},
        "bound_agreement": None if bounds is None else {"rows": bounds.rows, "share": bounds.share},
    }


COLUMNS = ("rows", "mean", "p50", "p95", "<=10%", "time", "short", "long", "in 90%", "roof", "2 con", "noise")
BASELINES = 3
"""Last columns, which are left out of a narrow terminal."""
NARROW = 96
LEGEND = (
    "rows off by at most 10 % (<=10%); mean weighted by time (time), of calls below 30 us (short) and "
    "from 30 us (long); rows inside the 90 % interval"
)
LEGEND_BASELINES = (
    "mean error of the plain roofline (roof) and of one with two fitted constants (2 con); "
    "spread of the records (noise)"
)


def print_device(name: str, groups: "dict[tuple[str, ...], Summary]", total: "Summary") -> None:
    """Print the errors of one device, as wide as the terminal is."""
    from rich.table import Table

    from cli.output import stdout_console

    console = stdout_console()
    shown = len(COLUMNS) if console.width >= NARROW else len(COLUMNS) - BASELINES
    title = f"{name}: estimates against records, errors in %"
    table = Table(title=title, title_justify="left", box=None, padding=(0, 1, 0, 0), pad_edge=False)
    table.add_column("backend", no_wrap=True)
    table.add_column("phase", no_wrap=True)
    for head in COLUMNS[:shown]:
        table.add_column(head, justify="right", no_wrap=True)
    for (backend, phase), summary in groups.items():
        table.add_row(backend, phase, *cells(summary)[:shown])
    table.add_row("all", "", *cells(total)[:shown])
    console.print(table)
    console.print(LEGEND if shown < len(COLUMNS) else f"{LEGEND}; {LEGEND_BASELINES}")


def cells(s: "Summary") -> list[str]:
    """Give a summary as table cells."""

    def percent(value: float | None) -> str:
        return "-" if value is None else f"{100 * value:.1f}"

    shares = (s.mean, s.median, s.p95, s.within, s.weighted, s.mean_short, s.mean_long, s.coverage)
    return [str(s.rows), *map(percent, (*shares, s.roofline, s.two_constants, s.noise))]


def print_regrets(choices: "dict[str, Regret | None]", splits: "dict[str, Regret | None]") -> None:
    """Print what choosing without measuring would have cost."""
    from cli.output import stdout_console

    console = stdout_console()
    named = [(f"backend and knobs, {phase}", r) for phase, r in choices.items()]
    named += [(f"split count of {backend}", r) for backend, r in splits.items()]
    for name, r in named:
        if r is not None:
            own = "" if r.default is None else f"; the library's own choice {r.default:.3f}"
            console.print(
                f"choice of {name}: {r.mean:.3f} of the best measured time over {r.workloads} workloads, "
                f"worst {r.worst:.2f}, best one found {100 * r.top1:.0f} %{own}"
            )


def print_bounds(bounds: "Agreement") -> None:
    """Print how often the named bound is the one that the records show."""
    from cli.output import stdout_console

    stdout_console().print(
        f"bound named: {100 * bounds.share:.1f} % of {bounds.rows} rows agree with what twice the splits did to them"
    )


def print_apart(independent: list[dict[str, Any]], capped: dict[str, Any] | None) -> None:
    """Print what is not in the table: records drawn after the fit, and those that the power cap slowed down."""
    from cli.output import stdout_console

    console = stdout_console()
    for g in independent:
        console.print(
            f"independent draw, {g['backend']} {g['phase']}: {100 * g['mean']:.1f} %, p95 {100 * g['p95']:.1f} %, "
            f"{100 * g['coverage']:.0f} % in the interval, {g['rows']} rows"
        )
    if capped is not None:
        console.print(
            f"{capped['rows']} rows under the power cap left out; their mean signed error is "
            f"{100 * capped['mean_signed']:+.1f} %"
        )
