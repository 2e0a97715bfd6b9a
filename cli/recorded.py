"""What the packaged records say beside latencies: power, compile time and numerical error per backend."""

import statistics
from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from costmodel import Phase
    from hwprofiles import Profile


@dataclass(frozen=True, slots=True)
class Recorded:
    """Facts of one device's records."""

    seconds: "Mapping[str, float]"
    """Latency of calls with default knobs, by `costmodel.serving.measured_key`."""
    power_w: "Mapping[tuple[str, Phase], float]"
    """Median power while a backend ran a phase."""
    compile_s: "Mapping[str, float]"
    """Longest compile time of a backend."""
    relative_error: "Mapping[str, float]"
    """Largest error over its tolerance, by backend."""


def read_recorded(profile: "Profile") -> Recorded:
    """Read the packaged records of a device."""
    from costmodel.knobs import KNOBS
    from costmodel.serving import measured_key
    from executors.recordings import read_records

    seconds: dict[str, float] = {}
    power: defaultdict[tuple[str, Phase], list[float]] = defaultdict(list)
    compile_s: defaultdict[str, float] = defaultdict(float)
    error: defaultdict[str, float] = defaultdict(float)
    for record in read_records(profile=profile).records:
        if record.outcome != "measured" or not record.latency_us:
            continue
        batch = record.to_batch()
        if record.power_w:
            power[(record.backend, batch.phase)].append(record.power_w)
        compile_s[record.backend] = max(compile_s[record.backend], record.compile_s or 0.0)
        if record.max_error is not None and record.tolerance:
            error[record.backend] = max(error[record.backend], record.max_error / record.tolerance)
        defaults = {spec.name: spec.default for spec in KNOBS.get(record.backend, ())}
        if record.l2 == "cold" and all(defaults.get(k, v) == v for k, v in record.knobs.items()):
            seconds[measured_key(record.backend, record.to_attention(), batch)] = record.latency_us * 1e-6
    medians = {key: statistics.median(values) for key, values in power.items()}
    return Recorded(seconds, medians, dict(compile_s), dict(error))
