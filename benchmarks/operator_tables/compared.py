"""Which tables run a kernel that a backend launches too, and which rows of them are alike."""

from dataclasses import dataclass

from benchmarks.operator_tables import Row


@dataclass(frozen=True, slots=True)
class Compared:
    """One kernel of one table and the backend whose estimate it tests."""

    device: str
    system: str
    """Folder of the device."""
    table: str
    kernel: str
    backend: str
    page_size: int
    phases: tuple[str, ...] = ("extend", "decode")
    mla: bool = False

    def alike(self, row: Row) -> bool:
        """Whether the row's call is the one that is estimated.

        Extend with an fp8 cache casts queries and new keys inside the timed call. SGLang's Triton extend visited every
        tile of a windowed layer until after 0.5.14.
        """
        if row.phase == "extend" and row.kv_dtype != "bf16":
            return False
        return not (row.phase == "extend" and row.window and self.backend == "triton")


_SGLANG, _VLLM = "sglang/0.5.14", "vllm/0.24.0"

COMPARED = (
    Compared("h100", "h100_sxm", _SGLANG, "fa3", "fa3", 1),
    Compared("h100", "h100_sxm", _VLLM, "vllm_flash_attn_fa3", "fa3", 64),
    Compared("h100", "h100_sxm", _SGLANG, "triton", "triton", 1),
    Compared("h100", "h100_sxm", _SGLANG, "flash_attention", "fa3", 1, ("decode",), mla=True),
    Compared("a100", "a100_sxm", "sglang/0.5.10", "flash_attention", "fa3", 64),
    Compared("l40s", "l40s", _SGLANG, "flashinfer", "flashinfer", 1),
    Compared("l40s", "l40s", _VLLM, "vllm_flashinfer_fidecode", "flashinfer", 64, ("decode",)),
    Compared("l40s", "l40s", _SGLANG, "triton", "triton", 1),
    Compared("l40s", "l40s", _SGLANG, "triton", "triton", 1, ("decode",), mla=True),
    Compared("b200", "b200_sxm", _SGLANG, "trtllm_mha", "trtllm_mha", 64),
    Compared("b200", "b200_sxm", _VLLM, "vllm_flashinfer_trtllmdecode", "trtllm_mha", 64, ("decode",)),
    Compared("b200", "b200_sxm", _VLLM, "vllm_flashinfer_trtllmprefill", "trtllm_mha", 64, ("extend",)),
    Compared("b200", "b200_sxm", _SGLANG, "flashinfer", "flashinfer", 1, ("decode",)),
    Compared("b200", "b200_sxm", _SGLANG, "triton", "triton", 1),
    Compared("b200", "b200_sxm", _SGLANG, "trtllm_mla", "trtllm_mla", 64, ("decode",), mla=True),
    Compared("gb300", "gb300", _SGLANG, "trtllm_mha", "trtllm_mha", 64),
    Compared("gb300", "gb300", _SGLANG, "trtllm_mla", "trtllm_mla", 64, ("decode",), mla=True),
    Compared("gb200", "gb200", _SGLANG, "trtllm_mha", "trtllm_mha", 64),
    Compared("gb200", "gb200", _SGLANG, "trtllm_mla", "trtllm_mla", 64, ("decode",), mla=True),
    Compared("rtx_pro_6000", "rtx_pro_6000_server", _SGLANG, "flashinfer", "flashinfer", 1),
    Compared("rtx_pro_6000", "rtx_pro_6000_server", _SGLANG, "triton", "triton", 1),
)
"""Left out, because no backend launches them: FlashAttention-2 and -4 and the Triton kernels of vLLM, what is
TensorRT-LLM's own, SGLang's FlashInfer extend on a B200 (CUTLASS, without pages). Left out as impossible: SGLang 0.5.12
on an L40S, whose FlashAttention-3 rows without a window are several times as fast as the datasheet allows."""


def compared_of(row: Row) -> Compared:
    """Find what a row was drawn for."""
    key = (row.device, row.table, row.kernel, row.mla)
    return next(c for c in COMPARED if (c.device, c.table, c.kernel, c.mla) == key and row.phase in c.phases)
