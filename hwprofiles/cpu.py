"""What the system says about its processor, as far as this process may use it."""

import os
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_ARM_PARTS = {"0xd0c": "Neoverse-N1", "0xd40": "Neoverse-V1", "0xd49": "Neoverse-N2", "0xd4f": "Neoverse-V2"}


@dataclass(frozen=True, slots=True)
class CpuInfo:
    """One machine's processor; sizes count what the usable cores reach."""

    model: str
    vendor: str
    family: int | None
    model_number: int | None
    flags: frozenset[str]
    cores: int
    """Physical cores within the affinity mask and the container's quota."""
    threads: int
    sockets: int
    numa_nodes: int
    base_clock_hz: float | None
    boost_clock_hz: float | None
    memory_bytes: int
    l1_bytes_per_core: int | None
    l2_bytes: int | None
    llc_bytes: int | None


def read_cpu(root: Path = Path("/"), usable: Collection[int] | None = None) -> CpuInfo:
    """Read /proc and /sys.

    Args:
        root: Where /proc and /sys hang.
        usable: Logical processors to count; this process's affinity mask where it is None.
    """
    if not (root / "proc/cpuinfo").is_file():
        return _read_elsewhere()
    usable = sorted(os.sched_getaffinity(0) if usable is None else usable)
    first = _first_processor((root / "proc/cpuinfo").read_text())
    sys_cpu = root / "sys/devices/system/cpu"
    places = {(_text(sys_cpu / f"cpu{n}/topology/physical_package_id"), _core(sys_cpu, n)) for n in usable}
    quota = _quota(root)
    cores = max(1, min(len(places), int(quota) if quota else len(places)))
    share = cores / len(places)
    vendor = {"GenuineIntel": "Intel", "AuthenticAMD": "AMD"}.get(first.get("vendor_id", ""), "")
    part = _ARM_PARTS.get(first.get("CPU part", ""), "")
    return CpuInfo(
        model=first.get("model name") or part or os.uname().machine,
        vendor=vendor or ("Arm" if "CPU implementer" in first else first.get("vendor_id", "unknown")),
        family=_int(first.get("cpu family")),
        model_number=_int(first.get("model")),
        flags=frozenset((first.get("flags") or first.get("Features") or "").split()),
        cores=cores,
        threads=len(usable),
        sockets=len({package for package, _ in places}),
        numa_nodes=max(1, len(_numa_nodes(root, usable))),
        base_clock_hz=_base_clock(sys_cpu / f"cpu{usable[0]}", first),
        boost_clock_hz=_kilohertz(sys_cpu / f"cpu{usable[0]}/cpufreq/cpuinfo_max_freq"),
        memory_bytes=_memory(root),
        l1_bytes_per_core=_cache(sys_cpu, usable[:1], 1),
        l2_bytes=_scaled(_cache(sys_cpu, usable, 2), share),
        llc_bytes=_cache(sys_cpu, usable, 3),
    )


def _first_processor(cpuinfo: str) -> dict[str, str]:
    pairs = (line.split(":", 1) for line in cpuinfo.split("\n\n")[0].splitlines() if ":" in line)
    return {key.strip(): value.strip() for key, value in pairs}


def _core(sys_cpu: Path, number: int) -> str:
    topology = sys_cpu / f"cpu{number}/topology"
    return _text(topology / "thread_siblings_list") or _text(topology / "core_id") or str(number)


def _base_clock(cpu: Path, first: dict[str, str]) -> float | None:
    known = _kilohertz(cpu / "cpufreq/base_frequency")
    if known:
        return known
    in_name = re.search(r"@ ([\d.]+)GHz", first.get("model name", ""))
    if in_name:
        return float(in_name[1]) * 1e9
    now = first.get("cpu MHz")
    return float(now) * 1e6 if now else None


def _quota(root: Path) -> float | None:
    """Processors' worth of time that the container may use; None without a limit."""
    limit, _, period = _text(root / "sys/fs/cgroup/cpu.max").partition(" ")
    if not limit:
        limit = _text(root / "sys/fs/cgroup/cpu/cpu.cfs_quota_us")
        period = _text(root / "sys/fs/cgroup/cpu/cpu.cfs_period_us")
    return int(limit) / int(period) if limit.isdigit() and period.isdigit() else None


def _memory(root: Path) -> int:
    total = re.search(r"MemTotal:\s+(\d+) kB", (root / "proc/meminfo").read_text())
    limit = _text(root / "sys/fs/cgroup/memory.max")
    sizes = [int(total[1]) * 1024] if total else []
    return min(sizes + ([int(limit)] if limit.isdigit() else []))


def _cache(sys_cpu: Path, usable: Collection[int], level: int) -> int | None:
    """Bytes of all different data caches of a level that the processors share."""
    found: dict[str, int] = {}
    for number in usable:
        for index in (sys_cpu / f"cpu{number}/cache").glob("index*"):
            if _text(index / "level") == str(level) and _text(index / "type") != "Instruction":
                size = re.fullmatch(r"(\d+)([KMG]?)", _text(index / "size"))
                if size:
                    found[_text(index / "shared_cpu_list")] = (
                        int(size[1]) << {"": 0, "K": 10, "M": 20, "G": 30}[size[2]]
                    )
    return sum(found.values()) or None


def _numa_nodes(root: Path, usable: Collection[int]) -> list[Path]:
    nodes = (root / "sys/devices/system/node").glob("node[0-9]*")
    return [node for node in nodes if _processors(_text(node / "cpulist")) & set(usable)]


def _processors(cpulist: str) -> set[int]:
    spans = (part.split("-") for part in cpulist.split(",") if part)
    return {n for span in spans for n in range(int(span[0]), int(span[-1]) + 1)}


def _kilohertz(path: Path) -> float | None:
    value = _int(_text(path))
    return value * 1e3 if value else None


def _scaled(size: int | None, share: float) -> int | None:
    return None if size is None else int(size * share)


def _int(text: str | None) -> int | None:
    return int(text) if text and text.isdigit() else None


def _text(path: Path) -> str:
    try:
        return path.read_text().strip()
    except OSError:
        return ""


def _read_elsewhere() -> CpuInfo:
    """Ask py-cpuinfo and psutil where there is no /proc: slow, and of the caches only L2 can be trusted."""
    import cpuinfo
    import psutil

    info = cpuinfo.get_cpu_info()
    cores = psutil.cpu_count(logical=False) or os.cpu_count() or 1
    return CpuInfo(
        model=str(info.get("brand_raw") or info.get("arch") or "unknown"),
        vendor={"GenuineIntel": "Intel", "AuthenticAMD": "AMD"}.get(str(info.get("vendor_id_raw")), "unknown"),
        family=_whole(info, "family"),
        model_number=_whole(info, "model"),
        flags=frozenset(info.get("flags", ())),
        cores=cores,
        threads=os.cpu_count() or cores,
        sockets=1,
        numa_nodes=1,
        base_clock_hz=float((info.get("hz_advertised") or (0, 0))[0]) or None,
        boost_clock_hz=None,
        memory_bytes=int(psutil.virtual_memory().total),
        l1_bytes_per_core=None,
        l2_bytes=_whole(info, "l2_cache_size"),
        llc_bytes=None,
    )


def _whole(info: Mapping[str, Any], key: str) -> int | None:
    value = info.get(key)
    return value if isinstance(value, int) else None
