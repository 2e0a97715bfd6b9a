"""The project's own Triton kernels: split-KV decode, extend, verify and absorbed MLA in one tunable backend."""

from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING

from costmodel import Attention, Batch
from executors.backends.attnroof_points import MAX_SPLITS, SPLITS, points
from executors.base import Backend, Knob, Knobs, Prepared
from executors.kernels.tiling import Target, default_tile, fits, tile_of
from executors.outcome import Candidate
from hwprofiles import Profile

if TYPE_CHECKING:
    from executors.inputs import Inputs

KERNELS_VERSION = "1.2"
"""Changes whenever the kernels or their defaults change in speed."""
MIN_CAPABILITY = (8, 0)
HOPPER = (9, 0)
INTERPRETED_SMS = 8
"""Processors to split for under Triton's interpreter, which has none."""


class AttnroofTriton(Backend):
    """The kernels of `executors/kernels`; `num_splits` 0 and other knobs at their first value are the own choice."""

    name = "attnroof_triton"
    phases = frozenset({"decode", "extend", "verify", "mixed"})
    kv_dtypes = frozenset({"bf16", "fp16", "fp8_e4m3", "fp8_e5m2"})
    install_hint = "pip install triton"

    def implementation(self) -> tuple[str, str] | None:
        """Name the kernels' version, where Triton is installed."""
        try:
            version("triton")
        except PackageNotFoundError:
            return None
        return "attnroof", KERNELS_VERSION

    def reject(self, attention: Attention, batch: Batch, profile: Profile) -> list[str]:
        """Say all reasons why this workload cannot run on this device."""
        reasons = super().reject(attention, batch, profile)
        if attention.top_k is not None:
            reasons.append("sparse attention")
        if attention.kv_dtype in ("bf16", "fp16") and attention.kv_dtype != attention.dtype:
            reasons.append(f"KV dtype {attention.kv_dtype} beside queries in {attention.dtype}")
        if max(attention.head_dim, attention.value_dim) > 576 or (attention.head_dim > 256 and not attention.is_latent):
            reasons.append(f"head dim {attention.head_dim} above 256")
        if attention.head_dim % 8 or attention.value_dim % 8:
            reasons.append(f"head dims {attention.head_dim} and {attention.value_dim} are not multiples of 8")
        capability = _capability(profile)
        if capability is not None and capability < MIN_CAPABILITY:
            reasons.append(f"compute capability {profile.compute_capability} below 8.0")
        if attention.kv_dtype == "fp8_e4m3" and capability is not None and capability < (8, 9):
            reasons.append("fp8_e4m3 needs compute capability 8.9")
        return reasons

    def knobs(self, attention: Attention, batch: Batch, profile: Profile) -> tuple[Knob, ...]:
        """Name splits and tile sizes, the own choice first; sizes that exceed shared memory are left out."""
        target = _target(_capability(profile) or (0, 0))
        default = default_tile(attention, batch, target=target)
        longest = -(-max(batch.kv_lens) // default.block_n)
        splits = tuple(s for s in SPLITS if s <= longest)
        rows = max(batch.q_lens) * attention.group_size
        sizes = {
            "block_m": tuple(m for m in (16, 32, 64, 128) if m < 2 * rows or m == 16),
            "block_n": (32, 64, 128),
            "num_warps": (4, 8),
            "num_stages": (2, 3, 4),
        }
        knobs = [Knob("num_splits", (0, *splits))]
        for name, values in sizes.items():
            first = getattr(default, name)
            usable = [v for v in values if v != first and fits(attention, batch, {name: v}, target=target)]
            knobs.append(Knob(name, (first, *usable)))
        return tuple(knobs)

    def points(self, attention: Attention, batch: Batch, profile: Profile) -> tuple[Candidate, ...]:
        """List the points worth trying, the own choice first, not every combination of the knobs."""
        target = _target(_capability(profile) or (0, 0))
        found = points(attention, batch, profile.num_sms or INTERPRETED_SMS, target=target)
        return tuple(Candidate(self.name, point) for point in found)

    def prepare(self, inputs: "Inputs", knobs: Knobs) -> Prepared:
        """Plan, compile and allocate.

        Raises:
            ValueError: A knob is unknown or out of range.
        """
        import time

        from executors.kernels.launch import Launcher

        num_sms, target = _device(inputs.device)
        tile = tile_of(inputs.attention, inputs.batch, knobs, target=target)
        splits = min(int(knobs.get("num_splits") or 0), MAX_SPLITS)
        interpreted = not inputs.device.startswith("cuda")
        launcher = Launcher(inputs, tile, splits, num_sms, pdl=target.tma and not interpreted)
        started = time.perf_counter()
        launcher.run(0)
        _synchronize(inputs.device)
        kind = "warp-specialized" if tile.specialized else "kv-major" if tile.kv_major else "row-major"
        by_tma = tile.tma or (tile.specialized and tile.source == "page")
        source = f"{'tma ' if by_tma else ''}{tile.source}"
        return Prepared(
            run=launcher.run,
            plan=launcher.plan,
            compile_seconds=time.perf_counter() - started,
            path=(
                f"{kind} {tile.block_m}x{tile.block_n}, {tile.num_warps} warps, {tile.num_stages} stages, {source}, "
                f"{launcher.schedule.num_splits} splits"
            ),
            workspace_bytes=launcher.workspace_bytes,
            keep=(launcher,),
        )


def _capability(profile: Profile) -> tuple[int, int] | None:
    if profile.compute_capability is None:
        return None
    major, _, minor = profile.compute_capability.partition(".")
    return int(major), int(minor or 0)


def _target(capability: tuple[int, int]) -> Target:
    return Target(tma=capability >= HOPPER, wgmma=capability == HOPPER)


def _device(device: str) -> tuple[int, Target]:
    """Give SM count and what the device offers; the interpreter knows descriptors."""
    import torch

    if not device.startswith("cuda"):
        return INTERPRETED_SMS, Target(tma=True, wgmma=False)
    properties = torch.cuda.get_device_properties(device)
    return int(properties.multi_processor_count), _target((properties.major, properties.minor))


def _synchronize(device: str) -> None:
    import torch

    if device.startswith("cuda"):
        torch.cuda.synchronize(device)
