"""One server: model, device, parallelism, the two attention backends, page size and KV dtype."""

from dataclasses import dataclass

from costmodel.layer_group import LayerGroup, Model
from costmodel.models import group_per_rank
from hwprofiles import Profile

PREFILL_KERNELS = {"flashmla": "flashinfer"}
"""What SGLang prefills with under a backend's name, where it is not the backend's own kernel."""


@dataclass(frozen=True, slots=True)
class Parallel:
    """How a server is spread over devices."""

    tp: int = 1
    """Tensor-parallel size."""
    ep: int = 1
    """Expert-parallel size inside `tp`."""


ONE_DEVICE = Parallel()


@dataclass(frozen=True, slots=True)
class Deployment:
    """What runs where.

    Raises:
        ValueError: The page size is below 1.
    """

    model: Model
    profile: Profile
    prefill: str
    """Backend of prefill and chunked prefill, as SGLang names it."""
    decode: str
    parallel: Parallel = ONE_DEVICE
    page_size: int = 1
    kv_dtype: str = "auto"

    def __post_init__(self) -> None:
        """Check the page size."""
        if self.page_size < 1:
            raise ValueError(f"page_size={self.page_size} must be at least 1")

    @property
    def groups(self) -> tuple[LayerGroup, ...]:
        """Layer groups as one rank holds them."""
        return tuple(group_per_rank(group, self.parallel.tp, self.kv_dtype) for group in self.model.layer_groups)

    @property
    def stored_kv_dtype(self) -> str:
        """The KV dtype that `auto` stands for."""
        return self.model.kv_dtype if self.kv_dtype == "auto" else self.kv_dtype
