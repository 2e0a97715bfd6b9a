"""Rules as data: a condition, and what it sets or refuses; see the tables in `data/`."""

import ast
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from types import CodeType
from typing import Any

from costmodel.sglang.decision import Stage
from costmodel.sglang.version import version_key

Value = str | int | bool | None

_ALLOWED = (
    ast.Expression, ast.BoolOp, ast.And, ast.Or, ast.UnaryOp, ast.Not, ast.Compare, ast.Eq, ast.NotEq, ast.In,
    ast.NotIn, ast.Is, ast.IsNot, ast.Lt, ast.LtE, ast.Gt, ast.GtE, ast.Name, ast.Load, ast.Constant, ast.Tuple,
    ast.IfExp, ast.BinOp, ast.Mod, ast.Mult, ast.Call, ast.Starred,
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Setting:
    """One assignment of a rule: a plain value, or an expression over the facts."""

    field: str
    value: Value = None
    expression: CodeType | None = None

    def of(self, facts: Mapping[str, Any]) -> Value:
        """Give the value for these facts."""
        return self.value if self.expression is None else evaluate(self.expression, facts)


@dataclass(frozen=True, slots=True)
class Rule:
    """One ordered rule."""

    when: CodeType
    why: str
    """Words for the user; `{name}` is replaced by a fact."""
    source: str
    settings: tuple[Setting, ...] = ()
    refuse: Stage | None = None
    group: str | None = None
    """Of the rules of one group only the first that holds fires."""
    quiet: bool = False
    """Bookkeeping that a user need not see."""


def read_rules(rows: Iterable[Mapping[str, Any]], sglang: str) -> tuple[Rule, ...]:
    """Compile the rows of a rule table that hold for a version.

    Raises:
        ValueError: A row is incomplete or its expression uses more than names, constants and comparisons.
    """
    version = version_key(sglang)
    return tuple(
        _rule(row)
        for row in rows
        if version_key(row.get("since", sglang)) <= version <= version_key(row.get("until", sglang))
    )


def evaluate(expression: CodeType, facts: Mapping[str, Any]) -> Any:
    """Evaluate a compiled expression over facts."""
    return eval(expression, {"__builtins__": {}}, facts)  # compiled by `_compile` from a closed grammar


def _rule(row: Mapping[str, Any]) -> Rule:
    unknown = set(row) - {"when", "set", "refuse", "why", "source", "group", "quiet", "since", "until"}
    if unknown or ("set" in row) == ("refuse" in row):
        raise ValueError(f"rule {row!r} needs exactly one of set and refuse, and nothing unknown")
    return Rule(
        when=_compile(row["when"]),
        why=row["why"],
        source=row["source"],
        settings=tuple(_setting(field, value) for field, value in row.get("set", {}).items()),
        refuse=row.get("refuse"),
        group=row.get("group"),
        quiet=row.get("quiet", False),
    )


def _setting(field: str, value: Value) -> Setting:
    if isinstance(value, str) and value.startswith("{") and value.endswith("}"):
        return Setting(field, expression=_compile(value[1:-1]))
    return Setting(field, value)


def _compile(text: str) -> CodeType:
    tree = ast.parse(text, mode="eval")
    for node in ast.walk(tree):
        if not isinstance(node, _ALLOWED):
            raise ValueError(f"rule expression {text!r} uses {type(node).__name__}")
    return compile(tree, "<rule>", "eval")
