"""Whether an output is right: its largest error against the reference, NaN never passing."""

from typing import TYPE_CHECKING

from executors.outcome import Accuracy

if TYPE_CHECKING:
    from torch import Tensor

    from executors.reference import Reference


def compare(output: "Tensor", reference: "Reference", deterministic: bool | None = None) -> Accuracy:
    """Compare a backend's output with the reference's rows.

    Args:
        output: `[total_q, num_qo_heads, value_dim]`.
        reference: The right output for some rows.
        deterministic: Whether two runs agreed bit for bit.

    Raises:
        ValueError: The output has another shape than `[total_q, num_qo_heads, value_dim]`.
    """
    expected = reference.output.shape[1:]
    if output.ndim != 3 or output.shape[1:] != expected or len(output) <= int(reference.rows.max()):
        raise ValueError(f"output has shape {list(output.shape)}, expected [total_q, {expected[0]}, {expected[1]}]")
    difference = output[reference.rows].to(reference.output.dtype) - reference.output
    errors = difference.abs().amax((1, 2))
    row = int((errors / reference.tolerance).argmax())
    return Accuracy(float(errors[row]), float(reference.tolerance[row]), deterministic, reference.fraction)


def same_bits(left: "Tensor", right: "Tensor") -> bool:
    """Whether two tensors agree bit for bit (a NaN equals itself)."""
    import torch

    bits = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}[left.dtype.itemsize]
    return torch.equal(left.contiguous().view(bits), right.contiguous().view(bits))
