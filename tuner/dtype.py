"""Which dtype a CPU runs attention in: chosen by measuring, since cores without bf16 units convert every element."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from costmodel import Attention, Batch
from executors.measurer import Measurer
from executors.outcome import Measured
from hwprofiles import Profile
from tuner.noise import timing

CPU_DTYPES = ("bf16", "fp32")


@dataclass(frozen=True, slots=True)
class DtypeChoice:
    """The dtype for a device and the times that chose it."""

    dtype: str
    seconds: dict[str, float]
    """Dtype to the latency of the first backend's default call."""

    def __str__(self) -> str:
        if not self.seconds:
            return f"dtype {self.dtype}: no decode call could be measured to choose by"
        times = ", ".join(f"{dtype} {1e3 * s:.2f} ms" for dtype, s in self.seconds.items())
        return f"dtype {self.dtype}, chosen by measuring one decode call ({times})"


def choose_dtype(
    measurer: Measurer,
    attention: Attention,
    batch: Batch,
    profile: Profile,
    *,
    dtypes: Sequence[str] = CPU_DTYPES,
    seed: int = 0,
) -> DtypeChoice:
    """Measure one decode call in each dtype and take the fastest; the first where none runs."""
    seconds = {}
    for dtype in dtypes:
        shape = replace(attention, dtype=dtype, kv_dtype=dtype)
        candidates = measurer.candidates(shape, batch, profile)[:1]
        outcomes = measurer.measure(shape, batch, candidates, seed=seed, repeats=5) if candidates else {}
        for outcome in outcomes.values():
            if isinstance(outcome, Measured):
                seconds[dtype] = timing(outcome.seconds).seconds
    return DtypeChoice(min(seconds, key=seconds.__getitem__, default=dtypes[0]), seconds)
