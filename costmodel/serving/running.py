"""The requests that decode: all advance together, so that one step costs the same however many they are."""

import heapq
from dataclasses import dataclass, field

from costmodel.serving.request import Request


@dataclass(slots=True, eq=False)
class Active:
    """One request on its way through the server."""

    request: Request
    cached: int = 0
    """Prompt tokens that need no prefill."""
    done: int = 0
    """Tokens whose KV is stored, the cached ones included."""
    produced: float = 0.0
    """Output tokens so far."""
    first_token: float | None = None
    queued: bool = True
    alive: bool = field(default=False)
    started: int = 0
    """Decode step at which it joined."""
    produced_then: float = 0.0

    @property
    def to_prefill(self) -> int:
        """Tokens whose KV must be stored before it decodes: the prompt, and after a preemption its own output."""
        return self.request.isl + max(0, int(self.produced) - 1)


class Running:
    """Decoding requests with their sums."""

    def __init__(self, tokens_per_step: float) -> None:
        self.count = 0
        self.kv_tokens = 0.0
        self.remaining = 0.0
        """Output tokens still to come, of all of them."""
        self.step = 0
        self._pace = tokens_per_step
        self._ends: list[tuple[int, int, Active]] = []
        self._stack: list[Active] = []
        self._serial = 0

    def join(self, active: Active) -> None:
        """Let a prefilled request decode."""
        left = active.request.osl - active.produced
        active.alive, active.started, active.produced_then = True, self.step, active.produced
        steps = max(1, -int(-left // self._pace))
        self._serial += 1
        heapq.heappush(self._ends, (self.step + steps, self._serial, active))
        self._stack.append(active)
        self.count += 1
        self.kv_tokens += active.to_prefill
        self.remaining += left

    def advance(self) -> list[Active]:
        """Make one decode step and give the requests that it finishes."""
        self.step += 1
        self.kv_tokens += self.count * self._pace
        self.remaining -= self.count * self._pace
        finished = []
        while self._ends and self._ends[0][0] <= self.step:
            active = heapq.heappop(self._ends)[2]
            if active.alive and active.started < self.step:
                self._leave(active)
                active.produced = float(active.request.osl)
                finished.append(active)
        return finished

    def preempt(self) -> Active:
        """Take out the request with the fewest output tokens since it joined, the latest to join."""
        while True:
            active = self._stack.pop()
            if active.alive:
                self._leave(active)
                active.produced = active.produced_then + (self.step - active.started) * self._pace
                active.done = 0
                return active

    def output_so_far(self) -> float:
        """Output tokens of the requests that decode, counted since they joined."""
        self._stack = [active for active in self._stack if active.alive]
        return sum((self.step - active.started) * self._pace for active in self._stack)

    def _leave(self, active: Active) -> None:
        steps = (self.step - active.started) * self._pace
        active.alive = False
        self.count -= 1
        self.kv_tokens -= active.to_prefill + steps
        self.remaining -= active.request.osl - active.produced_then - steps
        if len(self._stack) > 64 and len(self._stack) > 4 * self.count:
            self._stack = [other for other in self._stack if other.alive]
        if len(self._ends) > 64 and len(self._ends) > 4 * self.count:
            self._ends = [entry for entry in self._ends if entry[2].alive]
            heapq.heapify(self._ends)
        if not self.count:
            self.kv_tokens = self.remaining = 0.0
