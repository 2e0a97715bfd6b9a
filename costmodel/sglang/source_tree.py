"""Python sources of an SGLang package, from a folder or a wheel, as syntax trees; nothing is imported."""

import ast
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

MAX_SOURCE_BYTES = 4 << 20


class NotSglang(ValueError):
    """The path is not an SGLang wheel or an unpacked one."""


@dataclass(slots=True)
class SourceTree:
    """The package's files below `sglang/`, read on demand."""

    path: Path
    root: Path | None
    """Folder that holds `sglang/`; None for a wheel."""
    names: tuple[str, ...]
    """Files with posix names that start with `sglang/`."""
    version: str | None
    _trees: dict[str, ast.Module] = field(default_factory=dict)

    def tree(self, name: str) -> ast.Module | None:
        """Parse one file; None where the package has none of that name.

        Raises:
            NotSglang: The file is too large or no Python.
        """
        if name not in self.names:
            return None
        if name not in self._trees:
            try:
                self._trees[name] = ast.parse(self._read(name), filename=name)
            except NotSglang:
                raise
            except (SyntaxError, ValueError, RecursionError, MemoryError, zipfile.BadZipFile) as error:
                raise NotSglang(f"{name} in {self.path} cannot be parsed: {error}") from None
        return self._trees[name]

    def below(self, folder: str) -> Iterator[ast.Module]:
        """Parse every Python file in a folder."""
        for name in self.names:
            if name.startswith(folder) and name.endswith(".py"):
                tree = self.tree(name)
                if tree is not None:
                    yield tree

    def _read(self, name: str) -> str:
        if self.root is not None:
            data = (self.root / name).read_bytes()
        else:
            with zipfile.ZipFile(self.path) as wheel:
                if wheel.getinfo(name).file_size > MAX_SOURCE_BYTES:
                    raise NotSglang(f"{name} in {self.path} is too large; a source file has fewer bytes")
                data = wheel.read(name)
        if len(data) > MAX_SOURCE_BYTES:
            raise NotSglang(f"{name} in {self.path} has {len(data)} bytes; a source file has fewer")
        return data.decode("utf-8")


def open_source(path: str | Path) -> SourceTree:
    """Open an SGLang wheel or a folder that holds one unpacked.

    Raises:
        NotSglang: There is no `sglang/srt` in it.
        OSError: The path cannot be read.
    """
    path = Path(path)
    if path.is_dir():
        root = next((r for r in (path, path / "python", path.parent) if (r / "sglang" / "srt").is_dir()), None)
        if root is None:
            raise NotSglang(f"{path} holds no sglang/srt: give the folder into which the wheel was unpacked")
        files = (p.relative_to(root).as_posix() for p in (root / "sglang" / "srt").rglob("*.py"))
        info = next(iter(sorted(root.glob("sglang-*.dist-info"))), None)
        return SourceTree(path, root, tuple(sorted(files)), _version(info.name if info else ""))
    if not path.is_file() or not zipfile.is_zipfile(path):
        raise NotSglang(f"{path} is neither a wheel nor a folder")
    try:
        with zipfile.ZipFile(path) as wheel:
            names = tuple(sorted(wheel.namelist()))
    except zipfile.BadZipFile as error:
        raise NotSglang(f"{path} is a damaged zip file: {error}") from None
    sources = tuple(n for n in names if n.startswith("sglang/srt/") and n.endswith(".py"))
    if not sources:
        raise NotSglang(f"{path} is a zip file without sglang/srt: give an sglang wheel")
    return SourceTree(path, None, sources, _version(next((n for n in names if ".dist-info/" in n), path.name)))


def _version(name: str) -> str | None:
    stem = name.split("/")[0].removesuffix(".dist-info").removesuffix(".whl")
    parts = stem.split("-")
    return parts[1] if parts[0] == "sglang" and len(parts) > 1 else None
