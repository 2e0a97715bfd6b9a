"""An estimate as JSON, with the contract's field names and microseconds."""

from typing import Any

from costmodel import Prediction, Ranked, implementation_of

TIMED_FIELDS = (
    "latency_us",
    "low_us",
    "high_us",
    "plan_us",
    "eager_us",
    "bound",
    "num_splits",
    "waves",
    "dram_bytes",
    "flops",
    "workspace_bytes",
)


def estimate_json(row: Ranked, phase: str, layer_group: int) -> dict[str, Any]:
    """Give one row of a ranking as JSON; the timed fields are null where the backend cannot run."""
    implementation, version = implementation_of(row.backend)
    head: dict[str, Any] = {
        "backend": row.backend,
        "implementation": implementation,
        "implementation_version": version,
        "phase": phase,
        "layer_group": layer_group,
        "compatible": row.prediction is not None,
        "reasons": list(row.reasons),
    }
    p = row.prediction
    if p is None:
        return {**head, **dict.fromkeys(TIMED_FIELDS), "knobs": dict(row.knobs), "breakdown_us": None, "evidence": None}
    return head | _timed(p)


def _timed(p: Prediction) -> dict[str, Any]:
    return {
        "latency_us": p.seconds * 1e6,
        "low_us": p.low * 1e6,
        "high_us": p.high * 1e6,
        "plan_us": p.plan_seconds * 1e6,
        "eager_us": p.eager_seconds * 1e6,
        "bound": p.bound,
        "num_splits": p.num_splits,
        "waves": p.waves,
        "dram_bytes": p.dram_bytes,
        "flops": p.flops,
        "workspace_bytes": p.workspace_bytes,
        "knobs": dict(p.knobs),
        "breakdown_us": {part: seconds * 1e6 for part, seconds in p.breakdown.items()},
        "evidence": p.evidence,
        "reason": p.reason,
        "margin": p.margin,
        "mla_form": p.mla_form,
        "from_l2_us": None if p.from_l2_seconds is None else p.from_l2_seconds * 1e6,
        "notes": list(p.notes),
    }
