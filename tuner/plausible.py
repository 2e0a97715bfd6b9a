"""Times that no device can reach: a wrong label, a call that returned at once, or a cache that was not cold."""

from costmodel import Attention, Batch
from costmodel.work import count_work
from executors.outcome import Failed, Measured, Outcome
from hwprofiles import MissingValue, Profile
from tuner.noise import timing

MARGIN = 1.05
"""What a datasheet's peak may be exceeded by: clocks above the boost clock it is given for."""
CACHES = 2.0
"""KV beyond that many last-level caches has to come from memory."""


def impossible(attention: Attention, batch: Batch, seconds: float, profile: Profile) -> str | None:
    """Say why a time is shorter than the device allows; None where it is possible or the peaks are not known.

    Processors are not judged: their datasheet peaks are not those of the cores at hand.
    """
    if profile.kind == "cpu":
        return None
    work = count_work(attention, batch)
    peak = _peak(attention, profile)
    if peak is not None and work.flops / seconds > MARGIN * peak:
        share = work.flops / seconds / peak
        return f"{100 * share:.0f} % of the peak of {peak / 1e12:.0f} TFLOP/s is impossible"
    cache = max(profile.l2_bytes or 0, profile.llc_bytes or 0)
    bandwidth = profile.memory_bytes_per_s
    if bandwidth is not None and work.kv_bytes > CACHES * cache and work.kv_bytes / seconds > MARGIN * bandwidth:
        share = work.kv_bytes / seconds / bandwidth
        return f"{100 * share:.0f} % of the memory bandwidth of {bandwidth / 1e12:.2f} TB/s is impossible"
    return None


def _peak(attention: Attention, profile: Profile) -> float | None:
    """The highest rate that either dtype allows: kernels may compute in that of the cache."""
    rates = []
    for dtype in (attention.dtype, attention.kv_dtype):
        try:
            rates.append(profile.matrix_rate("tf32" if dtype == "fp32" else dtype))
        except MissingValue:
            return None
    return max(rates)


def checked(attention: Attention, batch: Batch, outcome: Outcome, profile: Profile) -> Outcome:
    """Turn an impossible measurement into a failure: it never wins."""
    if not isinstance(outcome, Measured):
        return outcome
    reason = impossible(attention, batch, timing(outcome.seconds).seconds, profile)
    return outcome if reason is None else Failed("incorrect", reason, outcome.accuracy)
