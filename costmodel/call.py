"""One question to an emulator: the call, the machine it runs on, and its knobs."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from math import gcd

from costmodel.attention import Attention
from costmodel.batch import Batch
from costmodel.machine import Machine
from costmodel.prediction import KnobValue
from costmodel.tiles import similar_requests, similar_shapes
from costmodel.work import Requests, Work, count_work, requests

MOST_LENGTHS = 256
"""KV lengths of a batch that are planned for one by one; bytes and FLOPs are exact beyond it too."""
JOINED_LENGTHS = 128
"""Groups of neighbours that more lengths are joined to, and pieces that more requests arrive in."""

JOINED_STEPS = 8
"""Requests of more than this many squared pairs of lengths are joined: so many steps of new tokens, each in so many
steps of KV."""
ARRIVAL_STRIDE = 0.618
"""Step of the fixed shuffle of requests, as a share of their number: the golden section spreads them evenly."""


@dataclass(frozen=True)
class Call:
    """One layer's attention call on one rank."""

    attention: Attention
    batch: Batch
    machine: Machine
    knobs: Mapping[str, KnobValue]
    """Every knob of the backend, defaults filled in."""

    @cached_property
    def work(self) -> Work:
        """The work that any kernel has to do."""
        return count_work(self.attention, self.batch, self.distinct)

    @cached_property
    def distinct(self) -> Requests:
        """Equal requests together: `(q_len, kv_len, count)`, longest KV first."""
        return requests(self.batch)

    @cached_property
    def requests(self) -> Requests:
        """Requests to plan for: the distinct ones, neighbours joined where there are too many.

        That is above `MOST_LENGTHS` KV lengths, and above `JOINED_STEPS` squared where new tokens differ too.
        """
        distinct = self.distinct
        if len(distinct) <= JOINED_STEPS**2:
            return distinct
        if self.batch.q_lens.count(self.batch.q_lens[0]) < self.batch.size:
            return similar_shapes(distinct, JOINED_STEPS)
        return similar_requests(distinct, JOINED_LENGTHS) if len(distinct) > MOST_LENGTHS else distinct

    @cached_property
    def arrivals(self) -> Requests:
        """The requests as they may arrive, one by one or, of more than `MOST_LENGTHS`, a few alike at a time.

        For libraries that keep the batch's order. A fixed stride through the sorted lengths stands for any order, so
        that permuting requests changes nothing.
        """
        if self.batch.uniform:
            return self.requests
        joined = len(self.requests) < len(self.distinct)
        whole = self.batch.size <= MOST_LENGTHS and not joined
        return dispersed(self.requests, self.batch.size if whole else JOINED_LENGTHS)

    @property
    def single_query(self) -> bool:
        """Whether every request has one query token."""
        return self.batch.total_q == self.batch.size

    def with_knobs(self, knobs: Mapping[str, KnobValue]) -> "Call":
        """Give the same call with other knobs; work that was counted is kept."""
        other = Call(self.attention, self.batch, self.machine, knobs)
        for name in ("work", "distinct", "requests", "arrivals"):
            if name in self.__dict__:
                other.__dict__[name] = self.__dict__[name]
        return other

    def coarse(self, groups: int) -> "Call":
        """Give the same call with requests of similar length joined to at most `groups`: to choose, not to time."""
        other = self.with_knobs(self.knobs)
        other.__dict__["requests"] = similar_requests(self.requests, groups)
        other.__dict__["arrivals"] = dispersed(other.requests, groups)
        return other

    def number(self, knob: str) -> int:
        """Give a whole-number knob; 0 where it is not set."""
        value = self.knobs.get(knob, 0)
        if isinstance(value, bool) or not isinstance(value, int):
            raise ValueError(f"knob {knob}={value!r} must be a whole number")
        return value


def dispersed(groups: Requests, most: int) -> Requests:
    """Give requests in an order without order, in at most about `most` pieces more than there are groups."""
    size = sum(count for _, _, count in groups)
    step = -(-size // most)
    ordered = [(q, kv, min(step, count - i)) for q, kv, count in groups for i in range(0, count, step)]
    pieces = len(ordered)
    stride = max(1, round(pieces * ARRIVAL_STRIDE))
    while gcd(stride, pieces) > 1:
        stride += 1
    return [ordered[(i * stride + pieces // 2) % pieces] for i in range(pieces)]
