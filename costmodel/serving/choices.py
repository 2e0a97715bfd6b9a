"""Every pair of prefill and decode backend that SGLang would start with on a device, and why others do not."""

from collections.abc import Mapping
from dataclasses import dataclass

from costmodel.compat import Options, judge, judge_pair
from costmodel.emulators import ALIASES, EMULATORS
from costmodel.layer_group import Model
from costmodel.serving.deployment import ONE_DEVICE, Deployment, Parallel
from costmodel.sglang.launch import LaunchChoice, LaunchPlan, LaunchRefused, sglang_launch
from costmodel.sglang.resolve import sglang_resolve
from hwprofiles import Profile

RUNS = ("compatible", "rewritten")


@dataclass(frozen=True, slots=True)
class Asked:
    """What the server is asked to be, before its backends are chosen."""

    model: Model
    profile: Profile
    parallel: Parallel = ONE_DEVICE
    page_size: int | None = None
    """None leaves it to SGLang."""
    kv_cache_dtype: str = "auto"

    @property
    def options(self) -> Options:
        """The same for the compatibility rules."""
        return Options(tp=self.parallel.tp, page_size=self.page_size, kv_cache_dtype=self.kv_cache_dtype)

    @property
    def expert_flags(self) -> tuple[str, ...]:
        """Flags of expert parallelism."""
        return ("--ep-size", str(self.parallel.ep)) if self.parallel.ep > 1 else ()

    def deployment(self, prefill: str, decode: str, page_size: int) -> Deployment:
        """The server with its backends."""
        return Deployment(self.model, self.profile, prefill, decode, self.parallel, page_size, self.kv_cache_dtype)


@dataclass(frozen=True, slots=True)
class Pair:
    """A pair that starts."""

    prefill: str
    decode: str
    page_size: int
    plan: LaunchPlan
    notes: tuple[str, ...]

    @property
    def name(self) -> str:
        """Both backends, one name where they are the same."""
        return self.prefill if self.prefill == self.decode else f"{self.prefill} + {self.decode}"


@dataclass(frozen=True, slots=True)
class Pairs:
    """All pairs of a device."""

    run: tuple[Pair, ...]
    refused: Mapping[str, tuple[str, ...]]
    """Backend or pair (`prefill + decode`) to why not."""


def find_pairs(asked: Asked) -> Pairs:
    """Find the pairs, prefill backend first.

    Raises:
        ValueError: Heads do not divide by the TP size.
    """
    judgement = judge(asked.model, asked.profile, asked.options)
    refused: dict[str, tuple[str, ...]] = {}
    able: dict[str, list[str]] = {"extend": [], "decode": []}
    for name in dict.fromkeys(row.backend for row in judgement.rows if row.alias_of is None):
        for phase, found in able.items():
            rows = [row for row in judgement.rows if row.backend == name and row.phase == phase]
            reasons = [reason for row in rows if row.verdict not in RUNS for reason in row.reasons]
            if reasons:
                refused.setdefault(name, tuple(dict.fromkeys(reasons)))
            elif ALIASES.get(name, name) in EMULATORS:
                found.append(name)
            else:
                refused[name] = ("it runs here, but the cost model knows nothing of its kernels",)
    run = []
    for prefill in able["extend"]:
        for decode in able["decode"]:
            pair = _pair(asked, prefill, decode)
            if isinstance(pair, Pair):
                run.append(pair)
            else:
                refused[f"{prefill} + {decode}"] = pair
    return Pairs(tuple(run), refused)


def default_pair(asked: Asked) -> Pair | str:
    """Give the pair that SGLang takes by itself, or why it refuses."""
    tp = ("--tp-size", str(asked.parallel.tp)) if asked.parallel.tp > 1 else ()
    page = ("--page-size", str(asked.page_size)) if asked.page_size is not None else ()
    flags = (*tp, *page, "--kv-cache-dtype", asked.kv_cache_dtype, *asked.expert_flags)
    decision = sglang_resolve(asked.model, asked.profile, flags)
    if decision.refused or decision.prefill is None or decision.decode is None:
        return decision.refused or "SGLang has no default here"
    plan = LaunchPlan("sglang", decision.sglang, flags, {}, decision.notes, decision=decision)
    return Pair(decision.prefill, decision.decode, decision.page_size or 1, plan, decision.notes)


def _pair(asked: Asked, prefill: str, decode: str) -> Pair | tuple[str, ...]:
    verdict = judge_pair(asked.model, asked.profile, prefill, decode, asked.options)
    if verdict.reasons:
        return verdict.reasons
    page = asked.page_size or verdict.page_size
    choice = LaunchChoice(
        prefill,
        decode,
        page,
        asked.kv_cache_dtype,
        tensor_parallel=asked.parallel.tp,
        other_flags=asked.expert_flags,
    )
    try:
        plan = sglang_launch(choice, asked.model, asked.profile)
    except LaunchRefused as error:
        return (error.reason,)
    decided = plan.decision.page_size if plan.decision is not None else None
    return Pair(prefill, decode, decided or page or 1, plan, verdict.notes)
