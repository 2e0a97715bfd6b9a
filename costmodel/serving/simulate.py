"""Discrete-event simulation of continuous batching as SGLang does it, as a pure function over a stream of requests."""

from collections import deque
from collections.abc import Callable

from costmodel.serving.arrivals import Arrivals
from costmodel.serving.lookup import StepLookup
from costmodel.serving.outcome import Simulated, Tally
from costmodel.serving.policy import (
    CLIP_NEW_TOKENS,
    INIT_TOKEN_RATIO,
    MIN_TOKEN_RATIO_FACTOR,
    RATIO_DECAY_STEPS,
    RETRACT_STEPS,
    Policy,
)
from costmodel.serving.prefix import PrefixCache
from costmodel.serving.running import Active, Running

REPORT_EVERY = 1000


def simulate(
    lookup: StepLookup,
    policy: Policy,
    arrivals: Arrivals,
    slo: tuple[float | None, float | None] = (None, None),
    on_progress: Callable[[int], None] | None = None,
) -> Simulated:
    """Serve a stream to its end.

    A step is a prefill of waiting requests where there is room for one, else one decode step of all running requests.
    Prompts are prefilled in chunks; where the pages run out the latest requests are preempted and prefilled again.

    Args:
        lookup: Step times.
        policy: What the scheduler may do.
        arrivals: The requests, in order.
        slo: Longest time to the first token and per further token, seconds; None is no limit.
        on_progress: Called with the number of finished requests, now and then.
    """
    server = _Server(lookup, policy, arrivals, Tally(*slo))
    reported = 0
    while server.step():
        if on_progress is not None and server.tally.requests - reported >= REPORT_EVERY:
            reported = server.tally.requests
            on_progress(reported)
    if on_progress is not None:
        on_progress(server.tally.requests)
    return server.tally.result(server.now)


