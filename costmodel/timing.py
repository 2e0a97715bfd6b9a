"""From a plan to seconds: how fast the tiles go while so many CTAs run, plus floor, merge and overheads."""

from dataclasses import dataclass, replace

from costmodel.machine import Machine
from costmodel.parameters import Parameters
from costmodel.plan import Plan
from costmodel.schedule import slot_loads
from costmodel.tiles import spread


@dataclass(frozen=True, slots=True)
class Timing:
    """Seconds of one call by what they are spent on; the tiles' time is shared by the weight of each limit."""

    floor: float
    latency: float
    """Tiles limited by what one CTA can do alone, or by SMs that have nothing to do."""
    memory: float
    """Tiles limited by DRAM or by an SM's load path."""
    compute: float
    """Tiles limited by the matrix units."""
    softmax: float
    """Tiles limited by the exponential units."""
    merge: float
    overhead: float
    """Per-request walk, empty CTAs, further launches and preparation inside the call."""

    @property
    def seconds(self) -> float:
        """The whole call."""
        return self.floor + self.latency + self.memory + self.compute + self.softmax + self.merge + self.overhead

    def parts(self) -> dict[str, float]:
        """Part to seconds; adds up to `seconds`."""
        return {
            "floor": self.floor,
            "latency": self.latency,
            "memory": self.memory,
            "compute": self.compute,
            "softmax": self.softmax,
            "merge": self.merge,
            "overhead": self.overhead,
        }

    def then(self, other: "Timing", times: int, launch_seconds: float) -> "Timing":
        """Give the time with `other` launched `times` times after it."""
        return Timing(
            floor=self.floor,
            latency=self.latency + times * other.latency,
            memory=self.memory + times * other.memory,
            compute=self.compute + times * other.compute,
            softmax=self.softmax + times * other.softmax,
            merge=self.merge + times * other.merge,
            overhead=self.overhead + times * (other.overhead + launch_seconds),
        )

    def at_least(self, seconds: float) -> "Timing":
        """Give the time with what is missing to `seconds` as latency: SMs wait for the work that ends last."""
        missing = seconds - self.seconds
        return replace(self, latency=self.latency + missing) if missing > 0 else self

    def repeated(self, times: int, launch_seconds: float) -> "Timing":
        """Give the time of this launch made `times` times; the floor is paid once."""
        return self.then(self, times - 1, launch_seconds)


def time_plan(plan: Plan, machine: Machine, p: Parameters) -> Timing:
    """Time one plan.

    All running CTAs advance together, so the schedule does not depend on the rate: with `a` CTAs still running a
    tile takes [own^j + (ceil(a/SMs) loads, products)^j + (a x DRAM bytes / bandwidth)^j]^(1/j).
    """
    return time_loads(plan, plan_loads(plan, machine, job_cost(plan, p)), machine, p)


def job_cost(plan: Plan, p: Parameters) -> float:
    """Fixed cost of one job, in tiles."""
    return p.job_tiles + p.row_tiles * plan.row_fill


def exposure(jobs: int, slots: int, fixed: float, longest: float) -> tuple[float, float]:
    """Give the share of the longest slot's load that is tiles, and the share of fixed cost that nothing hides.

    While one job of a slot starts or ends, other slots load. With one job a slot all of them start and end together,
    and DRAM waits; with several the fixed cost of one is all that is seen.

    Args:
        jobs: Jobs of the launch.
        slots: CTAs that run at once.
        fixed: Fixed cost of a job, in tiles.
        longest: Load of the slot that ends last, in tiles.
    """
    return 1 - min(fixed * -(-jobs // slots) / longest, 1.0), min(fixed / longest, 1.0)


def plan_loads(plan: Plan, machine: Machine, job_tiles: float) -> list[tuple[float, int]]:
    """Give `(load, slots)` in tiles, lightest first: the library's own assignment, else list scheduling."""
    if plan.assigned:
        return plan.assigned_loads(job_tiles)
    return slot_loads(plan.jobs, machine.sms * plan.slots_per_sm, job_tiles)


def time_loads(plan: Plan, loads: list[tuple[float, int]], machine: Machine, p: Parameters) -> Timing:
    """Time one plan whose schedule is known."""
    sms = machine.sms
    tile = plan.tile
    factor = p.factor(plan.kernel)
    far = 1 + p.far_fraction * spread(plan.dram_bytes, machine.l2_bytes)
    own = factor * far * (p.tile_seconds + tile.pages * p.page_seconds + tile.bytes / p.cta_bytes_per_s)
    stream = factor * far * (tile.pages * p.page_seconds + tile.bytes / p.sm_bytes_per_s)
    matrix = factor * tile.matrix_seconds / p.matrix_fraction
    exps = factor * tile.exp_seconds / p.exp_fraction
    o = p.overlap
    products = (matrix**o + exps**o) ** (1 / o)
    exp_share = exps**o / (matrix**o + exps**o) if products else 0.0
    share, exposed = exposure(plan.job_count, sms * plan.slots_per_sm, job_cost(plan, p), loads[-1][0])
    tile_bytes = plan.dram_bytes / plan.total_tiles + tile.pages * p.page_bytes
    dram = share * tile_bytes / (machine.memory_bytes_per_s * p.dram_fraction)
    running = sum(width for _, width in loads)
    j = p.join
    own_j = own**j
    done = latency = memory = compute = 0.0
    for load, width in loads:
        per_sm = -(-running // sms)
        stream_j = (per_sm * stream) ** j
        products_j = (per_sm * products) ** j
        dram_j = (running * dram + exposed * own) ** j
        total_j = own_j + stream_j + products_j + dram_j
        scale = (load - done) * total_j ** (1 / j - 1)
        filled = running / sms if running < sms else 1.0
        latency += scale * (own_j + (1 - filled) * (stream_j + products_j))
        memory += scale * (filled * stream_j + dram_j)
        compute += scale * filled * products_j
        done = load
        running -= width
    return Timing(
        floor=p.floor_seconds,
        latency=latency,
        memory=memory + plan.extra_memory_seconds / p.dram_fraction,
        compute=compute * (1 - exp_share) + plan.extra_compute_seconds / p.matrix_fraction,
        softmax=compute * exp_share,
        merge=_merge(plan, p),
        overhead=_overhead(plan, machine, p),
    )


def _merge(plan: Plan, p: Parameters) -> float:
    if not plan.merge_launched:
        return 0.0
    traffic = 2 * plan.partial_rows * plan.partial_row_bytes / p.merge_bytes_per_s
    walk = (plan.merge_splits - 1) * p.merge_split_seconds + plan.merge_slots * p.merge_slot_seconds
    return p.merge_seconds + walk + plan.merged_rows * p.merge_row_seconds + traffic


def _overhead(plan: Plan, machine: Machine, p: Parameters) -> float:
    seconds = plan.requests * p.request_seconds
    if plan.empty_ctas:
        seconds += plan.empty_ctas / (machine.sms * plan.slots_per_sm) * p.empty_cta_seconds
    return seconds + plan.extra_seconds * p.extra_fraction
