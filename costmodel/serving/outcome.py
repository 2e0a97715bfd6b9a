"""What a simulation reports."""

from dataclasses import dataclass

from costmodel.serving.histogram import Histogram, Summary


@dataclass(frozen=True, slots=True)
class Simulated:
    """A served stream of requests; times in seconds."""

    requests: int
    """Finished ones."""
    rejected: int
    """Requests that can never fit the KV pages or the context."""
    shortest_rejected: int
    """Input and output tokens of the shortest of them; 0 where there is none."""
    seconds: float
    """From the first arrival to the last token."""
    input_tokens: int
    output_tokens: int
    cached_tokens: int
    """Input tokens that the prefix cache held."""
    prefill_steps: int
    decode_steps: int
    preemptions: int
    ttft: Summary
    tpot: Summary
    itl: Summary
    """Gaps between the tokens of a request."""
    e2e: Summary
    queue: Summary
    """Wait before the prefill starts."""
    mean_running: float
    """Requests in a decode step."""
    peak_kv_tokens: int
    good: int
    """Requests that kept the SLO; all of them where there is none."""

    @property
    def requests_per_s(self) -> float:
        """Finished requests a second."""
        return self.requests / self.seconds if self.seconds else 0.0

    @property
    def tokens_per_s(self) -> float:
        """Output tokens a second of the whole server."""
        return self.output_tokens / self.seconds if self.seconds else 0.0

    @property
    def goodput(self) -> float:
        """Requests a second that kept the SLO."""
        return self.good / self.seconds if self.seconds else 0.0


class Tally:
    """Counts while a simulation runs; flat in the number of requests."""

    def __init__(self, slo_ttft: float | None, slo_tpot: float | None) -> None:
        self.ttft, self.tpot, self.itl, self.e2e, self.queue = (Histogram() for _ in range(5))
        self.requests = self.rejected = self.input_tokens = self.output_tokens = self.cached_tokens = 0
        self.prefill_steps = self.decode_steps = self.preemptions = self.good = self.running = 0
        self.peak_kv_tokens = self.shortest_rejected = 0
        self.first_arrival: float | None = None
        self._slo_ttft = float("inf") if slo_ttft is None else slo_ttft
        self._slo_tpot = float("inf") if slo_tpot is None else slo_tpot

    def reject(self, tokens: int) -> None:
        """Count a request of so many tokens that can never run."""
        self.rejected += 1
        self.shortest_rejected = min(self.shortest_rejected or tokens, tokens)

    def finish(self, arrival: float, first_token: float, end: float, lengths: tuple[int, int]) -> None:
        """Count a finished request of (input, output) tokens."""
        isl, osl = lengths
        self.requests += 1
        self.input_tokens += isl
        self.output_tokens += osl
        ttft = first_token - arrival
        self.ttft.add(ttft)
        self.e2e.add(end - arrival)
        tpot = (end - first_token) / (osl - 1) if osl > 1 else 0.0
        if osl > 1:
            self.tpot.add(tpot)
        self.good += ttft <= self._slo_ttft and tpot <= self._slo_tpot

    def result(self, end: float) -> Simulated:
        """Close the books."""
        return Simulated(
            requests=self.requests,
            rejected=self.rejected,
            shortest_rejected=self.shortest_rejected,
            seconds=end - (self.first_arrival or 0.0),
            input_tokens=self.input_tokens,
            output_tokens=self.output_tokens,
            cached_tokens=self.cached_tokens,
            prefill_steps=self.prefill_steps,
            decode_steps=self.decode_steps,
            preemptions=self.preemptions,
            ttft=self.ttft.summary(),
            tpot=self.tpot.summary(),
            itl=self.itl.summary(),
            e2e=self.e2e.summary(),
            queue=self.queue.summary(),
            mean_running=self.running / self.decode_steps if self.decode_steps else 0.0,
            peak_kv_tokens=self.peak_kv_tokens,
            good=self.good,
        )
