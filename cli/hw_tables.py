"""Tables of hardware profiles: list, compare, one profile with what was measured on it, devices at hand."""

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from hwprofiles import Detected, Profile

if TYPE_CHECKING:
    from rich.table import Table

MATRIX_DTYPES = ("bf16", "fp16", "fp8", "fp4", "int8")
DESCRIPTIONS = {"name", "vendor", "kind", "architecture", "arch_target", "compute_capability", "unit", "sm_kind"}
_RATE_UNITS = {"flops": "FLOP/s", "ops": "OP/s", "bytes": "B/s", "exp": "/s"}
FEATURES = {
    "cp_async": "cp.async",
    "tma": "TMA",
    "wgmma": "WGMMA",
    "thread_block_clusters": "clusters",
    "tcgen05": "tcgen05",
    "tensor_memory": "TMEM",
    "mfma": "MFMA",
    "wmma_rdna": "WMMA",
    "xmx": "XMX",
    "amx_bf16": "AMX",
    "avx512_bf16": "AVX512-BF16",
    "bfmmla": "BFMMLA",
    "fp8_matrix": "fp8",
    "fp6_matrix": "fp6",
    "fp4_matrix": "fp4",
}


def si(value: float | None, unit: str) -> str:
    """A value with a decimal prefix: `4.80 TB/s`; a dash for None."""
    if value is None:
        return "-"
    for factor, prefix in ((1e15, "P"), (1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"), (1.0, ""), (1e-3, "m")):
        if abs(value) >= factor:
            return f"{value / factor:.3g} {prefix}{unit}"
    return f"{value / 1e-6:.3g} µ{unit}"


def binary(value: int | None) -> str:
    """A size in MiB or GiB; a dash for None."""
    if value is None:
        return "-"
    for factor, prefix in ((1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")):
        if value >= factor:
            return f"{value / factor:.4g} {prefix}"
    return f"{value} B"


def feature_names(profile: Profile) -> str:
    """What a device can do, in the words of its vendor."""
    return ", ".join(FEATURES[flag] for flag in profile.features.present if flag in FEATURES)


def list_table(profiles: Sequence[Profile]) -> "Table":
    """One row a device."""
    table = _table("id", "alias", "architecture", "SMs", "memory", "bandwidth", "bf16 dense", "measured")
    for p in profiles:
        rate = si(p.matrix_flops_per_s.get("bf16"), "FLOP/s")
        day = p.measured.date[:10] if p.measured else ""
        alias = p.aliases[0] if p.aliases else ""
        bandwidth = si(p.memory_bytes_per_s, "B/s")
        table.add_row(p.id, alias, p.architecture, str(p.num_sms), binary(p.memory_bytes), bandwidth, rate, day)
    return table


def compare_table(profiles: Sequence[Profile]) -> "Table":
    """One column a device: sizes, rates, ridge points in FLOP/byte, features."""
    table = _table("", *(p.name for p in profiles))
    rows: list[tuple[str, Any]] = [
        ("architecture", lambda p: p.architecture),
        ("SMs, cores", lambda p: f"{p.num_sms} {p.sm_kind}"),
        ("boost clock", lambda p: si(p.boost_clock_hz, "Hz")),
        ("memory", lambda p: f"{binary(p.memory_bytes)} {p.memory_type or ''}"),
        ("bandwidth", lambda p: si(p.memory_bytes_per_s, "B/s")),
        ("L2", lambda p: binary(p.l2_bytes)),
        ("shared memory per SM", lambda p: binary(p.shared_memory_bytes_per_sm)),
        ("exp per clock and SM", lambda p: f"{p.exp_per_clk_per_sm:g}" if p.exp_per_clk_per_sm else "-"),
        ("power", lambda p: si(p.tdp_w, "W")),
    ]
    for label, value in rows:
        table.add_row(label, *(value(p) for p in profiles))
    for dtype in MATRIX_DTYPES:
        if any(dtype in p.matrix_flops_per_s for p in profiles):
            rates = (si(p.matrix_flops_per_s.get(dtype), "FLOP/s") for p in profiles)
            table.add_row(f"{dtype} dense", *rates)
    for dtype in MATRIX_DTYPES:
        ridges = [p.ridge_flops_per_byte().get(dtype) for p in profiles]
        if any(ridges):
            table.add_row(f"ridge {dtype}, FLOP/byte", *(f"{r:.0f}" if r else "-" for r in ridges))
    table.add_row("can do", *(feature_names(p) or "-" for p in profiles))
    return table


def show_table(profile: Profile) -> "Table":
    """Every value of one profile with its origin."""
    table = _table("field", "value", "origin")
    skipped = {"id", "aliases", "driver_names", "features", "measured", "measured_by_others", "origins", "unconfirmed"}
    skipped |= {"notes", "sources", "files", "confidence"}
    for name in type(profile).model_fields:
        value = getattr(profile, name)
        if name in skipped or value is None or value == {}:
            continue
        pairs = {f"{name}.{k}": v for k, v in value.items()} if isinstance(value, dict) else {name: value}
        for field, each in pairs.items():
            origin = None if field in DESCRIPTIONS else profile.origin(field)
            table.add_row(field, with_unit(field, each), origin or "")
    for origin, values in (("others", profile.measured_by_others), ("unconfirmed", profile.unconfirmed)):
        for name, value in values.items():
            table.add_row(name, with_unit(name, value), origin)
    return table


def measured_table(profile: Profile) -> "Table":
    """Datasheet, measured and the ratio side by side."""
    table = _table("measured on the device", "datasheet", "measured", "ratio", "spread")
    for field, datasheet, measured in measured_pairs(profile):
        ratio = f"{measured / datasheet:.3f}" if datasheet else "-"
        spread = profile.measured.spread.get(field) if profile.measured else None
        shown = with_unit(field, datasheet) if datasheet else "-"
        table.add_row(field, shown, with_unit(field, measured), ratio, "-" if spread is None else f"{spread:.1%}")
    return table


def curve_lines(profile: Profile) -> list[str]:
    """One line a measured curve: `read by bytes: 4 MiB 9.8 TB/s, ...`."""
    lines = []
    for name, points in (profile.measured.curves if profile.measured else {}).items():
        what, _, by = name.partition("_bytes_per_s_by_")
        shown = (f"{binary(int(x)) if by == 'bytes' else f'{x:g}'}: {si(rate, 'B/s')}" for x, rate in points)
        lines.append(f"{what} by {by.replace('_', ' ')}: {', '.join(shown)}")
    return lines


def measured_pairs(profile: Profile) -> list[tuple[str, float | None, float]]:
    """Field, datasheet value (None where there is none) and measured value."""
    seen = profile.measured
    if seen is None:
        return []
    clock, sms, exp = profile.boost_clock_hz, profile.num_sms, profile.exp_per_clk_per_sm
    memory = None if profile.origin("memory_bytes_per_s") == "measured" else profile.memory_bytes_per_s
    pairs: list[tuple[str, float | None, float | None]] = [
        ("read_bytes_per_s", memory, seen.read_bytes_per_s),
        ("write_bytes_per_s", memory, seen.write_bytes_per_s),
        ("copy_bytes_per_s", memory, seen.copy_bytes_per_s),
        ("gather_bytes_per_s", None, seen.gather_bytes_per_s),
        ("l2_read_bytes_per_s", None, seen.l2_read_bytes_per_s),
        ("read_bytes_per_s_per_sm", None, seen.read_bytes_per_s_per_sm),
        ("exp_per_s", clock * sms * exp if clock and sms and exp else None, seen.exp_per_s),
        ("sm_clock_hz", profile.boost_clock_hz, seen.sm_clock_hz),
        ("power_w", profile.tdp_w, seen.power_w),
        ("launch_seconds", None, seen.launch_seconds),
        ("graph_launch_seconds", None, seen.graph_launch_seconds),
        ("merge_seconds", None, seen.merge_seconds),
    ]
    pairs += [
        (f"sm_clock_hz_sustained.{d}", profile.matrix_clock_hz, hz) for d, hz in seen.sm_clock_hz_sustained.items()
    ]
    for table in ("matrix_flops_per_s", "matrix_flops_per_s_sustained"):
        rates: dict[str, float] = getattr(seen, table)
        pairs += [(f"{table}.{dtype}", profile.matrix_flops_per_s.get(dtype), rate) for dtype, rate in rates.items()]
    return [(field, datasheet, measured) for field, datasheet, measured in pairs if measured is not None]


def detected_table(devices: Sequence[Detected]) -> "Table":
    """One row a device at hand."""
    table = _table("device", "name", "profile", "SMs, cores", "memory", "clock", "power limit", "driver")
    for found in devices:
        seen, profile = found.seen, found.profile
        where = profile.id if found.from_file else f"{profile.id} (made on the spot)"
        clock = si(seen.boost_clock_hz or profile.boost_clock_hz or profile.base_clock_hz, "Hz")
        size, limit = binary(seen.memory_bytes), si(seen.power_limit_w, "W")
        table.add_row(seen.device, seen.name, where, str(seen.num_sms), size, clock, limit, seen.driver or "-")
    return table


def with_unit(field: str, value: Any) -> str:
    """A profile's value as people read it; the unit follows from the field's name."""
    if isinstance(value, (str, bool)):
        return str(value)
    name = field.partition(".")[0]
    rate = re.search(r"(flops|ops|bytes|exp)_per_s(?!m)", name)
    if rate:
        return si(value, "OP/s" if field.endswith("int8") else _RATE_UNITS[rate[1]])
    for part, unit in (("_hz", "Hz"), ("_w", "W"), ("_seconds", "s")):
        if name.endswith(part) or f"{part}_" in name:
            return si(value, unit)
    return binary(int(value)) if "bytes" in name and "per_clk" not in name else f"{value:g}"


def _table(*columns: str) -> "Table":
    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    table = Table(box=SIMPLE_HEAD, pad_edge=False)
    for column in columns:
        table.add_column(column, overflow="fold", no_wrap=column in ("id", "field"))
    return table
