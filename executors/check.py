"""Correct first: run a call twice, the second time over poisoned output memory, and compare with the reference."""

from typing import TYPE_CHECKING

from executors.base import Prepared
from executors.compare import compare, same_bits
from executors.outcome import Accuracy, Failed
from executors.sampler import cpu_threads

if TYPE_CHECKING:
    from executors.reference import Reference


def check(prepared: Prepared, reference: "Reference") -> Accuracy:
    """Run on KV copy 0 and compare.

    The first output is overwritten with NaN and given back before the second run, which then writes to the same
    memory where the backend owns its output buffer, and most likely where it allocates one: rows that a backend does
    not write show up as NaN.
    """
    with cpu_threads(prepared.threads):
        first = prepared.run(0)
        kept = first.clone()
        first.fill_(float("nan"))
        del first
        second = prepared.run(0)
    return compare(second, reference, same_bits(kept, second))


def incorrect(accuracy: Accuracy, where: str = "") -> Failed:
    """Say how far off an output is."""
    largest = "NaN" if accuracy.max_error != accuracy.max_error else f"{accuracy.max_error:.3g}"
    message = f"{where}largest error {largest} against the float64 reference, tolerance {accuracy.tolerance:.3g}"
    return Failed("incorrect", message, accuracy)
