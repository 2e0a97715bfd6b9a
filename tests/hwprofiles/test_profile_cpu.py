import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace

import pytest

from hwprofiles import ProfileError, detect_devices, detect_profile, load_profile
from hwprofiles.cpu import read_cpu
from hwprofiles.local import profile_of

XEON = """processor	: 0
vendor_id	: GenuineIntel
cpu family	: 6
model		: 143
model name	: Intel(R) Xeon(R) Platinum 8480+
cpu MHz		: 2000.000
flags		: fpu avx2 fma avx512f avx512_bf16 amx_bf16 amx_tile amx_int8
"""
GRACE = """processor	: 0
Features	: fp asimd sve2 i8mm bf16
CPU implementer	: 0x41
CPU part	: 0xd4f
"""


def machine(root: Path, cpuinfo: str = XEON, siblings: Sequence[str] = ("0,4", "1,5", "2,6", "3,7") * 2) -> Path:
    """Eight threads on four cores of two sockets, 2 MiB of L2 a core, 32 MiB of L3 a socket."""
    (root / "proc").mkdir(parents=True)
    (root / "proc/cpuinfo").write_text("\n\n".join([cpuinfo.strip()] * len(siblings)) + "\n")
    (root / "proc/meminfo").write_text("MemTotal:       16777216 kB\n")
    for number, threads in enumerate(siblings):
        cpu = root / f"sys/devices/system/cpu/cpu{number}"
        (cpu / "topology").mkdir(parents=True)
        (cpu / "topology/thread_siblings_list").write_text(threads)
        (cpu / "topology/physical_package_id").write_text(str(number % 4 // 2))
        caches = ((1, "Data", "48K", threads), (2, "Unified", "2048K", threads), (3, "Unified", "32M", "0-3"))
        for index, (level, kind, size, shared) in enumerate(caches):
            cache = cpu / f"cache/index{index}"
            cache.mkdir(parents=True)
            values = {"level": str(level), "type": kind, "size": size, "shared_cpu_list": shared}
            for name, value in values.items():
                (cache / name).write_text(value)
    for node, cpus in ((0, "0-1,4-5"), (1, "2-3,6-7")):
        path = root / f"sys/devices/system/node/node{node}"
        path.mkdir(parents=True)
        (path / "cpulist").write_text(cpus)
    return root


def test_threads_of_one_core_count_once(tmp_path: Path) -> None:
    cpu = read_cpu(machine(tmp_path), range(8))
    assert (cpu.cores, cpu.threads, cpu.sockets, cpu.numa_nodes) == (4, 8, 2, 2)
    assert (cpu.l1_bytes_per_core, cpu.l2_bytes, cpu.llc_bytes) == (48 << 10, 8 << 20, 32 << 20)
    assert (cpu.memory_bytes, cpu.base_clock_hz, cpu.model_number) == (16 << 30, 2e9, 143)


def test_only_usable_processors_count(tmp_path: Path) -> None:
    cpu = read_cpu(machine(tmp_path), [0, 4])
    assert (cpu.cores, cpu.sockets, cpu.numa_nodes, cpu.l2_bytes) == (1, 1, 1, 2 << 20)


@pytest.mark.parametrize(("limit", "cores"), [("200000 100000", 2), ("50000 100000", 1), ("max 100000", 4)])
def test_the_quota_of_a_container_limits_the_cores(tmp_path: Path, limit: str, cores: int) -> None:
    machine(tmp_path)
    (tmp_path / "sys/fs/cgroup").mkdir(parents=True)
    (tmp_path / "sys/fs/cgroup/cpu.max").write_text(limit)
    (tmp_path / "sys/fs/cgroup/memory.max").write_text(str(4 << 30))
    cpu = read_cpu(tmp_path, range(8))
    assert (cpu.cores, cpu.memory_bytes) == (cores, 4 << 30)


def test_clocks_come_from_the_scaling_driver_where_there_is_one(tmp_path: Path) -> None:
    machine(tmp_path)
    scaling = tmp_path / "sys/devices/system/cpu/cpu0/cpufreq"
    scaling.mkdir()
    (scaling / "base_frequency").write_text("2100000")
    (scaling / "cpuinfo_max_freq").write_text("3800000")
    cpu = read_cpu(tmp_path, range(8))
    assert (cpu.base_clock_hz, cpu.boost_clock_hz) == (2.1e9, 3.8e9)


def test_amx_gives_the_rate_of_the_tile_unit(tmp_path: Path) -> None:
    profile = profile_of(read_cpu(machine(tmp_path), range(8)))
    assert profile.id == "cpu-intel-xeon-platinum-8480-f6m143-4c"
    assert profile.matrix_rate("bf16") == 1024 * 2e9 * 4
    assert profile.vector_flops_per_s["fp32"] == 64 * 2e9 * 4
    assert profile.features.amx_bf16
    assert profile.origin("matrix_flops_per_s.bf16") == "derived"
    assert profile.origin("num_sms") == "measured"
    assert profile.memory_bytes_per_s is None


@pytest.mark.parametrize(
    ("vendor", "family", "flags", "fp32", "bf16"),
    [
        ("AuthenticAMD", 25, "avx2 fma avx512f avx512_bf16", 32, 64),
        ("AuthenticAMD", 26, "avx2 fma avx512f avx512_bf16", 64, 128),
        ("AuthenticAMD", 23, "avx2 fma", 32, None),
        ("GenuineIntel", 6, "sse2", 8, None),
    ],
)
def test_rates_follow_the_instruction_set(
    tmp_path: Path, vendor: str, family: int, flags: str, fp32: int, bf16: int | None
) -> None:
    text = f"vendor_id : {vendor}\ncpu family : {family}\nmodel : 1\nmodel name : X\ncpu MHz : 1000\nflags : {flags}\n"
    profile = profile_of(read_cpu(machine(tmp_path, text), [0]))
    assert profile.matrix_flops_per_clk_per_sm.get("fp32") == fp32
    assert profile.matrix_flops_per_clk_per_sm.get("bf16") == bf16


def test_an_arm_core_is_known_by_its_part(tmp_path: Path) -> None:
    cpu = read_cpu(machine(tmp_path, GRACE), range(4))
    profile = profile_of(cpu)
    assert (cpu.model, cpu.vendor, cpu.base_clock_hz) == ("Neoverse-V2", "Arm", None)
    assert profile.features.bfmmla
    assert profile.matrix_flops_per_s == {}


def test_this_machine_has_a_profile() -> None:
    profile = load_profile("cpu")
    assert profile.kind == "cpu"
    assert 1 <= (profile.num_sms or 0) <= len(os.sched_getaffinity(0))
    assert detect_devices()[-1].profile == profile
    assert detect_profile("cpu") == profile


def test_a_system_without_proc_asks_the_libraries(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(
        sys.modules,
        "cpuinfo",
        SimpleNamespace(get_cpu_info=lambda: {"brand_raw": "Example M1", "hz_advertised": (3_200_000_000, 0)}),
    )
    cpu = read_cpu(tmp_path)
    assert (cpu.model, cpu.base_clock_hz, cpu.llc_bytes) == ("Example M1", 3.2e9, None)
    assert profile_of(cpu).kind == "cpu"


def test_a_device_that_is_not_there_lists_those_that_are() -> None:
    with pytest.raises(ProfileError, match=r"no device 'cuda:63'.*cpu"):
        detect_profile("cuda:63")


def test_detection_imports_no_tensor_library() -> None:
    heavy = "{'torch', 'numpy', 'scipy'}"
    code = f"import sys, hwprofiles; hwprofiles.detect_devices(); print(sorted({heavy} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
