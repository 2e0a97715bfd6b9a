"""`attnroof hw`: what the accelerators are, what is in this machine, and what it reaches."""

import os
import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cli.errors import WrongInput
from cli.options import JsonOption
from cli.output import print_table, stderr_console, stdout_console, write_json

if TYPE_CHECKING:
    from hwprofiles import Profile

app = typer.Typer(no_args_is_help=True, help="Hardware profiles: list, show, compare, detect, calibrate.")

NamesArgument = Annotated[list[str], typer.Argument(help="Ids, driver names, aliases or .toml files.")]


@app.command("list")
def list_command(json: JsonOption = False) -> None:
    """List all hardware profiles."""
    from hwprofiles import list_profiles

    profiles = list_profiles()
    if json:
        write_json([_identity(profile) for profile in profiles])
        return
    from cli.hw_tables import list_table

    print_table(list_table(profiles))


@app.command()
def show(
    name: Annotated[str, typer.Argument(help="Id, driver name, alias or .toml file.")], json: JsonOption = False
) -> None:
    """Show one profile: every value with its origin, and what was measured beside the datasheet."""
    from hwprofiles import load_profile

    profile = load_profile(name)
    if json:
        write_json(_identity(profile) | profile.model_dump(mode="json"))
        return
    from cli.hw_tables import curve_lines, feature_names, measured_table, show_table

    console = stdout_console()
    console.print(f"{profile.name} ({profile.id}), confidence {profile.confidence or 'not stated'}", style="bold")
    console.print(f"names: {', '.join((*profile.aliases, *profile.driver_names))}")
    console.print(f"can do: {feature_names(profile)}")
    console.print(show_table(profile))
    if profile.measured:
        console.print(measured_table(profile))
        for line in curve_lines(profile):
            console.print(line)
        seen = profile.measured
        console.print(f"measured {seen.date}, driver {seen.driver or '-'}, torch {seen.torch or '-'}: {seen.command}")
        for warning in seen.warnings:
            console.print(f"warning: {warning}")
    for label, lines in (("note", profile.notes), ("source", profile.sources), ("file", profile.files)):
        for line in lines:
            console.print(f"{label}: {line}")


@app.command()
def compare(names: NamesArgument, json: JsonOption = False) -> None:
    """Compare devices side by side, with the ridge points of their rooflines."""
    from hwprofiles import load_profile

    profiles = [load_profile(name) for name in names]
    if json:
        write_json([p.model_dump(mode="json") | {"ridge_flops_per_byte": p.ridge_flops_per_byte()} for p in profiles])
        return
    from cli.hw_tables import compare_table

    print_table(compare_table(profiles))


@app.command()
def detect(json: JsonOption = False) -> None:
    """Say which devices this machine has, and which profile each gets."""
    from dataclasses import asdict

    from hwprofiles import detect_devices

    devices = detect_devices()
    if json:
        write_json(
            [
                asdict(found.seen)
                | {"profile": _identity(found.profile), "from_file": found.from_file, "remarks": found.remarks}
                | {"features": found.profile.features.present, "sockets": found.profile.sockets}
                | {"l2_bytes": found.profile.l2_bytes, "llc_bytes": found.profile.llc_bytes}
                | {"numa_nodes": found.profile.numa_nodes}
                for found in devices
            ]
        )
        return
    from cli.hw_tables import binary, detected_table, feature_names

    print_table(detected_table(devices))
    console = stdout_console()
    for found in devices:
        profile = found.profile
        if profile.kind == "cpu":
            console.print(
                f"{found.seen.device}: {profile.sockets} socket(s), {profile.numa_nodes} NUMA node(s), "
                f"L2 {binary(profile.l2_bytes)}, last level {binary(profile.llc_bytes)}, {feature_names(profile)}"
            )
        for remark in found.remarks:
            console.print(f"{found.seen.device}: {remark}")


