"""No batch is faster than its longest request alone, as long as the library cuts both in the same way."""

from collections.abc import Callable, Iterator
from dataclasses import replace

from costmodel.call import Call
from costmodel.plan import Plan

SMALL_SHARE, SHORT_JOB = 0.25, 0.5
"""Share of the batch's pairs, and share of a slot's work in one job, up to which a request is beyond doubt shorter: a
list schedule ends within one job of evenly spread work."""
LAUNCHED_SHARE = 1 / 16
"""The same where requests of similar length are launched one after the other, as if all had their mean length."""


def longest_alone(call: Call, plan: Plan) -> Iterator[Call]:
    """Give the requests that may take as long alone as the batch, each as a call of its own; none of equal requests.

    They are the one with most KV, whose tiles are walked one after the other, the one with most query-key pairs, and
    the one with most new tokens, which fill their tiles best.
    """
    if call.batch.uniform or _is_spread(call, plan):
        return
    longest = [max(call.distinct, key=first) for first in (_kv_first, _pairs_first, _queries_first)]
    for q, kv, _ in dict.fromkeys(longest):
        batch = replace(call.batch, q_lens=(q,), kv_lens=(kv,), shared_prefix=0)
        yield Call(call.attention, batch, call.machine, call.knobs)


def cut_alike(alone: Plan, batch: Plan) -> bool:
    """Whether a request alone runs in the kernel of its batch, on the same tiles, with the same splits.

    A grid that the library pads to a fixed size has more empty CTAs when it holds one request: that is cut otherwise.
    """
    return _decisions(alone) == _decisions(batch) and alone.empty_ctas <= batch.empty_ctas


def _decisions(plan: Plan) -> tuple[object, ...]:
    splits = (plan.num_splits, plan.merge_splits, plan.merge_slots, plan.merge_launched)
    return (plan.variant, plan.kernel, plan.tile, plan.slots_per_sm, *splits)


def _is_spread(call: Call, plan: Plan) -> bool:
    """Whether no single request or job makes up much of a batch."""
    if plan.after or plan.repeats > 1:
        return all(_greatest_share(call, size) <= LAUNCHED_SHARE for size in (_pairs, _square))
    slots = call.machine.sms * plan.slots_per_sm
    short = plan.assigned or max([tiles for _, tiles in plan.jobs]) * slots <= SHORT_JOB * plan.total_tiles
    return bool(short) and _greatest_share(call, _pairs) <= SMALL_SHARE


def _greatest_share(call: Call, size: Callable[[tuple[int, int, int]], int]) -> float:
    sizes = [size(request) for request in call.distinct]
    return max(sizes) / sum([n * count for n, (_, _, count) in zip(sizes, call.distinct, strict=True)])


def _pairs(request: tuple[int, int, int]) -> int:
    q, kv, _ = request
    return q * (2 * kv - q)


def _square(request: tuple[int, int, int]) -> int:
    return request[1] ** 2


def _kv_first(request: tuple[int, int, int]) -> tuple[int, int]:
    return request[1], request[0]


def _pairs_first(request: tuple[int, int, int]) -> tuple[int, int]:
    return _pairs(request), request[1]


def _queries_first(request: tuple[int, int, int]) -> tuple[int, int]:
    return request[0], request[1]
