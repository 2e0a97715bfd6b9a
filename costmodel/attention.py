"""What one attention layer computes: heads, dims, masks and dtypes, on one rank."""

from dataclasses import dataclass, replace
from typing import Literal

Family = Literal["mha", "gqa", "mqa", "mla", "sparse"]
MlaForm = Literal["absorbed", "expanded"]

DTYPE_BYTES: dict[str, float] = {
    "fp32": 4.0,
    "bf16": 2.0,
    "fp16": 2.0,
    "fp8_e4m3": 1.0,
    "fp8_e5m2": 1.0,
    "nvfp4": 0.5,
}
"""Bytes of one element; block scales of `nvfp4` are left out."""

MAX_HEADS = 4096
MAX_HEAD_DIM = 4096


@dataclass(frozen=True, slots=True)
class Attention:
    """One attention layer on one rank, as the kernel sees it.

    For MLA use `Attention.mla`: `head_dim` and `v_head_dim` are then the kernel's dims, 576 and 512 in the
    absorbed form, 192 and 128 in the expanded one.

    Raises:
        ValueError: A field is out of range; the message names field, value and rule.
    """

    num_qo_heads: int
    """Query/output heads on this rank."""
    num_kv_heads: int
    """KV heads on this rank; 1 for absorbed MLA."""
    head_dim: int
    """Width of one query and key head."""
    v_head_dim: int | None = None
    """Width of one value head; None means `head_dim`."""
    dtype: str = "bf16"
    """Dtype of queries and output."""
    kv_dtype: str = "bf16"
    """Dtype of the stored KV cache."""
    sliding_window: int | None = None
    """Keys a query sees to its left, itself included; None means all."""
    chunk_size: int | None = None
    """Llama 4's chunked attention: a query sees its own chunk of that many positions only."""
    sinks: bool = False
    """A learned per-head logit joins the softmax denominator."""
    logit_soft_cap: float | None = None
    """Logits become cap * tanh(logit / cap)."""
    causal: bool = True
    kv_lora_rank: int | None = None
    """MLA: width of the compressed KV latent."""
    qk_rope_head_dim: int | None = None
    """MLA: width of the rotary part of a key, shared by all heads."""
    qk_nope_head_dim: int | None = None
    """MLA: width of a head's non-rotary query part before absorption."""
    expanded_v_head_dim: int | None = None
    """MLA: width of a head's value after up-projection."""
    form: MlaForm | None = None
    """MLA: whether the call works on the latent or on expanded heads."""
    top_k: int | None = None
    """Sparse attention: KV tokens (or blocks of `block` tokens) that a query attends to."""
    block: int = 1
    """Sparse attention: tokens in one selected block."""
    indexer_heads: int | None = None
    indexer_head_dim: int | None = None

    def __post_init__(self) -> None:
        """Check every field."""
        _in_range("num_qo_heads", self.num_qo_heads, 1, MAX_HEADS)
        _in_range("num_kv_heads", self.num_kv_heads, 1, MAX_HEADS)
        _in_range("head_dim", self.head_dim, 1, MAX_HEAD_DIM)
        if self.num_qo_heads % self.num_kv_heads:
            raise ValueError(f"num_qo_heads={self.num_qo_heads} is not a multiple of num_kv_heads={self.num_kv_heads}")
        for name in ("dtype", "kv_dtype"):
            if getattr(self, name) not in DTYPE_BYTES:
                raise ValueError(f"{name}={getattr(self, name)!r} is not one of {', '.join(DTYPE_BYTES)}")
        for name in ("v_head_dim", "kv_lora_rank", "qk_rope_head_dim", "qk_nope_head_dim", "expanded_v_head_dim"):
            if getattr(self, name) is not None:
                _in_range(name, getattr(self, name), 0 if name.startswith("qk_") else 1, MAX_HEAD_DIM)
        for name in ("sliding_window", "chunk_size", "top_k", "indexer_heads", "indexer_head_dim"):
            if getattr(self, name) is not None:
                _in_range(name, getattr(self, name), 1, 2**31)
        _in_range("block", self.block, 1, 2**20)
        if self.logit_soft_cap is not None and not 0 < self.logit_soft_cap < float("inf"):
            raise ValueError(f"logit_soft_cap={self.logit_soft_cap} must be positive and finite")
        for name in ("sinks", "causal"):
            if not isinstance(getattr(self, name), bool):
                raise ValueError(f"{name}={getattr(self, name)!r} must be True or False")
        if self.form is not None and self.form not in ("absorbed", "expanded"):
            raise ValueError(f"form={self.form!r} is not 'absorbed' or 'expanded'")

    @classmethod
    def mla(
        cls,
        num_qo_heads: int,
        *,
        kv_lora_rank: int = 512,
        qk_rope_head_dim: int = 64,
        qk_nope_head_dim: int = 128,
        v_head_dim: int = 128,
        form: MlaForm = "absorbed",
        **other: object,
    ) -> "Attention":
        """Make a multi-head latent attention layer.

        Args:
            num_qo_heads: Query heads on this rank.
            kv_lora_rank: Width of the latent that the cache stores.
            qk_rope_head_dim: Width of the shared rotary key.
            qk_nope_head_dim: Width of a head's non-rotary query part.
            v_head_dim: Width of a head's value after up-projection.
            form: "absorbed" attends over the latent as one KV head; "expanded" over up-projected heads.
            other: Any further field of `Attention`, such as `kv_dtype`.
        """
        absorbed = form == "absorbed"
        return cls(
            num_qo_heads=num_qo_heads,
            num_kv_heads=1 if absorbed else num_qo_heads,
            head_dim=kv_lora_rank + qk_rope_head_dim if absorbed else qk_nope_head_dim + qk_rope_head_dim,
            v_head_dim=kv_lora_rank if absorbed else v_head_dim,
            kv_lora_rank=kv_lora_rank,
            qk_rope_head_dim=qk_rope_head_dim,
            qk_nope_head_dim=qk_nope_head_dim,
            expanded_v_head_dim=v_head_dim,
            form=form,
            **other,  # type: ignore[arg-type]
        )

    @classmethod
    def sparse(
        cls,
        base: "Attention",
        *,
        top_k: int,
        block: int = 1,
        indexer_heads: int = 64,
        indexer_head_dim: int = 128,
    ) -> "Attention":
        """Make a layer that attends to `top_k` blocks of `block` tokens chosen by an indexer."""
        return replace(base, top_k=top_k, block=block, indexer_heads=indexer_heads, indexer_head_dim=indexer_head_dim)

    @property
    def family(self) -> Family:
        """Kind of attention: `sparse`, `mla`, `mqa`, `gqa` or `mha`."""
        if self.top_k is not None:
            return "sparse"
        if self.kv_lora_rank is not None:
            return "mla"
        if self.num_qo_heads == self.num_kv_heads:
            return "mha"
        return "mqa" if self.num_kv_heads == 1 else "gqa"

    @property
    def is_latent(self) -> bool:
        """Whether keys and values are the same stored latent (absorbed MLA)."""
        return self.form == "absorbed"

    @property
    def value_dim(self) -> int:
        """Width of one value head as the kernel reads it."""
        return self.head_dim if self.v_head_dim is None else self.v_head_dim

    @property
    def group_size(self) -> int:
        """Query heads per KV head."""
        return self.num_qo_heads // self.num_kv_heads

    @property
    def window(self) -> int | None:
        """The sliding window, if any."""
        return self.sliding_window

    @property
    def kv_bytes_per_token(self) -> float:
        """Bytes of cache that one token takes in this layer on this rank."""
        width = self.head_dim if self.is_latent else self.head_dim + self.value_dim
        return self.num_kv_heads * width * DTYPE_BYTES[self.kv_dtype]


def _in_range(name: str, value: object, low: int, high: int) -> None:
    if not isinstance(value, int) or isinstance(value, bool):
        raise ValueError(f"{name}={value!r} must be a whole number")
    if not low <= value <= high:
        raise ValueError(f"{name}={value} must be from {low} to {high}")
