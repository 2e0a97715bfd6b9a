"""Advice as JSON with the contract's names, and as a launch line."""

from typing import TYPE_CHECKING, Any

from cli.errors import AnswerIsNo

if TYPE_CHECKING:
    from cli.recorded import Recorded
    from costmodel.serving import Advice, Asked, Choice, Disaggregated, Point, Step
    from costmodel.sglang import LaunchPlan


def advice_json(advice: "Advice", asked: "Asked", recorded: "Recorded", model: str) -> dict[str, Any]:
    """Give the whole advice as JSON; milliseconds."""
    from costmodel.serving import best_within, disaggregate, front, points, to_be_sure

    pairs = [choice.pair for choice in advice.choices]
    apart = disaggregate(asked, pairs, advice.load, recorded.seconds)
    evaluated = points(asked, pairs, advice.load, recorded.seconds)
    most = best_within(evaluated, advice.slo) if advice.slo.given else None
    return {
        "model": asked.model.name,
        "device": asked.profile.id,
        "tp": asked.parallel.tp,
        "isl": advice.load.isl,
        "osl": advice.load.osl,
        "concurrency": advice.load.concurrency,
        "rate": advice.load.rate,
        "goal": advice.goal,
        "verdict": advice.verdict,
        "recommended": advice.pair.name,
        "ahead": advice.ahead.name,
        "approximate": list(advice.notes),
        "to_be_sure": list(to_be_sure(advice, model)),
        "choices": [choice_json(choice, recorded) for choice in advice.choices],
        "sglang_default": choice_json(advice.default, recorded) if advice.default else None,
        "sglang_default_reason": advice.missing.why if advice.missing else None,
        "refused": {name: list(reasons) for name, reasons in advice.refused.items()},
        "pareto": [point_json(p) for p in front(evaluated)],
        "best_within_slo": point_json(most) if most else None,
        "disaggregated": apart_json(apart) if apart else None,
    }


def choice_json(choice: "Choice", recorded: "Recorded") -> dict[str, Any]:
    """Give one pair as JSON."""
    service, pair = choice.service, choice.pair
    rates, best, worst = service.rates, service.best, service.worst
    decision = pair.plan.decision
    return {
        "prefill_backend": pair.prefill,
        "decode_backend": pair.decode,
        "page_size": pair.page_size,
        "kv_cache_dtype": choice.kv_dtype,
        "ttft_ms": rates.ttft_seconds * 1e3,
        "ttft_low_ms": best.ttft_seconds * 1e3,
        "ttft_high_ms": worst.ttft_seconds * 1e3,
        "tpot_ms": rates.tpot_seconds * 1e3,
        "tpot_low_ms": best.tpot_seconds * 1e3,
        "tpot_high_ms": worst.tpot_seconds * 1e3,
        "tokens_per_s": rates.tokens_per_s,
        "tokens_per_s_low": worst.tokens_per_s,
        "tokens_per_s_high": best.tokens_per_s,
        "kv_tokens": service.memory.kv_tokens,
        "flags": list(pair.plan.flags),
        "env": dict(pair.plan.env),
        "reasons": [*choice.missed, *pair.notes, *pair.plan.side_effects],
        "keeps_slo": not choice.missed,
        "running": service.running,
        "evidence": service.evidence,
        "sglang_version": decision.sglang if decision else pair.plan.version,
        "weight_bytes": service.memory.weight_bytes,
        "mem_fraction_static": service.memory.static_fraction,
        "prefill_step": step_json(service.prefill),
        "decode_step": step_json(service.decode),
        **recorded_json(choice, recorded),
    }


def step_json(step: "Step") -> dict[str, Any]:
    """Give one step with its parts and their origins."""
    return {
        "ms": step.seconds * 1e3,
        "low_ms": step.low * 1e3,
        "high_ms": step.high * 1e3,
        "parts": {
            name: {"ms": t.seconds * 1e3, "low_ms": t.low * 1e3, "high_ms": t.high * 1e3, "evidence": t.evidence}
            for name, t in step.parts.items()
        },
    }


def recorded_json(choice: "Choice", recorded: "Recorded") -> dict[str, Any]:
    """Give what records of this device add: start-up compilation, power during attention, numerical error."""
    pair = choice.pair
    watts = recorded.power_w.get((pair.decode, "decode"))
    step = choice.service.decode
    joules = None if watts is None else watts * step.attention.seconds / max(1.0, choice.service.running)
    errors = [recorded.relative_error.get(name) for name in (pair.prefill, pair.decode)]
    compiles = [recorded.compile_s.get(name) for name in {pair.prefill, pair.decode}]
    known = [value for value in compiles if value is not None]
    return {
        "compile_s": sum(known) if known else None,
        "attention_joules_per_token": joules,
        "error_over_tolerance": {"prefill": errors[0], "decode": errors[1]},
    }


def point_json(point: "Point") -> dict[str, Any]:
    """Give one point of the Pareto front."""
    return {
        "prefill_backend": point.choice.pair.prefill,
        "decode_backend": point.choice.pair.decode,
        "concurrency": point.concurrency,
        "ttft_ms": point.ttft_seconds * 1e3,
        "tpot_ms": point.choice.service.rates.tpot_seconds * 1e3,
        "tokens_per_s": point.tokens_per_s,
        "evidence": point.choice.service.evidence,
    }


def apart_json(apart: "Disaggregated") -> dict[str, Any]:
    """Give prefill and decode on servers of their own."""
    return {
        "prefill_backend": apart.prefill_backend,
        "decode_backend": apart.decode_backend,
        "prefill_servers_per_decode_server": apart.prefill_servers,
        "ttft_ms": apart.ttft_seconds * 1e3,
        "tpot_ms": apart.tpot_seconds * 1e3,
        "kv_transfer_ms": apart.transfer_seconds * 1e3,
        "kv_transfer_bytes": apart.kv_bytes,
        "tokens_per_s": apart.tokens_per_s,
        "evidence": apart.evidence,
    }


def launch_plan(advice: "Advice", engine: str) -> "LaunchPlan":
    """Give the launch line of the recommended pair for an engine."""
    from costmodel import LaunchChoice, LaunchRefused, vllm_launch

    pair = advice.pair
    if engine == "sglang":
        return pair.plan
    choice = LaunchChoice(
        pair.prefill,
        pair.decode,
        pair.page_size,
        advice.asked.kv_cache_dtype,
        tensor_parallel=advice.asked.parallel.tp,
    )
    try:
        return vllm_launch(choice, advice.asked.model, advice.asked.profile)
    except LaunchRefused as error:
        raise AnswerIsNo(str(error)) from None
