"""Scheduler settings of a simulated server, named as SGLang's launch options."""

from dataclasses import dataclass

from costmodel.serving.memory import MAX_PREFILL_TOKENS, Memory

INIT_TOKEN_RATIO, MIN_TOKEN_RATIO_FACTOR, RATIO_DECAY_STEPS = 0.7, 0.14, 600
RETRACT_STEPS = 20
CLIP_NEW_TOKENS = 4096
"""How SGLang guesses the output still to come (environ.py:646, schedule_policy.py:89, 0.5.23)."""


@dataclass(frozen=True, slots=True)
class Speculation:
    """A chain of drafted tokens that the target model verifies in one step.

    Raises:
        ValueError: A value is out of range.
    """

    draft_tokens: int
    """Tokens that one verification step looks at, the certain one included."""
    acceptance: float
    """Chance that a drafted token is accepted, given that all before it were."""
    draft_cost: float = 0.05
    """Time of drafting one token, as a share of a decode step; an assumption to be replaced by your own figure."""

    def __post_init__(self) -> None:
        """Check every field."""
        if not 2 <= self.draft_tokens <= 64:
            raise ValueError(f"draft_tokens={self.draft_tokens} must be from 2 to 64")
        if not 0 <= self.acceptance < 1:
            raise ValueError(f"acceptance={self.acceptance} must be from 0 to below 1")
        if not 0 <= self.draft_cost <= 1:
            raise ValueError(f"draft_cost={self.draft_cost} must be from 0 to 1")

    @property
    def tokens_per_step(self) -> float:
        """Expected tokens of one verification: 1 + a + a^2 + ... over the drafted ones."""
        return (1 - self.acceptance**self.draft_tokens) / (1 - self.acceptance)


@dataclass(frozen=True, slots=True)
class Policy:
    """What the scheduler may do.

    Raises:
        ValueError: A value is out of range.
    """

    kv_tokens: int
    page_size: int
    max_running_requests: int
    chunked_prefill_size: int
    max_prefill_tokens: int = MAX_PREFILL_TOKENS
    context_tokens: int | None = None
    """Longest request, input and output; None is no limit."""
    mixed_chunk: bool = False
    """Decode inside prefill steps, SGLang's `--enable-mixed-chunk`."""
    ignore_eos: bool = False
    """Requests are known to produce all their tokens, as benchmarks ask: room for all is set aside."""
    speculation: Speculation | None = None

    def __post_init__(self) -> None:
        """Check every field."""
        for name in ("kv_tokens", "page_size", "max_running_requests", "chunked_prefill_size", "max_prefill_tokens"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name}={getattr(self, name)} must be at least 1")

    def limit(self) -> str:
        """Say what the longest request is, and why."""
        if self.context_tokens is not None and self.context_tokens < self.kv_tokens:
            return f"the model's context of {self.context_tokens} tokens"
        return f"the {self.kv_tokens} KV tokens that fit"

    def refuses(self, tokens: int) -> bool:
        """Whether a request of so many tokens can never run."""
        limit = self.kv_tokens if self.context_tokens is None else min(self.kv_tokens, self.context_tokens)
        return self.pages(tokens) > self.kv_tokens or tokens > limit

    def pages(self, tokens: float) -> int:
        """Tokens that whole pages for `tokens` tokens take."""
        return -(-int(tokens) // self.page_size) * self.page_size


def policy_of(memory: Memory, max_running_requests: int | None = None) -> Policy:
    """Give SGLang's defaults for what a rank holds."""
    return Policy(
        kv_tokens=memory.kv_tokens,
        page_size=memory.page_size,
        max_running_requests=max_running_requests or memory.max_running_requests,
        chunked_prefill_size=memory.chunked_prefill_size,
    )
