"""Compare recorded steps with predicted ones: whole models, and stacks of attention layers alone.

    python benchmarks/steps.py [--write]

Whole steps hold attention, KV write, products, the kernels between them, head and greedy choice; the step model is
summed over the same parts. `--write` puts their table into docs/serving.md. A recorded stack is one plan, then KV
write and call of every layer; medians of |sum / step - 1| by backend and phase.
"""

import argparse
import statistics
import sys
from collections import defaultdict
from pathlib import Path

from costmodel import Incompatible, predict
from executors.recordings import read_records
from executors.steps.accuracy import compare, table
from executors.steps.records import read_steps
from hwprofiles import UnknownProfile, load_profile

ROOT = Path(__file__).parents[1]
DOCUMENT = ROOT / "docs" / "serving.md"
BEGIN, END = "<!-- whole steps: begin -->\n", "<!-- whole steps: end -->\n"


def main() -> None:
    """Print both comparisons, or write the first into the documentation."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", action="store_true", help="write the table of whole steps into docs/serving.md")
    if parser.parse_args().write:
        DOCUMENT.write_text(with_table(DOCUMENT.read_text(encoding="utf-8")), encoding="utf-8")
    else:
        sys.stdout.write(f"{whole_steps()}\n{stacks()}")


def whole_steps() -> str:
    """Tabulate the packaged whole steps."""
    return table(compare(read_steps(), ROOT / "examples" / "models"))


def with_table(text: str) -> str:
    """Give the document with the table of whole steps between its marks."""
    head, _, rest = text.partition(BEGIN)
    return f"{head}{BEGIN}{whole_steps()}{END}{rest.partition(END)[2]}"


def stacks() -> str:
    """Tabulate the packaged stacks of attention layers."""
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
    lines = [f"{'backend':<18}{'phase':<8}{'steps':>6}{'recorded calls':>16}{'predicted calls':>17}"]
    for (backend, phase), errors in sorted(rows.items()):
        recorded, predicted = (100 * statistics.median(column) for column in zip(*errors, strict=True))
        lines.append(f"{backend:<18}{phase:<8}{len(errors):>6}{recorded:>14.1f} %{predicted:>15.1f} %")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    main()
