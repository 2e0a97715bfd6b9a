"""Compare recorded steps of many attention layers with the sum of their recorded, and predicted, calls.

    python benchmarks/steps.py

A recorded step is one plan, then KV write and call of every layer; medians of |sum / step - 1| by backend and phase.
"""

import statistics
from collections import defaultdict

from costmodel import Incompatible, predict
from executors.recordings import read_records
from hwprofiles import UnknownProfile, load_profile


def main() -> None:
    rows: defaultdict[tuple[str, str], list[tuple[float, float]]] = defaultdict(list)
    for record in read_records().records:
        if record.outcome != "measured" or not record.step_us or not record.latency_us or record.write_us is None:
            continue
        attention, batch = record.to_attention(), record.to_batch()
        knobs = {name: value for name, value in record.knobs.items() if name != "build"}
        try:
            profile = load_profile(record.device.name)
            predicted = predict(attention, batch, backend=record.backend, profile=profile, knobs=knobs).seconds * 1e6
        except (Incompatible, UnknownProfile):
            continue
        plan, layers = record.plan_us or 0.0, batch.layers
        sums = (plan + layers * (call + record.write_us) for call in (record.latency_us, predicted))
        first, second = (abs(total / record.step_us - 1) for total in sums)
        rows[(record.backend, batch.phase)].append((first, second))
    print(f"{'backend':<18}{'phase':<8}{'steps':>6}{'recorded calls':>16}{'predicted calls':>17}")
    for (backend, phase), errors in sorted(rows.items()):
        recorded, predicted = (100 * statistics.median(column) for column in zip(*errors, strict=True))
        print(f"{backend:<18}{phase:<8}{len(errors):>6}{recorded:>14.1f} %{predicted:>15.1f} %")


if __name__ == "__main__":
    main()