@app.command()
def calibrate(
    device: Annotated[str, typer.Option(help="cpu, cuda or cuda:0, ...")] = "cpu",
    out: Annotated[Path | None, typer.Option(help="File to write; this machine's own calibration if left out.")] = None,
    json: JsonOption = False,
) -> None:
    """Measure bandwidth, matrix rates, exponentials and launches of a device, and keep them beside its datasheet."""
    from hwprofiles import detect_profile
    from hwprofiles.save import calibrated_path, save_calibrated

    if device == "cuda":
        device = "cuda:0"
    profile = detect_profile(device)
    path = out or calibrated_path(profile)
    _require_writable(path)
    try:
        from executors.calibrate import calibrate as measure
    except ImportError as error:
        raise WrongInput(
            f"calibration needs PyTorch: pip install 'attnroof[cpu]' or 'attnroof[gpu]' ({error})"
        ) from None
    console = stderr_console()
    command = shlex.join(["attnroof", *sys.argv[1:]])
    measured = measure(profile, device, command, lambda step: console.print(f"{profile.name}: {step} ..."))
    save_calibrated(profile, measured, path)
    calibrated = profile.model_copy(update={"measured": measured})
    if json:
        write_json({"path": str(path), "profile": _identity(profile), "measured": measured.model_dump(mode="json")})
    else:
        from cli.hw_tables import measured_table

        print_table(measured_table(calibrated))
    for warning in measured.warnings:
        console.print(f"warning: {warning}")
    console.print(f"written to {path}")


@app.command()
def roofline(
    names: NamesArgument,
    out: Annotated[Path, typer.Option(help="Picture to write: .png, .svg or .pdf.")],
    dtype: Annotated[list[str] | None, typer.Option(help="Dtypes to draw; bf16 if left out.")] = None,
) -> None:
    """Draw the rooflines of one or several devices."""
    from cli.hw_figure import write_roofline
    from hwprofiles import load_profile

    profiles, dtypes = [load_profile(name) for name in names], dtype or ["bf16"]
    write_roofline(profiles, dtypes, out)
    for profile in profiles:
        if profile.memory_bytes_per_s is None or not set(dtypes) & set(profile.matrix_flops_per_s):
            stderr_console().print(f"{profile.id} is not in it: no bandwidth, or no rate in {', '.join(dtypes)}")
    stderr_console().print(f"written to {out}")


@app.command()
def check(
    names: Annotated[list[str] | None, typer.Argument(help="Profiles or .toml files; all if left out.")] = None,
) -> None:
    """Check that profiles hold together: rates, units, features, sources, names."""
    from cli.errors import AnswerIsNo
    from hwprofiles import list_profiles, load_profile
    from hwprofiles.validate import check_all

    profiles = [load_profile(name) for name in names] if names else list_profiles()
    problems = check_all(profiles, list_profiles() if names else ())
    for problem in problems:
        stdout_console().print(str(problem), markup=False)
    if problems:
        raise AnswerIsNo(f"{len(problems)} problem(s) in {len({p.profile for p in problems})} profile(s)")
    stdout_console().print(f"{len(profiles)} profile(s) hold together")


def _require_writable(path: Path) -> None:
    """Fail before the measurement, not after it.

    Raises:
        WrongInput: The file cannot be written.
    """
    hint = "give --out FILE, or set XDG_CACHE_HOME to a folder that can be written"
    if path.is_dir():
        raise WrongInput(f"{path} is a folder; {hint}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise WrongInput(f"{path.parent} cannot be made ({error.strerror}); {hint}") from None
    if not os.access(path.parent, os.W_OK):
        raise WrongInput(f"{path.parent} cannot be written; {hint}")


def _identity(profile: "Profile") -> dict[str, Any]:
    return {
        "id": profile.id,
        "name": profile.name,
        "vendor": profile.vendor,
        "architecture": profile.architecture,
        "aliases": list(profile.aliases),
        "driver_names": list(profile.driver_names),
    }
