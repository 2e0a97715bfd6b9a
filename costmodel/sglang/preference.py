"""The pair of backends that the cost model would launch instead, by predicted time on a reference workload."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from costmodel.batch import Batch
from costmodel.emulators import EMULATORS
from costmodel.errors import Incompatible
from costmodel.layer_group import Model
from costmodel.models import group_per_rank
from costmodel.predict import predict
from costmodel.sglang.arguments import BadArguments, parse_arguments
from costmodel.sglang.decision import SglangDecision
from costmodel.sglang.launch import KV_SPELLINGS, LaunchChoice, LaunchPlan, LaunchRefused, sglang_launch
from costmodel.sglang.tables import load_tables
from hwprofiles import MissingValue, Profile

DECODE_KV_LENS = (4096,) * 32
EXTEND_TOKENS = 2048
WORKLOAD = "decode of 32 requests over 4,096 tokens, prefill of 2,048 tokens; attention of all layers on one rank"

_OWN = ("attention_backend", "prefill_attention_backend", "decode_attention_backend", "page_size", "kv_cache_dtype")
_OWN_TOO = ("tp_size", "model_path")


@dataclass(frozen=True, slots=True)
class Times:
    """Predicted seconds of both phases, with 90 % intervals."""

    extend: tuple[float, float, float]
    """Seconds, low, high."""
    decode: tuple[float, float, float]


@dataclass(frozen=True, slots=True)
class Preference:
    """What the cost model would launch."""

    plan: LaunchPlan
    prefill: str
    decode: str
    times: Times
    sglang_times: Times | None
    """Of SGLang's own pick; None where it refuses or its pick has no cost model."""
    evidence: str
    """What the prediction rests on, as `Prediction.evidence`."""

    @property
    def keeps_sglang(self) -> bool:
        """Whether SGLang's own pick stands: no phase is faster, or one may be slower, beyond the intervals."""
        if self.sglang_times is None:
            return False
        ours, theirs = self.times, self.sglang_times
        faster = ours.decode[2] < theirs.decode[1] or ours.extend[2] < theirs.extend[1]
        slower = ours.decode[1] > theirs.decode[2] or ours.extend[1] > theirs.extend[2]
        return slower or not faster


def preferred(model: Model, profile: Profile, args: Sequence[str], decision: SglangDecision) -> Preference | None:
    """Find the fastest pair that starts with the line's other flags; None where nothing can be predicted.

    Args:
        model: As `load_model` gives it.
        profile: The device; its profile must hold what predictions need.
        args: The launch line that `decision` is about.
        decision: What SGLang makes of it.
    """
    try:
        options = parse_arguments(args, decision.sglang)
    except BadArguments:
        return None
    if decision.tensor_parallel < 1:
        return None
    kv = str(options.get("kv_cache_dtype", "auto"))
    kv = kv if kv in KV_SPELLINGS else "auto"
    tp = int(options.get("tp_size", 1))
    try:
        alone = _times_alone(model, profile, decision.tensor_parallel, kv)
    except (MissingValue, ValueError):
        return None
    extend = sorted((t.extend[0], name) for name, t in alone.items())
    decode = sorted((t.decode[0], name) for name, t in alone.items())
    pairs = sorted((a + b, prefill, name) for a, prefill in extend for b, name in decode)
    for _, prefill, name in pairs:
        choice = LaunchChoice(prefill, name, None, kv, tensor_parallel=tp, other_flags=_other_flags(options))
        try:
            plan = sglang_launch(choice, model, profile, decision.sglang)
        except (LaunchRefused, ValueError):
            continue
        times = Times(alone[prefill].extend, alone[name].decode)
        evidence = _evidence(model, profile, decision.tensor_parallel, name)
        return Preference(plan, prefill, name, times, _of_sglang(decision, alone), evidence)
    return None


def _times_alone(model: Model, profile: Profile, tp: int, kv: str) -> dict[str, Times]:
    """Predict both phases for every backend that SGLang has and that can be predicted."""
    choices = load_tables().choices
    times = {}
    for name in EMULATORS:
        if name in choices:
            try:
                times[name] = Times(*(_all_layers(model, profile, tp, kv, name, batch) for batch in _batches()))
            except Incompatible:
                continue
    return times


def _all_layers(
    model: Model, profile: Profile, tp: int, kv: str, backend: str, batch: Batch
) -> tuple[float, float, float]:
    seconds = low = high = 0.0
    stored = {"auto": None, "bfloat16": "bf16"}.get(kv, kv)
    for group in model.layer_groups:
        prediction = predict(group_per_rank(group, tp, stored).attention, batch, backend=backend, profile=profile)
        seconds += group.layers * prediction.seconds
        low += group.layers * prediction.low
        high += group.layers * prediction.high
    return seconds, low, high


def _batches() -> tuple[Batch, Batch]:
    return Batch.extend([EXTEND_TOKENS], [EXTEND_TOKENS]), Batch.decode(DECODE_KV_LENS)


def _evidence(model: Model, profile: Profile, tp: int, backend: str) -> str:
    attention = group_per_rank(model.layer_groups[0], tp).attention
    return predict(attention, Batch.decode(DECODE_KV_LENS), backend=backend, profile=profile).evidence


def _of_sglang(decision: SglangDecision, alone: Mapping[str, Times]) -> Times | None:
    prefill, decode = alone.get(decision.prefill or ""), alone.get(decision.decode or "")
    if decision.refused or prefill is None or decode is None:
        return None
    return Times(prefill.extend, decode.decode)


def without_attention_flags(args: Sequence[str], sglang: str) -> tuple[str, ...]:
    """Give a launch line without its backend, page and KV dtype flags; empty where it cannot be parsed."""
    try:
        options = parse_arguments(args, sglang)
    except BadArguments:
        return ()
    tp = ("--tp-size", str(options["tp_size"])) if "tp_size" in options else ()
    return (*tp, *_other_flags(options))


def _other_flags(options: Mapping[str, Any]) -> tuple[str, ...]:
    """Write the options that are not about attention backends back as flags."""
    flags: list[str] = []
    for name, value in options.items():
        if name in _OWN or name in _OWN_TOO:
            continue
        flag = "--" + name.replace("_", "-")
        if value is True:
            flags.append(flag)
        elif value is False:
            flags.append("--no-" + flag[2:])
        else:
            flags += [flag, *map(str, value if isinstance(value, list) else [value])]
    return tuple(flags)