class _Server:
    def __init__(self, lookup: StepLookup, policy: Policy, arrivals: Arrivals, tally: Tally) -> None:
        self.lookup, self.policy, self.arrivals, self.tally = lookup, policy, arrivals, tally
        self.now = 0.0
        self.pace = policy.speculation.tokens_per_step if policy.speculation else 1.0
        self.running = Running(self.pace)
        self.waiting: deque[Active] = deque()
        self.chunked: Active | None = None
        self.cache = PrefixCache(policy.kv_tokens)
        self.ratio = INIT_TOKEN_RATIO
        self.last_token = 0.0
        """When the running requests got their latest token."""

    def step(self) -> bool:
        """Make one step; False when nothing is left to do."""
        self._receive()
        batch = self._prefill_batch()
        if batch:
            self._prefill(batch)
        elif self.running.count:
            self._decode()
        else:
            due = self.arrivals.next_time()
            if due is None:
                return False
            self.now = max(self.now, due)
        return True

    def _receive(self) -> None:
        due = self.arrivals.next_time()
        while due is not None and due <= self.now:
            request = self.arrivals.take()
            if self.tally.first_arrival is None:
                self.tally.first_arrival = request.arrival
            if self.policy.refuses(request.isl + request.osl):
                self.tally.reject(request.isl + request.osl)
                self.arrivals.finished(self.now)
            else:
                self.waiting.append(Active(request))
            due = self.arrivals.next_time()

    def _used(self) -> float:
        """Tokens in use; half a page a request is what its last page wastes on average."""
        waste = self.running.count * (self.policy.page_size - 1) / 2
        chunk = self.policy.pages(self.chunked.done) if self.chunked is not None else 0
        return self.running.kv_tokens + waste + chunk

    def _prefill_batch(self) -> list[tuple[Active, int]]:
        """Choose requests and how many tokens of each to prefill."""
        if self.chunked is None and not self.waiting:
            return []
        policy = self.policy
        mixed = self.running.count if policy.mixed_chunk else 0
        budget = min(policy.chunked_prefill_size, policy.max_prefill_tokens) - mixed
        batch: list[tuple[Active, int]] = []
        if self.chunked is not None:
            tokens = min(budget, self.chunked.to_prefill - self.chunked.done)
            batch.append((self.chunked, tokens))
            budget -= tokens
        slots = policy.max_running_requests - self.running.count - len(batch)
        ratio = 1.0 if policy.ignore_eos else self.ratio
        free = policy.kv_tokens - self._used() - self.running.remaining * ratio
        if self.chunked is not None:
            free -= self._needed(self.chunked) - policy.pages(self.chunked.done)
        while self.waiting and budget > 0 and slots > 0:
            active = self.waiting[0]
            if active.queued:
                self._look_up(active)
            whole = active.to_prefill - active.cached
            needed = self._needed(active)
            alone = not self.running.count and not batch
            if needed > free and not alone:
                break
            self.waiting.popleft()
            active.done = active.cached
            tokens = min(whole, budget)
            batch.append((active, tokens))
            free -= needed
            budget -= tokens
            slots -= 1
            if tokens < whole:
                break
        return batch

    def _needed(self, active: Active) -> float:
        """Tokens that a request may take: what it prefills, what it may still produce, and a page."""
        to_come = min(active.request.osl - active.produced, CLIP_NEW_TOKENS)
        return self.policy.pages(active.to_prefill) + to_come + self.policy.page_size

    def _look_up(self, active: Active) -> None:
        request = active.request
        hit = self.cache.hit(request.blocks, request.isl) if request.blocks else request.cached
        active.cached = min(hit // self.policy.page_size * self.policy.page_size, request.isl - 1)

    def _prefill(self, batch: list[tuple[Active, int]]) -> None:
        tokens = quadratic = weighted = complete = 0
        for active, new in batch:
            if active.queued:
                active.queued = False
                if active.first_token is None:
                    self.tally.queue.add(self.now - active.request.arrival)
                    self.tally.cached_tokens += active.cached
            active.done += new
            tokens += new
            quadratic += new * new
            weighted += new * active.done
            complete += active.done >= active.to_prefill
        seconds = self.lookup.extend(tokens, quadratic, weighted, complete)
        mixed = self.policy.mixed_chunk and self.running.count > 0
        if mixed:
            seconds += self._mixed_extra(tokens)
        self.now += seconds
        self.tally.prefill_steps += 1
        if mixed:
            self._emit()
        self.chunked = None
        for active, _ in batch:
            if active.done < active.to_prefill:
                self.chunked = active
            else:
                self._start(active)

    def _mixed_extra(self, tokens: int) -> float:
        """What decoding inside a prefill step adds; its attention is taken as that of a decode step."""
        count = self.running.count
        attention = self.lookup.decode_attention(count, self.running.kv_tokens / count)
        return attention + self.lookup.dense_extra(tokens, count)

    def _start(self, active: Active) -> None:
        """Give the first token and let the request decode."""
        if active.request.blocks:
            self.cache.store(active.request.blocks)
        if active.first_token is None:
            active.first_token = self.now
            active.produced = 1.0
        if active.produced >= active.request.osl:
            self._finish(active)
            return
        if not self.running.count:
            self.last_token = self.now
        self.running.join(active)
        self.tally.peak_kv_tokens = max(self.tally.peak_kv_tokens, int(self.running.kv_tokens))

    def _decode(self) -> None:
        self._make_room()
        running, speculation = self.running, self.policy.speculation
        length = running.kv_tokens / running.count + 1
        if speculation is None:
            seconds = self.lookup.decode(running.count, length)
        else:
            draft = (speculation.draft_tokens - 1) * speculation.draft_cost
            seconds = self.lookup.verify(running.count, length + speculation.draft_tokens, speculation.draft_tokens)
            seconds += draft * self.lookup.decode(running.count, length)
        self.now += seconds
        self._emit()
        self.ratio = max(
            INIT_TOKEN_RATIO * MIN_TOKEN_RATIO_FACTOR,
            self.ratio - INIT_TOKEN_RATIO * (1 - MIN_TOKEN_RATIO_FACTOR) / RATIO_DECAY_STEPS,
        )

    def _emit(self) -> None:
        """Give every running request its tokens."""
        count = self.running.count
        self.tally.decode_steps += 1
        self.tally.running += count
        self.tally.itl.add((self.now - self.last_token) / self.pace, count)
        self.last_token = self.now
        finished = self.running.advance()
        self.tally.peak_kv_tokens = max(self.tally.peak_kv_tokens, int(self.running.kv_tokens))
        for active in finished:
            self._finish(active)

    def _finish(self, active: Active) -> None:
        request, first = active.request, active.first_token
        self.tally.finish(request.arrival, self.now if first is None else first, self.now, (request.isl, request.osl))
        self.arrivals.finished(self.now)

    def _make_room(self) -> None:
        """Preempt until every running request can store its next tokens."""
        running = self.running
        while running.count > 1 and self._used() + running.count * self.pace > self.policy.kv_tokens:
            active = running.preempt()
            active.queued = True
            self.waiting.appendleft(active)
            self.tally.preemptions += 1
            output = running.output_so_far()
            total = output + running.remaining
            self.ratio = min(1.0, (output + RETRACT_STEPS * running.count) / total) if total > 0 else self.ratio
