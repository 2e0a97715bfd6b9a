"""Compatibility rules: conditions over named facts, read from data, and what follows where they hold."""

import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

Fact = str | int | float | bool | None
Facts = Mapping[str, Fact]
Effect = Literal["incompatible", "unknown", "rewritten", "note"]
Scope = Literal["both", "server", "library"]

EFFECTS = ("incompatible", "unknown", "rewritten", "note")
SCOPES = ("both", "server", "library")
ENFORCED = ("error", "rewrite", "silent", "rule", "not_checked", "kernel")

KNOWN_FACTS = frozenset(
    {
        "platform", "arch", "cuda", "backend", "kind", "latent", "sparse", "dims", "qk_dim", "v_dim", "equal_dims",
        "qo_heads", "kv_heads", "group", "page", "page_given", "kv", "dtype", "window", "chunk", "sinks", "soft_cap",
        "cross", "cross_model", "causal", "phase", "topk", "speculative", "tree", "deterministic", "hybrid", "gdn",
        "deepseek", "architecture", "model_type", "dual_chunk", "context", "weights", "graphs", "uniform_q", "glm",
        "windowed_model", "workspace_mib", "prefill", "decode",
    }
)  # fmt: skip
"""Names that a condition may use; a typing error in a data file is caught when it is read."""


@dataclass(frozen=True, slots=True)
class Condition:
    """One test of one fact; a fact that is absent (None) meets none."""

    fact: str
    test: Callable[[Any, Any], bool]
    operand: Any


_OPERATORS: dict[str, Callable[[Any, Any], bool]] = {
    "is": lambda value, operand: value in operand,
    "not": lambda value, operand: value not in operand,
    "above": operator.gt,
    "below": operator.lt,
    "indivisible_by": lambda value, operand: bool(value % operand),
}


@dataclass(frozen=True, slots=True)
class Rule:
    """What follows where all conditions hold."""

    effect: Effect
    reason: str
    """In words a user can act on; `{fact}` is replaced by the fact's value."""
    when: tuple[Condition, ...] = ()
    scope: Scope = "both"
    enforced: str = "rule"
    """How SGLang or the kernel reacts: error, rewrite, silent (accepted and wrong), kernel, not_checked."""
    source: str = ""
    settings: Mapping[str, Fact] = field(default_factory=dict)
    """Settings that the server changes, by name: page_size, kv_cache_dtype, backend, cuda_graph, radix_cache."""

    def holds(self, facts: Facts) -> bool:
        """Whether all conditions hold."""
        for condition in self.when:
            value = facts.get(condition.fact)
            if value is None or not condition.test(value, condition.operand):
                return False
        return True

    def excluded(self, facts: Facts) -> bool:
        """Whether facts that are given already rule it out, whatever the others will be."""
        return any(c.fact in facts and not self._meets(c, facts) for c in self.when)

    @staticmethod
    def _meets(condition: Condition, facts: Facts) -> bool:
        value = facts[condition.fact]
        return value is not None and condition.test(value, condition.operand)

    def text(self, facts: Facts) -> str:
        """The reason with the facts filled in."""
        return self.reason.format_map(facts) if "{" in self.reason else self.reason


class RuleError(ValueError):
    """A rule in a data file is malformed."""


def read_rule(data: Mapping[str, Any], where: str) -> Rule:
    """Make a rule from one entry of a data file.

    Raises:
        RuleError: A key, operator, fact or effect is unknown.
    """
    known = {"effect", "reason", "when", "scope", "enforced", "source", "settings", "versions", "backends", "except"}
    if set(data) - known:
        raise RuleError(f"{where}: unknown key {sorted(set(data) - known)[0]!r}")
    for key, allowed in (("effect", EFFECTS), ("scope", SCOPES), ("enforced", ENFORCED)):
        if key in data and data[key] not in allowed:
            raise RuleError(f"{where}: {key}={data[key]!r} is not one of {', '.join(allowed)}")
    if "effect" not in data or not data.get("reason"):
        raise RuleError(f"{where}: a rule needs an effect and a reason")
    return Rule(
        effect=data["effect"],
        reason=data["reason"],
        when=tuple(_condition(key, value, where) for key, value in data.get("when", {}).items()),
        scope=data.get("scope", "both"),
        enforced=data.get("enforced", "rule"),
        source=data.get("source", ""),
        settings=dict(data.get("settings", {})),
    )


def _condition(key: str, value: Any, where: str) -> Condition:
    fact, _, test = key.partition(".")
    test = test or "is"
    if fact not in KNOWN_FACTS:
        raise RuleError(f"{where}: unknown fact {fact!r}")
    if test not in _OPERATORS:
        raise RuleError(f"{where}: unknown operator {test!r} in {key!r}")
    if test not in ("is", "not"):
        return Condition(fact, _OPERATORS[test], value)
    return Condition(fact, _OPERATORS[test], frozenset(value if isinstance(value, list) else [value]))
