"""Reading an SGLang package by its syntax trees."""

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from costmodel.sglang.conformance import check_conformance
from costmodel.sglang.source_tree import NotSglang, open_source
from costmodel.sglang.tables import latest_version, load_tables

TABLES = load_tables()

CHOICES = """
ATTENTION_BACKEND_CHOICES = {choices!r}
DRAFT_ATTENTION_BACKEND_CHOICES = {draft_choices!r}
DETERMINISTIC_ATTENTION_BACKEND_CHOICES = {deterministic!r}
RADIX_SUPPORTED_DETERMINISTIC_ATTENTION_BACKEND = {deterministic_radix!r}
raise RuntimeError("this file must not be run")
"""
REGISTRY = """
@register_attention_backend("{name}")
def create_{name}(runner):
    return Backend(runner)
"""


def write_package(root: Path, choices: list[str] | None = None) -> Path:
    """Write a package that holds the lists of the shipped tables, or other backend names."""
    names = list(TABLES.choices) if choices is None else choices
    files = {
        "arg_groups/choices.py": CHOICES.format(
            choices=names,
            draft_choices=list(TABLES.draft_choices),
            deterministic=list(TABLES.deterministic),
            deterministic_radix=list(TABLES.deterministic_radix),
        ),
        "layers/attention/attention_registry.py": "".join(
            REGISTRY.format(name=name) for name in TABLES.registry if name != "nsa"
        )
        + '@register_attention_backend("nsa")\ndef old(runner):\n    return create_dsa(runner)\n',
        "arg_groups/serving_hook.py": "def f():\n    aliases = "
        + repr({k: v for k, v in TABLES.aliases.items() if k != "nsa"}),
        "arg_groups/fields/model.py": f"kv_cache_dtype: A[str, Arg(choices={list(TABLES.kv_cache_dtypes)!r})] = 'auto'",
        "arg_groups/model_overrides/all.py": f"@_register_for(*(), {', '.join(map(repr, TABLES.overridden))})\n"
        "def f(): pass\n",
    }
    for name, text in files.items():
        path = root / "sglang" / "srt" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    (root / f"sglang-{latest_version()}.dist-info").mkdir()
    return root


def test_the_tables_conform_to_themselves(tmp_path):
    result = check_conformance(write_package(tmp_path))
    assert result.differences == ()
    assert result.missing == ()
    assert result.package_version == latest_version()


def test_every_difference_is_named(tmp_path):
    names = ["new_backend" if name == "fa3" else name for name in TABLES.choices]
    package = write_package(tmp_path, choices=names)
    hook = package / "sglang/srt/arg_groups/serving_hook.py"
    hook.write_text("def f():\n    aliases = {'compressed': 'dsa', 'tokenspeed_mla': 'cutedsl_mla'}", encoding="utf-8")
    found = {(d.where, d.name, d.kind) for d in check_conformance(package).differences}
    assert found == {
        ("ATTENTION_BACKEND_CHOICES", "new_backend", "added"),
        ("ATTENTION_BACKEND_CHOICES", "fa3", "removed"),
        ("deprecated names", "compressed", "changed"),
    }


def test_the_older_form_of_a_rename_is_read(tmp_path):
    package = write_package(tmp_path)
    hook = package / "sglang/srt/arg_groups/serving_hook.py"
    hook.write_text(
        "for attr in flags:\n    if getattr(args, attr) == 'compressed':\n        renamed[attr] = 'dsv4'\n",
        encoding="utf-8",
    )
    found = [(d.name, d.kind) for d in check_conformance(package).differences]
    assert found == [("tokenspeed_mla", "removed")]


def test_a_list_that_is_gone_is_said(tmp_path):
    package = write_package(tmp_path)
    (package / "sglang/srt/arg_groups/fields/model.py").unlink()
    assert check_conformance(package).missing == ("--kv-cache-dtype",)


def test_a_wheel_is_read_without_unpacking(tmp_path):
    package = write_package(tmp_path / "src")
    wheel = tmp_path / f"sglang-{latest_version()}-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        for file in package.rglob("*.py"):
            archive.write(file, file.relative_to(package).as_posix())
    assert check_conformance(wheel).differences == ()
    assert open_source(wheel).version == latest_version()


def test_what_is_no_package_says_so(tmp_path):
    with pytest.raises(NotSglang, match="sglang/srt"):
        check_conformance(tmp_path)
    (tmp_path / "file.whl").write_bytes(b"not a zip")
    with pytest.raises(NotSglang, match="neither a wheel nor a folder"):
        check_conformance(tmp_path / "file.whl")
    with zipfile.ZipFile(tmp_path / "other.whl", "w") as archive:
        archive.writestr("other/__init__.py", "")
    with pytest.raises(NotSglang, match="without sglang/srt"):
        check_conformance(tmp_path / "other.whl")


def fetched_wheel() -> Path:
    """Fetch the wheel that the tables describe, once, into a cache outside the repository."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "attnroof" / "wheels"
    cache.mkdir(parents=True, exist_ok=True)
    pattern = f"sglang-{latest_version()}-*.whl"
    if not list(cache.glob(pattern)):
        command = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "--only-binary", ":all:"]
        command += ["-d", str(cache), f"sglang=={latest_version()}"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=240, check=False)
        if done.returncode or not list(cache.glob(pattern)):
            reason = f"the sglang {latest_version()} wheel cannot be fetched: {done.stderr.strip()[-300:]}"
            if os.environ.get("CI") == "true":
                pytest.fail(reason)
            pytest.skip(reason)
    return next(cache.glob(pattern))


@pytest.mark.slow
def test_the_tables_conform_to_the_published_wheel():
    result = check_conformance(fetched_wheel())
    assert result.differences == ()
    assert result.missing == ()


@pytest.mark.parametrize(
    ("source", "says"),
    [
        (b"x = " + b"(" * 5000 + b")" * 5000, "cannot be parsed"),
        (b"\xff\xfe", "cannot be parsed"),
        (b"#" * (5 << 20), "too large"),
    ],
)
def test_a_source_that_is_no_python_is_named(tmp_path, source, says):
    wheel = tmp_path / "sglang-0.5.23-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("sglang/srt/arg_groups/choices.py", source)
    with pytest.raises(NotSglang, match=rf"choices\.py in .*\.whl .*{says}"):
        check_conformance(wheel)
