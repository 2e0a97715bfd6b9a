"""Where the figures come from: device, versions, dates, conditions, sources."""

from collections import Counter
from importlib.metadata import version
from statistics import median

from cli.report.source import Source
from cli.report.tables import Cell, Column, DataTable, TableRow, number
from cli.report.words import percent


def provenance_facts(source: Source, command: str) -> list[tuple[str, str]]:
    """List what a reader needs to judge and repeat the report."""
    records, device = source.records, source.records[0].device
    times = sorted(r.time for r in records)
    clocks = [r.sm_clock_mhz for r in records if r.sm_clock_mhz]
    power = [r.power_w for r in records if r.power_w]
    facts = [
        ("Device", f"{device.name}, compute capability {device.cc or '–'}, {device.sms or '–'} SMs"),
        ("Driver", device.driver or "not recorded"),
        ("PyTorch, CUDA", f"{records[0].torch or '–'}, {records[0].cuda or '–'}"),
        ("Measurements", _outcomes(source)),
        ("Taken", times[0] if times[0] == times[-1] else f"{times[0]} to {times[-1]}"),
        ("Noise", f"median spread of repeats {percent(median(r.noise for r in source.rows))} (p90 − p10 over median)"),
    ]
    if clocks:
        facts.append(("SM clock", f"median {median(clocks):.0f} MHz, from {min(clocks):.0f} to {max(clocks):.0f}"))
    if power:
        facts.append(("Power", f"median {median(power):.0f} W, at most {max(power):.0f} W"))
    measured = source.profile.measured
    facts += [
        ("Profile", f"{source.profile.id}, " + (f"calibrated {measured.date[:10]}" if measured else "not calibrated")),
        (
            "Evidence",
            ", ".join(f"{name} {n}" for name, n in Counter(r.prediction.evidence for r in source.rows).items()),
        ),
        ("Source", source.name),
        ("Tool", f"attnroof {version('attnroof')}: {command}"),
    ]
    return facts + [("Remark", text) for text in source.remarks]


def _outcomes(source: Source) -> str:
    counts = Counter(r.outcome for r in source.records)
    return ", ".join(f"{n:,} {name}" for name, n in counts.most_common()) + f" over {len(source.workloads):,} workloads"


def library_table(source: Source) -> DataTable:
    """List the libraries behind the backends."""
    counts = Counter(
        (r.backend, r.implementation, r.implementation_version) for r in source.records if r.outcome == "measured"
    )
    rows = tuple(
        TableRow((Cell(backend), Cell(library), Cell(release), number(n, f"{n:,}")), {})
        for (backend, library, release), n in sorted(counts.items())
    )
    columns = (Column("backend"), Column("implementation"), Column("version"), Column("measurements", number=True))
    return DataTable("library-table", "Libraries behind the backends", columns, rows)
