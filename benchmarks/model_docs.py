"""Write the fitted values and the pictures of docs/model.md: `python benchmarks/model_docs.py` (needs matplotlib)."""

import json
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
DOCUMENT = ROOT / "docs" / "model.md"
FIGURES = ROOT / "docs" / "figures"
CALIBRATIONS = ROOT / "costmodel" / "calibrations"
BEGIN, END = "<!-- fitted values: begin -->", "<!-- fitted values: end -->"
SCALES = {"seconds": (1e6, "us"), "bytes_per_s": (1e-9, "GB/s")}


def main() -> None:
    """Rewrite the table and draw one picture a backend."""
    text = DOCUMENT.read_text(encoding="utf-8")
    head, _, rest = text.partition(BEGIN)
    _, _, tail = rest.partition(END)
    DOCUMENT.write_text(f"{head}{BEGIN}\n{fitted_tables()}{END}{tail}", encoding="utf-8")
    draw()


def fitted_tables() -> str:
    """Give one Markdown table a device: variants down, fitted parameters in words."""
    parts = []
    for folder in sorted(p for p in CALIBRATIONS.iterdir() if p.is_dir()):
        parts.append(f"\n`{folder.name}`, errors on the workloads left out of the fit:\n\n")
        parts.append("| kernel | rows fitted / left out | mean, p95 error | fitted values |\n|---|---|---|---|\n")
        for file in sorted(folder.glob("*.json")):
            data = json.loads(file.read_text(encoding="utf-8"))
            parts.extend(_row(data["backend"], name, entry) for name, entry in sorted(data["variants"].items()))
    return "".join(parts) + "\n"


def _row(backend: str, variant: str, entry: dict[str, Any]) -> str:
    held = entry["held_out"]
    errors = "-" if held["mean_error"] is None else f"{held['mean_error']:.1%}, {held['p95_error']:.1%}"
    values = ", ".join(_value(name, entry["parameters"][name]) for name in entry["fitted"] if ":" not in name)
    factors = ", ".join(f"{kernel} x{factor:.2f}" for kernel, factor in entry["factors"].items())
    counts = f"{entry['rows']} / {held['rows']}"
    return f"| `{backend}` {variant} | {counts} | {errors} | {values}{'; ' + factors if factors else ''} |\n"


def _value(name: str, value: float) -> str:
    for ending, (scale, unit) in SCALES.items():
        if name.endswith(f"_{ending}"):
            return f"{name.removesuffix(f'_{ending}')} {value * scale:.3g} {unit}"
    return f"{name} {value:.3g}"


def draw() -> None:
    """Draw predicted against measured time of every record, log-log, one picture a backend."""
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt

    from costmodel.accuracy import grouped, rows_of
    from executors.recordings import read_records
    from hwprofiles import load_profile

    h200 = load_profile("h200")
    rows = rows_of(read_records(profile=h200).records, h200)
    FIGURES.mkdir(exist_ok=True)
    for (backend,), own in grouped(rows, lambda r: (r.backend,)).items():
        if len(own) < 50 or own[0].prediction.evidence != "calibrated":
            continue
        figure, axes = plt.subplots(figsize=(4.2, 4.0), dpi=90)
        for (phase,), part in grouped(own, lambda r: (r.phase,)).items():
            measured = [r.measured * 1e6 for r in part]
            axes.loglog(measured, [r.prediction.seconds * 1e6 for r in part], ".", ms=3, alpha=0.5, label=phase)
        span = [min(r.measured for r in own) * 1e6, max(r.measured for r in own) * 1e6]
        axes.loglog(span, span, "k-", lw=0.8)
        axes.fill_between(span, [s * 0.9 for s in span], [s * 1.1 for s in span], color="k", alpha=0.12, lw=0)
        axes.set(xlabel="measured, us", ylabel="predicted, us", title=f"{backend} on an H200 ({len(own)} rows)")
        axes.legend(markerscale=3)
        figure.tight_layout()
        figure.savefig(FIGURES / f"{backend}.png", metadata={"Software": None})
        plt.close(figure)


if __name__ == "__main__":
    main()
