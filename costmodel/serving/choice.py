"""A pair of backends under a load, and the limits that it must keep."""

from dataclasses import dataclass

from costmodel.serving.choices import Pair
from costmodel.serving.service import Rates, Service


@dataclass(frozen=True, slots=True)
class Slo:
    """What a request must see; None is no limit.

    Raises:
        ValueError: A limit is not positive.
    """

    ttft_seconds: float | None = None
    tpot_seconds: float | None = None

    def __post_init__(self) -> None:
        """Check both limits."""
        for name in ("ttft_seconds", "tpot_seconds"):
            value = getattr(self, name)
            if value is not None and not 0 < value < float("inf"):
                raise ValueError(f"SLO {name}={value} must be positive and finite")

    @property
    def given(self) -> bool:
        """Whether there is a limit at all."""
        return self.ttft_seconds is not None or self.tpot_seconds is not None

    def missed(self, rates: Rates) -> tuple[str, ...]:
        """Say which limits are missed, and by how much."""
        found = []
        for name, limit, value in (
            ("TTFT", self.ttft_seconds, rates.ttft_seconds),
            ("TPOT", self.tpot_seconds, rates.tpot_seconds),
        ):
            if limit is not None and value > limit:
                found.append(f"{name} of {value * 1e3:.1f} ms is above the SLO of {limit * 1e3:g} ms")
        return tuple(found)


@dataclass(frozen=True, slots=True)
class Choice:
    """One pair and what it gives."""

    pair: Pair
    service: Service
    missed: tuple[str, ...]
    """Limits of the SLO that it misses."""
    kv_dtype: str
    """Dtype that KV is stored in."""

    @property
    def measured(self) -> bool:
        """Whether somebody measured the attention of both phases, here or on another device."""
        return self.service.evidence != "structure"

    @property
    def name(self) -> str:
        """Both backends, one name where they are the same."""
        return self.pair.name
