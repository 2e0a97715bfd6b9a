"""What binds a call, by how much, and why, in words."""

from costmodel.call import Call
from costmodel.plan import Plan
from costmodel.prediction import Bound
from costmodel.timing import Timing


def binding(timing: Timing, kind: str) -> tuple[Bound, float]:
    """Give the bound and its margin: its share of the time over that of the next resource.

    A share of the time is also its elasticity: how many per cent the call gains from one per cent more of it.
    """
    fixed = timing.floor + timing.latency + timing.merge
    shares: list[tuple[float, Bound]] = [
        (timing.memory, "memory"),
        (timing.compute, "compute"),
        (timing.softmax, "softmax"),
    ]
    if kind == "cpu":
        shares += [(timing.overhead, "host"), (fixed, "latency")]
    else:
        shares.append((fixed + timing.overhead, "latency"))
    shares.sort(key=lambda item: item[0], reverse=True)
    first, second = shares[0], shares[1]
    return first[1], first[0] / second[0] if second[0] > 0 else float("inf")


def reason(call: Call, plan: Plan, timing: Timing, bound: Bound) -> str:
    """Say why the call takes as long as it does."""
    return f"{_filling(call, plan)}; {_limit(call, plan, timing, bound)}"


def _filling(call: Call, plan: Plan) -> str:
    machine = call.machine
    slots = machine.sms * plan.slots_per_sm
    unit = "core" if machine.kind == "cpu" else "SM"
    seats = f"{machine.sms} {unit}s"
    if plan.slots_per_sm > 1:
        seats += f" x {plan.slots_per_sm} CTAs"
    busy = min(1.0, plan.unit_count / slots)
    text = f"{plan.units} = {plan.unit_count} tiles for {seats}: {busy:.0%} busy".replace("%", " %")
    if plan.num_splits > 1:
        used = plan.job_count / slots
        filled = "fill them" if used >= 0.95 else f"fill {used:.0%}".replace("%", " %")
        return f"{text}; {plan.num_splits} splits {filled}"
    if plan.splittable and plan.unit_count * 2 <= slots:
        return f"{text}; {slots // plan.unit_count} splits fill them"
    return text


def _limit(call: Call, plan: Plan, timing: Timing, bound: Bound) -> str:
    seconds = timing.seconds
    match bound:
        case "memory":
            return f"{bytes_text(plan.all_dram_bytes)} at {plan.all_dram_bytes / seconds / 1e12:.2f} TB/s"
        case "compute":
            return f"{call.work.flops / 1e9:.1f} GFLOP at {rate_text(call.work.flops / seconds)}"
        case "softmax":
            return f"{call.work.exps / 1e6:.0f} M exponentials hide the matrix products"
        case "host":
            return "the overhead of library calls is longest"
        case "latency":
            parts = {
                "the launch floor": timing.floor,
                "too few bytes in flight": timing.latency,
                "the merge of splits": timing.merge,
                "work outside the tiles": timing.overhead,
            }
            return f"{max(parts, key=lambda name: parts[name])} is longest"


def rate_text(flops_per_s: float) -> str:
    """Give a matrix rate as `616 TFLOP/s`, below one of them in GFLOP/s."""
    if flops_per_s < 1e12:
        return f"{flops_per_s / 1e9:.3g} GFLOP/s"
    return f"{flops_per_s / 1e12:.0f} TFLOP/s"


def bytes_text(n: float) -> str:
    """Give bytes as `134 MB`."""
    for unit, size in (("TB", 1e12), ("GB", 1e9), ("MB", 1e6), ("KB", 1e3)):
        if n >= size:
            return f"{n / size:.3g} {unit}"
    return f"{n:.0f} bytes"
