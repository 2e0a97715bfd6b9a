"""SGLang's Triton kernel files: from an installed SGLang, or from its wheel's kernel folder alone."""

import sys
from functools import cache
from importlib import import_module
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

from executors.environment import installed_version

_OPS = "sglang.kernels.ops.attention"
_FILES = ("decode_attention", "extend_attention", "metadata", "kv_indices")


def version() -> str | None:
    """SGLang's version where its kernel files are present; nothing is imported."""
    root = _root()
    if root is None or not all((root / "kernels/ops/attention" / f"{name}.py").is_file() for name in _FILES):
        return None
    return installed_version("sglang")


@cache
def load() -> SimpleNamespace:
    """Import the kernel modules; without the rest of SGLang, what they ask of it is supplied here.

    Raises:
        ModuleNotFoundError: The kernel files are not there.
    """
    root = _root()
    if root is None:
        raise ModuleNotFoundError("SGLang's kernels are not installed: pip install --no-deps sglang")
    if not (root / "srt" / "utils").is_dir():
        _stand_in(root)
    return SimpleNamespace(**{name: import_module(f"{_OPS}.{name}") for name in _FILES})


def _root() -> Path | None:
    spec = find_spec("sglang")
    locations = list(spec.submodule_search_locations or ()) if spec else []
    return Path(locations[0]) if locations else None


def _stand_in(root: Path) -> None:
    """Register plain packages for the folders and the few functions and switches that the kernel files import."""
    folders = {"sglang": root, "sglang.kernels": root / "kernels", "sglang.kernels.ops": root / "kernels/ops"}
    for name, folder in {**folders, _OPS: root / "kernels/ops/attention", "sglang.srt": root / "srt"}.items():
        package: Any = ModuleType(name)
        package.__path__ = [str(folder)]
        package.__spec__ = ModuleSpec(name, None, is_package=True)
        package.__spec__.submodule_search_locations = [str(folder)]
        sys.modules[name] = package
    utils: Any = ModuleType("sglang.srt.utils")
    utils.is_cuda = _is_cuda
    utils.is_hip = utils.is_gfx95_supported = utils.is_gfx1250_supported = lambda: False
    utils.get_device_core_count = _core_count
    sys.modules["sglang.srt.utils"] = utils
    environ: Any = ModuleType("sglang.srt.environ")
    environ.envs = _Switches()
    sys.modules["sglang.srt.environ"] = environ


class _Switches:
    """Every SGLang environment switch off, as in a server started without any."""

    def __getattr__(self, name: str) -> SimpleNamespace:
        return SimpleNamespace(get=lambda: False)


def _is_cuda() -> bool:
    import torch

    return torch.cuda.is_available()


def _core_count(device: int = 0) -> int:
    import torch

    return int(torch.cuda.get_device_properties(device).multi_processor_count)
