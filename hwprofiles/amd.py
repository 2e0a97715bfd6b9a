"""AMD devices through /sys/class/kfd."""

from collections.abc import Iterator
from pathlib import Path

from hwprofiles.seen import Seen

_WHOLE = {"", "SPX", "NPS1"}


def amd_devices(root: Path = Path("/")) -> tuple[Seen, ...]:
    """Devices in the order that HIP numbers them; empty without the driver."""
    nodes = (root / "sys/class/kfd/kfd/topology/nodes").glob("[0-9]*")
    return tuple(_devices(root, sorted(nodes, key=lambda node: int(node.name))))


def _devices(root: Path, nodes: list[Path]) -> Iterator[Seen]:
    driver = _text(root / "sys/module/amdgpu/version") or None
    number = 0
    for node in nodes:
        properties = _properties(node / "properties")
        if not properties.get("simd_count"):
            continue
        card = root / f"sys/class/drm/renderD{properties.get('drm_render_minor', 0)}/device"
        version = properties.get("gfx_target_version", 0)
        modes = {_text(card / f"current_{kind}_partition") for kind in ("compute", "memory")} - _WHOLE
        yield Seen(
            device=f"cuda:{number}",
            name=_text(card / "product_name") or "AMD Radeon Graphics",
            vendor="AMD",
            num_sms=properties["simd_count"] // (properties.get("simd_per_cu") or 4),
            memory_bytes=_memory(node),
            arch_target=f"gfx{version // 10000}{version // 100 % 100:x}{version % 100:x}" if version else None,
            boost_clock_hz=properties.get("max_engine_clk_fcompute", 0) * 1e6 or None,
            driver=driver,
            partition="/".join(sorted(modes)) or None,
        )
        number += 1


def _memory(node: Path) -> int | None:
    """Device memory: heap types 1 and 2 are the frame buffer."""
    banks = [_properties(bank / "properties") for bank in (node / "mem_banks").glob("[0-9]*")]
    return sum(bank.get("size_in_bytes", 0) for bank in banks if bank.get("heap_type") in (1, 2)) or None


def _properties(path: Path) -> dict[str, int]:
    pairs = (line.split() for line in _text(path).splitlines())
    return {pair[0]: int(pair[1]) for pair in pairs if len(pair) == 2 and pair[1].isdigit()}


def _text(path: Path) -> str:
    try:
        return path.read_text().strip()
    except OSError:
        return ""
