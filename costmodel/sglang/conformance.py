"""Compares the shipped tables with an SGLang package: which names came, went or changed."""

import ast
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from costmodel.sglang.source_tree import NotSglang, SourceTree, open_source
from costmodel.sglang.tables import Tables, latest_version, load_tables, supported_versions

CHOICES = ("sglang/srt/arg_groups/choices.py", "sglang/srt/server_args.py")
"""Files that hold the choice lists, the newer place first."""
REGISTRY = "sglang/srt/layers/attention/attention_registry.py"
OVERRIDES = ("sglang/srt/arg_groups/model_overrides/", "sglang/srt/arg_groups/overrides.py")
FIELDS = "sglang/srt/arg_groups/fields/"
DEPRECATIONS = "sglang/srt/arg_groups/serving_hook.py"

LISTS = {
    "ATTENTION_BACKEND_CHOICES": "choices",
    "DRAFT_ATTENTION_BACKEND_CHOICES": "draft_choices",
    "DETERMINISTIC_ATTENTION_BACKEND_CHOICES": "deterministic",
    "RADIX_SUPPORTED_DETERMINISTIC_ATTENTION_BACKEND": "deterministic_radix",
}
"""Name in SGLang's source to the shipped table."""


@dataclass(frozen=True, slots=True)
class Difference:
    """One name that the package and the shipped table do not share."""

    where: str
    """Which list, such as `ATTENTION_BACKEND_CHOICES`."""
    name: str
    kind: str
    """`added` (only in the package), `removed` (only in the table) or `changed`."""
    detail: str = ""


@dataclass(frozen=True, slots=True)
class Conformance:
    """The result of a comparison."""

    package_version: str | None
    tables_version: str
    compared: tuple[str, ...]
    """Lists that were found and compared."""
    missing: tuple[str, ...]
    """Lists that the package does not hold in a form that could be read."""
    differences: tuple[Difference, ...]


def check_conformance(path: str | Path) -> Conformance:
    """Compare the tables with an SGLang wheel or an unpacked one, by its syntax trees.

    The tables of the package's own version are used where there are any, else the newest.

    Raises:
        NotSglang: The path is no SGLang package.
        OSError: The path cannot be read.
    """
    source = open_source(path)
    version = source.version if source.version in supported_versions() else latest_version()
    tables = load_tables(version)
    compared: list[str] = []
    missing: list[str] = []
    differences: list[Difference] = []
    for where, found, shipped in _pairs(source, tables):
        if not found:
            missing.append(where)
            continue
        compared.append(where)
        differences += _compare(where, found, shipped)
    if not compared:
        raise NotSglang(f"{path}: none of the lists that the tables hold was found in it")
    return Conformance(source.version, tables.sglang, tuple(compared), tuple(missing), tuple(differences))


def _pairs(source: SourceTree, tables: Tables) -> Iterator[tuple[str, dict[str, str], dict[str, str]]]:
    for name, attribute in LISTS.items():
        yield name, _names(_list_in(source, name)), _names(getattr(tables, attribute))
    yield "attention registry", _names(_registered(source)), _names(tables.registry)
    yield "deprecated names", _deprecated(source), dict(tables.aliases)
    yield "--kv-cache-dtype", _names(_field_choices(source, "kv_cache_dtype")), _names(tables.kv_cache_dtypes)
    yield "architectures with overrides", _names(_overridden(source)), _names(tables.overridden)


def _compare(where: str, found: dict[str, str], shipped: dict[str, str]) -> Iterator[Difference]:
    for name in sorted(found.keys() - shipped.keys()):
        yield Difference(where, name, "added", found[name])
    for name in sorted(shipped.keys() - found.keys()):
        yield Difference(where, name, "removed", shipped[name])
    for name in sorted(found.keys() & shipped.keys()):
        if found[name] != shipped[name]:
            yield Difference(where, name, "changed", f"{shipped[name]} in the table, {found[name]} in the package")


def _names(names: Iterable[str]) -> dict[str, str]:
    return dict.fromkeys(names, "")


def _list_in(source: SourceTree, name: str) -> list[str]:
    for file in CHOICES:
        for node in ast.walk(source.tree(file) or ast.Module([], [])):
            target = node.targets[0] if isinstance(node, ast.Assign) and len(node.targets) == 1 else None
            if isinstance(target, ast.Name) and target.id == name and isinstance(node, ast.Assign):
                return _strings(node.value)
    return []


def _registered(source: SourceTree) -> list[str]:
    return [name for name, _ in _registrations(source)]


def _registrations(source: SourceTree) -> Iterator[tuple[str, ast.FunctionDef]]:
    for node in ast.walk(source.tree(REGISTRY) or ast.Module([], [])):
        if isinstance(node, ast.FunctionDef):
            for call in node.decorator_list:
                if isinstance(call, ast.Call) and _called(call) == "register_attention_backend":
                    yield from ((name, node) for arg in call.args for name in _strings(arg))


def _deprecated(source: SourceTree) -> dict[str, str]:
    """Find names that are renamed on entry, and names registered only to call another's constructor."""
    aliases: dict[str, str] = {}
    for node in ast.walk(source.tree(DEPRECATIONS) or ast.Module([], [])):
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Dict):
            names = [t.id for t in node.targets if isinstance(t, ast.Name)]
            if names == ["aliases"]:
                for key, value in zip(node.value.keys, node.value.values, strict=True):
                    aliases |= dict(zip(_strings(key), _strings(value), strict=False))
        if isinstance(node, ast.If):
            aliases |= _renamed_by(node)
    constructors = {function.name: name for name, function in _registrations(source)}
    for name, function in _registrations(source):
        last = function.body[-1]
        if isinstance(last, ast.Return) and isinstance(last.value, ast.Call):
            target = constructors.get(_called(last.value))
            if target is not None and target != name:
                aliases[name] = target
    return aliases


def _renamed_by(node: ast.If) -> dict[str, str]:
    """Read `if getattr(...) == "old": ...; renamed[...] = "new"`, the older form of a rename."""
    test = node.test
    if not (isinstance(test, ast.Compare) and isinstance(test.left, ast.Call) and _called(test.left) == "getattr"):
        return {}
    for line in node.body:
        if isinstance(line, ast.Assign) and isinstance(line.targets[0], ast.Subscript):
            old = [name for part in test.comparators for name in _strings(part)]
            return dict(zip(old, _strings(line.value), strict=False))
    return {}


def _field_choices(source: SourceTree, field: str) -> list[str]:
    for tree in source.below(FIELDS):
        for node in ast.walk(tree):
            if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and node.target.id == field:
                for keyword in ast.walk(node):
                    if isinstance(keyword, ast.keyword) and keyword.arg == "choices":
                        return _strings(keyword.value)
    return []


def _overridden(source: SourceTree) -> list[str]:
    names: dict[str, None] = {}
    for folder in OVERRIDES:
        for tree in source.below(folder):
            for node in ast.walk(tree):
                if isinstance(node, ast.FunctionDef):
                    for call in node.decorator_list:
                        if isinstance(call, ast.Call) and _called(call) in ("_register_for", "register_model_override"):
                            names |= dict.fromkeys(name for arg in call.args for name in _strings(arg))
    return list(names)


def _called(call: ast.Call) -> str:
    return call.func.id if isinstance(call.func, ast.Name) else getattr(call.func, "attr", "")


def _strings(node: ast.AST | None) -> list[str]:
    if node is None:
        return []
    return [n.value for n in ast.walk(node) if isinstance(n, ast.Constant) and isinstance(n.value, str)]
