"""What SGLang decided about a launch line, and what it changed on the way."""

from dataclasses import dataclass
from typing import Literal

Stage = Literal["cli", "resolve", "check", "build", "draft"]


@dataclass(frozen=True, slots=True)
class Change:
    """One value that SGLang set or rewrote."""

    field: str
    """The launch option, such as `--page-size`."""
    before: str | int | bool | None
    after: str | int | bool | None
    why: str
    source: str
    """Where in SGLang's source the rule is."""
    asked: bool = False
    """Whether this overrides what the launch line asked for."""


@dataclass(frozen=True, slots=True)
class SglangDecision:
    """Backends, page size and KV dtype that SGLang would serve with, or its refusal.

    The values are None where SGLang refuses before it has them.
    """

    sglang: str
    """SGLang version whose rules decided."""
    prefill: str | None
    decode: str | None
    page_size: int | None
    kv_cache_dtype: str | None
    """As SGLang spells the option; `auto` where it is left to the checkpoint."""
    kv_pool_dtype: str | None
    """Torch's name of the stored dtype, such as `bfloat16` or `float8_e4m3fn`."""
    refused: str | None
    """None, or the stage and the reason, `stage: reason`."""
    stage: Stage | None
    """Where it refuses: argument parsing, resolution, checks, backend construction, draft backends."""
    changed: tuple[Change, ...]
    """What SGLang set or rewrote, in its order."""
    draft: str | None = None
    """Backend of the draft model where it is set apart."""
    tensor_parallel: int = 1
    """Ranks that share the attention heads of one request: without data-parallel attention, `--tp-size` as given."""
    radix_cache: bool = True
    """Whether the prefix cache is on."""
    notes: tuple[str, ...] = ()
    """What the user should know beside the values."""
