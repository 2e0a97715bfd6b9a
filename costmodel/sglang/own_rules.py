"""What the project's own compatibility rules say about a choice that SGLang accepts."""

from dataclasses import dataclass

from costmodel.attention import DTYPE_BYTES
from costmodel.compat import Options, judge, judge_pair
from costmodel.layer_group import Model
from costmodel.sglang.decision import SglangDecision
from hwprofiles import Profile


@dataclass(frozen=True, slots=True)
class OwnVerdict:
    """Objections to a pair of backends."""

    refusals: tuple[str, ...]
    unknown: tuple[str, ...]
    """What no rule confirms or denies."""


def own_verdict(model: Model, profile: Profile, pair: tuple[str, str], options: Options) -> OwnVerdict:
    """Judge a prefill and a decode backend by the compatibility tables."""
    prefill, decode = pair
    judgement = judge(model, profile, options, names={prefill, decode})
    counted = {(prefill, "extend"), (decode, "decode")}
    rows = [row for row in (*judgement.rows, *judgement.extra) if (row.backend, row.phase) in counted]
    said = {
        verdict: tuple(
            dict.fromkeys(f"{row.backend}: {text}" for row in rows if row.verdict == verdict for text in row.reasons)
        )
        for verdict in ("incompatible", "unknown")
    }
    if said["incompatible"] or said["unknown"]:
        return OwnVerdict(said["incompatible"], said["unknown"])
    return OwnVerdict(judge_pair(model, profile, prefill, decode, options).reasons, ())


def warnings_on(decision: SglangDecision, model: Model, profile: Profile) -> tuple[str, ...]:
    """Name what SGLang lets pass and the kernels do not run, or run wrongly."""
    if decision.refused or decision.prefill is None or decision.decode is None:
        return ()
    try:
        options = options_for(decision.tensor_parallel, decision.page_size, decision.kv_cache_dtype or "auto")
        return own_verdict(model, profile, (decision.prefill, decision.decode), options).refusals
    except ValueError as error:
        return (f"the server dies when it builds the model: {error}",)


def options_for(tensor_parallel: int, page_size: int | None, kv_cache_dtype: str) -> Options:
    """Give the options of a choice in the tables' terms; a KV dtype they do not know is left at auto."""
    kv = {"bfloat16": "bf16", "float16": "fp16"}.get(kv_cache_dtype, kv_cache_dtype)
    known = kv if kv in DTYPE_BYTES else "auto"
    return Options(tp=tensor_parallel, page_size=page_size, kv_cache_dtype=known)
