"""What is fitted for each kernel variant: the parameters that its calls can tell apart."""

_SHARED = ("floor_seconds", "join", "dram_fraction", "far_fraction")
_DECODE = (
    *_SHARED,
    "page_seconds",
    "page_bytes",
    "tile_seconds",
    "cta_bytes_per_s",
    "sm_bytes_per_s",
    "job_tiles",
    "merge_seconds",
    "merge_split_seconds",
    "merge_bytes_per_s",
    "request_seconds",
)
_EXTEND = (
    *_SHARED,
    "tile_seconds",
    "cta_bytes_per_s",
    "matrix_fraction",
    "exp_fraction",
    "overlap",
    "job_tiles",
    "row_tiles",
    "request_seconds",
)
_EMPTY = "empty_cta_seconds"
_FLASHINFER_DECODE = (*_DECODE, "matrix_fraction", _EMPTY, "merge_row_seconds", "merge_slot_seconds")
_OWN = (*_DECODE, "matrix_fraction", "row_tiles")

FITTED: dict[tuple[str, str], tuple[str, ...]] = {
    ("fa3", "decode"): (*_DECODE, "matrix_fraction", "merge_slot_seconds", "extra_fraction"),
    ("fa3", "extend"): (
        *_EXTEND,
        "page_seconds",
        "extra_fraction",
        _EMPTY,
        "merge_seconds",
        "merge_split_seconds",
        "merge_slot_seconds",
        "merge_bytes_per_s",
    ),
    ("fa3", "decode_mma_sync"): (*_EXTEND, "sm_bytes_per_s", "page_seconds", "merge_seconds", "merge_split_seconds"),
    ("fa3", "extend_mma_sync"): (*_EXTEND, "sm_bytes_per_s", "page_seconds", "merge_seconds", "merge_split_seconds"),
    ("fa3", "mla"): (*_DECODE, "row_tiles", "matrix_fraction", "extra_fraction"),
    ("flashinfer", "decode_tensor_cores"): (*_FLASHINFER_DECODE, "row_tiles"),
    ("flashinfer", "decode_converting"): (*_FLASHINFER_DECODE, "row_tiles"),
    ("flashinfer", "decode_cuda_cores"): _FLASHINFER_DECODE,
    ("flashinfer", "decode_cuda_cores_few_heads"): tuple(n for n in _FLASHINFER_DECODE if n != "floor_seconds"),
    ("flashinfer", "extend_fa2"): (
        *_EXTEND,
        "sm_bytes_per_s",
        "page_seconds",
        "page_bytes",
        "merge_seconds",
        "merge_split_seconds",
        "merge_bytes_per_s",
        "merge_row_seconds",
    ),
    ("flashinfer", "extend_fa3"): (*_EXTEND, "sm_bytes_per_s"),
    ("flashinfer", "mla_fa2"): (*_DECODE, "matrix_fraction", "merge_row_seconds", "row_tiles"),
    ("flashinfer", "mla_fa3"): (*_DECODE, "matrix_fraction", "merge_row_seconds", "row_tiles"),
    ("triton", "decode"): (*_DECODE, "matrix_fraction", "merge_slot_seconds", _EMPTY, "merge_row_seconds"),
    ("triton", "decode_grouped"): (*_DECODE, "matrix_fraction", "merge_slot_seconds", _EMPTY, "merge_row_seconds"),
    ("triton", "extend"): (*_EXTEND, "sm_bytes_per_s", _EMPTY),
    ("triton", "mla"): (*_DECODE, "matrix_fraction", "merge_slot_seconds", _EMPTY, "merge_row_seconds"),
    ("flashmla", "mla"): (*_DECODE, "matrix_fraction", "row_tiles"),
    ("flashmla", "mla_fp8"): (*_DECODE, "matrix_fraction", "row_tiles"),
    ("attnroof_triton", "decode"): _OWN,
    ("attnroof_triton", "extend"): (*_OWN, "exp_fraction", "overlap"),
    ("attnroof_triton", "mla"): _OWN,
    ("attnroof_triton", "mla_plain"): _OWN,
}
"""Backend and variant to fitted parameters; others keep their prior.

Few records of decode with few heads are short: its floor is the round value of the library's other kernels.
"""

DEFAULT = (*_DECODE, "matrix_fraction")


def fitted_names(backend: str, variant: str) -> tuple[str, ...]:
    """Parameters to fit for a variant."""
    return FITTED.get((backend, variant), DEFAULT)
