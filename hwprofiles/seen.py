"""What a driver reports about one device, before it is matched with a profile."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Seen:
    """One device as its driver shows it; None where the driver does not say."""

    device: str
    """How PyTorch names it: `cuda:0`, `cpu`."""
    name: str
    vendor: str
    num_sms: int | None = None
    memory_bytes: int | None = None
    arch_target: str | None = None
    compute_capability: str | None = None
    boost_clock_hz: float | None = None
    memory_bytes_per_s: float | None = None
    """Bus width times memory clock."""
    power_limit_w: float | None = None
    driver: str | None = None
    partition: str | None = None
    """Slice or partition mode, such as `MIG 3g.71gb` or `CPX`; None for a whole device."""
