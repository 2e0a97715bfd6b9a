"""A launch line for a choice of backends: complete flags that SGLang's own rules accept, and what they cost."""

import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from costmodel.layer_group import Model
from costmodel.prediction import KnobValue
from costmodel.sglang.decision import SglangDecision
from costmodel.sglang.effects import side_effects
from costmodel.sglang.knob_flags import KnobSettings, sglang_knobs
from costmodel.sglang.own_rules import options_for, own_verdict
from costmodel.sglang.resolve import sglang_resolve
from costmodel.sglang.tables import load_tables
from hwprofiles import Profile

KV_SPELLINGS = {
    "auto": ("auto",),
    "bf16": ("bf16", "bfloat16"),
    "bfloat16": ("bfloat16", "bf16"),
    "fp8_e4m3": ("fp8_e4m3",),
    "fp8_e5m2": ("fp8_e5m2",),
    "nvfp4": ("nvfp4",),
    "mxfp8": ("mxfp8",),
    "fp4_mx_block16": ("fp4_mx_block16",),
}
"""KV dtype to the spellings that SGLang's rules know; some models accept one of two only."""


class LaunchRefused(ValueError):
    """No launch line gives this choice; the message says why.

    Attributes:
        reason: The same without the names of the choice.
    """

    def __init__(self, message: str, reason: str | None = None) -> None:
        super().__init__(message)
        self.reason = reason or message


@dataclass(frozen=True, slots=True)
class LaunchChoice:
    """Attention settings of one server."""

    prefill: str
    decode: str
    page_size: int | None = None
    """None leaves it to the engine."""
    kv_cache_dtype: str = "auto"
    prefill_knobs: Mapping[str, KnobValue] = field(default_factory=dict)
    decode_knobs: Mapping[str, KnobValue] = field(default_factory=dict)
    tensor_parallel: int = 1
    other_flags: tuple[str, ...] = ()
    """Flags the server runs with anyway, such as the speculative ones."""


@dataclass(frozen=True, slots=True)
class LaunchPlan:
    """Flags and environment variables for one engine."""

    engine: str
    version: str
    flags: tuple[str, ...]
    env: Mapping[str, str]
    side_effects: tuple[str, ...]
    """What else changes with these settings."""
    not_expressed: tuple[str, ...] = ()
    """Parts of the choice that this engine has no setting for."""
    decision: SglangDecision | None = None
    """What SGLang's rules make of the flags."""

    def shell(self) -> str:
        """Write environment and flags as one line for a shell."""
        return " ".join([*(f"{k}={shlex.quote(v)}" for k, v in self.env.items()), *map(shlex.quote, self.flags)])


def sglang_launch(choice: LaunchChoice, model: Model, profile: Profile, sglang: str | None = None) -> LaunchPlan:
    """Write the flags that make SGLang serve with these backends.

    Args:
        choice: The settings wanted.
        model: As `load_model` gives it.
        profile: The device.
        sglang: Version whose rules decide; None means the newest with rules.

    Raises:
        LaunchRefused: SGLang refuses or rewrites the choice or does not know a backend, or the compatibility
            rules say that it cannot run.
    """
    tables = load_tables(sglang)
    for name in (choice.prefill, choice.decode):
        if name not in tables.choices:
            raise LaunchRefused(f"SGLang {tables.sglang} has no attention backend {name!r}")
    if choice.kv_cache_dtype not in KV_SPELLINGS:
        raise LaunchRefused(
            f"SGLang cannot be told to store KV as {choice.kv_cache_dtype!r}; it knows {', '.join(KV_SPELLINGS)}"
        )
    own = own_verdict(
        model,
        profile,
        (choice.prefill, choice.decode),
        options_for(choice.tensor_parallel, choice.page_size, choice.kv_cache_dtype),
    )
    if own.refusals:
        raise LaunchRefused(f"{_named(choice)} does not run on {profile.name}: {'; '.join(own.refusals)}")
    knobs = sglang_knobs(choice.prefill, choice.prefill_knobs, choice.decode, choice.decode_knobs)
    refusals: list[str] = []
    for flags in _spellings(choice, knobs):
        decision = sglang_resolve(model, profile, flags, tables.sglang)
        objection = decision.refused or _rewritten(choice, decision, tables.aliases)
        if objection is None:
            return LaunchPlan(
                engine="sglang",
                version=tables.sglang,
                flags=flags,
                env=knobs.env,
                side_effects=(
                    *side_effects(decision, choice.decode_knobs),
                    *(f"not confirmed: {u}" for u in own.unknown),
                ),
                not_expressed=knobs.not_expressed,
                decision=decision,
            )
        if objection not in refusals:
            refusals.append(objection)
    why = "; ".join(refusals)
    raise LaunchRefused(
        f"SGLang {tables.sglang} does not serve {_named(choice)}: {why}", f"SGLang {tables.sglang} refuses: {why}"
    )


def _spellings(choice: LaunchChoice, knobs: KnobSettings) -> Iterator[tuple[str, ...]]:
    """Try the fullest line first, then lines that leave a part to SGLang's own fill-in."""
    base = ("--attention-backend", choice.decode)
    split = ("--prefill-attention-backend", choice.prefill, "--decode-attention-backend", choice.decode)
    decode_only = ("--attention-backend", choice.prefill, "--decode-attention-backend", choice.decode)
    backends = [(*base, *split), split, decode_only]
    if choice.prefill == choice.decode:
        backends.append(base)
    tp = ("--tp-size", str(choice.tensor_parallel)) if choice.tensor_parallel > 1 else ()
    page = ("--page-size", str(choice.page_size)) if choice.page_size is not None else ()
    for kv in KV_SPELLINGS[choice.kv_cache_dtype]:
        for named in backends:
            yield (*tp, *named, *page, "--kv-cache-dtype", kv, *knobs.flags, *choice.other_flags)


def _rewritten(choice: LaunchChoice, decision: SglangDecision, aliases: Mapping[str, str]) -> str | None:
    differences = []
    for phase, wanted, got in (
        ("prefill", choice.prefill, decision.prefill),
        ("decode", choice.decode, decision.decode),
    ):
        if aliases.get(wanted, wanted) != aliases.get(got or "", got):
            differences.append(f"{phase} would run on {got} instead of {wanted}")
    if choice.page_size is not None and decision.page_size != choice.page_size:
        differences.append(f"the page size would become {decision.page_size} instead of {choice.page_size}")
    if choice.kv_cache_dtype != "auto" and decision.kv_cache_dtype not in KV_SPELLINGS[choice.kv_cache_dtype]:
        differences.append(f"KV would be stored as {decision.kv_cache_dtype} instead of {choice.kv_cache_dtype}")
    if not differences:
        return None
    whys = dict.fromkeys(change.why for change in decision.changed if change.asked)
    return ", ".join(differences) + (f" ({'; '.join(whys)})" if whys else "")


def _named(choice: LaunchChoice) -> str:
    page = "" if choice.page_size is None else f", page {choice.page_size}"
    return f"prefill={choice.prefill}, decode={choice.decode}{page}, KV {choice.kv_cache_dtype}"
