"""What else changes with a set of attention settings."""

from collections.abc import Mapping

from costmodel.prediction import KnobValue
from costmodel.sglang.decision import SglangDecision

NO_CUDA_GRAPH = ("torch_native", "flex_attention")
POOL_BYTES = {"float8_e4m3fn": 1.0, "float8_e4m3fnuz": 1.0, "float8_e5m2": 1.0, "float4_e2m1fn_x2": 0.5}


def side_effects(decision: SglangDecision, decode_knobs: Mapping[str, KnobValue]) -> tuple[str, ...]:
    """State the side effects of what SGLang decided, in the order a user would ask."""
    effects = []
    page = decision.page_size or 1
    if not decision.radix_cache:
        effects.append("the prefix cache (radix cache) is off: shared prompts are computed again")
    elif page > 1:
        effects.append(
            f"prefix-cache hits count in whole pages of {page} tokens; up to {page - 1} tokens a hit are lost"
        )
    if page > 1:
        effects.append(f"each request leaves up to {page - 1} slots of its last page empty")
    width = POOL_BYTES.get(decision.kv_pool_dtype or "", 2.0)
    if width < 2:
        effects.append(
            f"KV is stored in {width:g} bytes a value instead of 2: about {2 / width:g} times the tokens fit, "
            "at lower precision (without calibrated scales the scale is 1)"
        )
    graphless = [name for name in (decision.prefill, decision.decode) if name in NO_CUDA_GRAPH]
    if graphless:
        effects.append(f"CUDA graphs are off with {graphless[0]}: every decode step pays its launches")
    if decision.prefill != decision.decode:
        effects.append("both phases share one KV cache; target verification runs on the prefill backend by default")
    splits = decode_knobs.get("max_kv_splits")
    if decision.decode == "triton" and isinstance(splits, int) and splits > 8:
        effects.append(f"the decode grid and its float32 buffer are sized for {splits} splits also for short requests")
    effects += [f"SGLang sets {c.field} {c.after}: {c.why}" for c in decision.changed if c.field.endswith("schedule")]
    return tuple(effects)
