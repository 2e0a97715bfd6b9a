"""Which of PyTorch's kernels an SDPA call really takes: `auto` leaves the choice to PyTorch."""

from collections.abc import Callable
from typing import Any

_PREFIX, _SUFFIX = "_scaled_dot_product_", "_attention"


def kernels_taken(run: Callable[[int], object]) -> str:
    """Run once on KV copy 0 and name the kernels: `flash`, `efficient`, `cudnn`, `fused`, or `math` where none is."""
    from torch.utils._python_dispatch import TorchDispatchMode

    seen: set[str] = set()

    class Watch(TorchDispatchMode):  # type: ignore[no-untyped-call]
        def __torch_dispatch__(
            self, operator: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
        ) -> Any:
            name = str(operator.overloadpacket.__name__)
            if name.startswith(_PREFIX):
                seen.add(name.removeprefix(_PREFIX).partition(_SUFFIX)[0])
            return operator(*args, **(kwargs or {}))

    with Watch():  # type: ignore[no-untyped-call]
        run(0)
    return "+".join(sorted(seen)) or "math"
