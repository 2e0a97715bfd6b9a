"""Runs a version's rules over a launch line: what SGLang would serve with, or why it refuses."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from costmodel.layer_group import Model
from costmodel.sglang.arguments import BadArguments, parse_arguments
from costmodel.sglang.decision import Change, SglangDecision, Stage
from costmodel.sglang.facts import OPTIONS, Facts, gather_facts
from costmodel.sglang.notes import notes_on
from costmodel.sglang.rules import Rule, evaluate
from costmodel.sglang.tables import load_tables
from hwprofiles import Profile

_DIVISION = "SGLang divides by a size that is 0 in this line and dies: give sizes of at least 1"
_WITHOUT_VALUES: tuple[Stage, ...] = ("cli", "resolve")


def sglang_resolve(model: Model, profile: Profile, args: Sequence[str], sglang: str | None = None) -> SglangDecision:
    """Say what SGLang makes of a launch line on a device, without the device.

    Assumes CUDA 13.0, FlashInfer installed, no SGLang environment variables set, and enough devices for the
    parallelism asked for. Checks inside a backend's constructor and kernels are not in it.

    Args:
        model: As `load_model` gives it.
        profile: The device of every rank.
        args: Launch arguments, such as `["--tp-size", "8"]`; `--model-path` may be left out.
        sglang: Version whose rules decide; None means the newest with rules.

    Raises:
        ValueError: There are no rules for this version.
    """
    tables = load_tables(sglang)
    try:
        options = parse_arguments(args, tables.sglang)
    except BadArguments as error:
        return _refusal(tables.sglang, "cli", str(error), ())
    facts = gather_facts(model, profile, options, tables)
    changes, refused = _run(tables.rules, facts)
    notes = notes_on(facts, options)
    if refused and refused.refuse in _WITHOUT_VALUES:
        return _refusal(tables.sglang, refused.refuse, _words(refused.why, facts), changes, notes)
    return SglangDecision(
        sglang=tables.sglang,
        prefill=facts["P"],
        decode=facts["D"],
        page_size=facts["page"],
        kv_cache_dtype=facts["kv"],
        kv_pool_dtype=_pool_dtype(facts) if refused is None or refused.refuse != "check" else None,
        refused=f"{refused.refuse}: {_words(refused.why, facts)}" if refused else None,
        stage=refused.refuse if refused else None,
        changed=changes,
        draft=facts["draft"],
        tensor_parallel=facts["attention_tp"] if facts["tp"] > 0 else facts["tp"],
        radix_cache=not facts["radix_off"],
        notes=notes,
    )


def _run(rules: Sequence[Rule], facts: Facts) -> tuple[tuple[Change, ...], Rule | None]:
    given = {name for name, (_, default) in OPTIONS.items() if facts[name] != default}
    fired: set[str] = set()
    changes: list[Change] = []
    for rule in rules:
        try:
            holds = rule.group not in fired and evaluate(rule.when, facts)
        except ZeroDivisionError:
            return tuple(changes), replace(rule, refuse=rule.refuse or "resolve", why=_DIVISION)
        if not holds:
            continue
        if rule.group:
            fired.add(rule.group)
        if rule.refuse:
            return tuple(changes), rule
        values = [(setting, facts[setting.field], setting.of(facts)) for setting in rule.settings]
        for setting, before, after in values:
            facts[setting.field] = after
            if before != after and not rule.quiet:
                option = "--" + OPTIONS[setting.field][0].replace("_", "-")
                why = _words(rule.why, facts)
                changes.append(Change(option, before, after, why, rule.source, asked=setting.field in given))
    return tuple(changes), None


def _refusal(
    sglang: str, stage: Stage, reason: str, changes: tuple[Change, ...], notes: tuple[str, ...] = ()
) -> SglangDecision:
    return SglangDecision(sglang, None, None, None, None, None, f"{stage}: {reason}", stage, changes, notes=notes)


def _words(text: str, facts: Facts) -> str:
    """Fill a rule's words with facts; sets become sorted lists."""
    return text.format_map(_Words(facts))


class _Words(dict[str, Any]):
    def __init__(self, facts: Facts) -> None:
        super().__init__()
        self._facts = facts

    def __missing__(self, name: str) -> Any:
        value = self._facts[name]
        return ", ".join(sorted(value)) if isinstance(value, frozenset) else value


def _pool_dtype(facts: Facts) -> str | None:
    """Torch dtype of the stored cache, None where the device has no such cache (mem_cache/kv_cache_dtype.py:34)."""
    kv = facts["kv"]
    if facts["cpu"] and kv == "fp8_e5m2":
        return None
    e4m3 = "float8_e4m3fnuz" if facts["fnuz"] else "float8_e4m3fn"
    if kv == "auto":
        return e4m3 if facts["kv_fp8_checkpoint"] else _compute_dtype(facts)
    if kv == "fp8_e5m2":
        return e4m3 if facts["hip"] else "float8_e5m2"
    if kv in ("nvfp4", "fp4_mx_block16"):
        return "float4_e2m1fn_x2"
    return {"fp8_e4m3": e4m3, "mxfp8": "float8_e4m3fn"}.get(kv, "bfloat16")


def _compute_dtype(facts: Facts) -> str:
    asked = facts["dtype"] or (None if facts["dtype_flag"] == "auto" else facts["dtype_flag"])
    return {"half": "float16", "float": "float32"}.get(asked, asked) if asked else str(facts["checkpoint_dtype"])
