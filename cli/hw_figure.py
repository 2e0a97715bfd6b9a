"""The roofline picture: attainable FLOP/s over arithmetic intensity, for one or several devices."""

from collections.abc import Sequence
from pathlib import Path

from cli.errors import WrongInput
from hwprofiles import Profile

FORMATS = (".png", ".svg", ".pdf")
_INTENSITIES = [2.0 ** (k / 4) for k in range(-8, 57)]


def write_roofline(profiles: Sequence[Profile], dtypes: Sequence[str], out: Path) -> None:
    """Draw the rooflines of all devices in all dtypes they know; measured roofs are dashed.

    Raises:
        WrongInput: matplotlib is missing, the format is not one of `FORMATS`, or no device has a roof to draw.
    """
    if out.suffix not in FORMATS:
        raise WrongInput(f"--out {out}: the picture's format is not among {', '.join(FORMATS)}")
    roofs = [
        (f"{p.name}, {dtype}", p.memory_bytes_per_s, p.matrix_flops_per_s[dtype], False)
        for p in profiles
        for dtype in dtypes
        if p.memory_bytes_per_s and dtype in p.matrix_flops_per_s
    ]
    roofs += [
        (f"{p.name}, {dtype}, measured", p.measured.read_bytes_per_s, p.measured.matrix_flops_per_s[dtype], True)
        for p in profiles
        for dtype in dtypes
        if p.measured and p.measured.read_bytes_per_s and dtype in p.measured.matrix_flops_per_s
    ]
    if not roofs:
        names = ", ".join(p.id for p in profiles)
        raise WrongInput(f"{names}: no bandwidth, or no rate in {', '.join(dtypes)}; see 'attnroof hw show'")
    try:
        import matplotlib
    except ImportError:
        raise WrongInput("the picture needs matplotlib: pip install 'attnroof[plots]'") from None
    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(figsize=(9, 6), layout="constrained")
    for label, bandwidth, peak, measured in roofs:
        style = "--" if measured else "-"
        ridge = peak / bandwidth
        intensities = sorted((*_INTENSITIES, ridge))
        roof = [min(peak, bandwidth * x) for x in intensities]
        (line,) = axes.plot(intensities, roof, style, label=label.replace("$", r"\$"))
        axes.plot([ridge], [peak], "o", color=line.get_color())
        axes.annotate(f"{ridge:.0f}", (ridge, peak), textcoords="offset points", xytext=(4, -12), fontsize=8)
    axes.set(xscale="log", yscale="log", xlabel="FLOP per byte of memory traffic", ylabel="FLOP/s attainable")
    axes.set_title("Rooflines, dense; the ridge point is marked")
    axes.grid(True, which="both", alpha=0.25)
    axes.legend(fontsize=8)
    out.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(out, dpi=150)
    plt.close(figure)
