"""Facts about a model, a device and serving options, as rules name them."""

from dataclasses import dataclass, replace

from costmodel.attention import DTYPE_BYTES, Attention
from costmodel.compat.device import Device
from costmodel.compat.rules import Fact
from costmodel.compat.versions import CURRENT
from costmodel.compat.workspace import flashinfer_workspace
from costmodel.layer_group import LayerGroup, Model
from costmodel.models.parallel import per_rank

DEEPSEEK_FAMILY = frozenset(
    {
        "DeepseekV2ForCausalLM", "DeepseekV3ForCausalLM", "DeepseekV32ForCausalLM", "MistralLarge3ForCausalLM",
        "PixtralForConditionalGeneration", "GlmMoeDsaForCausalLM", "Glm4MoeLiteForCausalLM",
        "Glm5NextForConditionalGeneration",
    }
)  # fmt: skip
"""Absorbed-MLA architectures in SGLang's deterministic mode (srt/arg_groups/attention_hook.py, 0.5.23)."""

DEFAULT_CUDA = 13.0


@dataclass(frozen=True, slots=True)
class Options:
    """Serving options that decide what runs.

    Raises:
        ValueError: A value is out of range; the message names field, value and rule.
    """

    tp: int = 1
    """Tensor-parallel size."""
    page_size: int | None = None
    """Tokens in one KV page; None leaves it to SGLang."""
    kv_cache_dtype: str = "auto"
    """auto, or a dtype of `Attention`."""
    spec_topk: int | None = None
    """Branches of the speculative draft tree; None without speculation."""
    deterministic: bool = False
    cuda_graph: bool = True
    max_requests: int | None = None
    """Largest decode batch, where the size of workspaces is to be judged."""
    cuda: float = DEFAULT_CUDA
    """CUDA toolkit version, such as 12.8."""
    sglang: str = CURRENT
    packages: dict[str, str] | None = None
    """Installed packages by name; None assumes what SGLang pins."""

    def __post_init__(self) -> None:
        """Check every field."""
        if self.tp < 1:
            raise ValueError(f"tp={self.tp} must be at least 1")
        if self.page_size is not None and self.page_size < 1:
            raise ValueError(f"page_size={self.page_size} must be at least 1")
        for name in ("spec_topk", "max_requests"):
            if getattr(self, name) is not None and getattr(self, name) < 1:
                raise ValueError(f"{name}={getattr(self, name)} must be at least 1")
        if self.kv_cache_dtype != "auto" and self.kv_cache_dtype not in DTYPE_BYTES:
            raise ValueError(f"kv_cache_dtype={self.kv_cache_dtype!r} is not one of auto, {', '.join(DTYPE_BYTES)}")


def server_facts(model: Model, device: Device, options: Options) -> dict[str, Fact]:
    """Give the facts that all layer groups and phases of one server share."""
    windowed = any(g.attention.sliding_window is not None or g.attention.chunk_size for g in model.layer_groups)
    return {
        "platform": device.platform,
        "arch": device.arch,
        "device": device.name,
        "cuda": options.cuda if device.platform == "cuda" else None,
        "page": options.page_size,
        "page_given": options.page_size is not None,
        "deterministic": options.deterministic,
        "graphs": options.cuda_graph,
        "hybrid": model.hybrid_linear,
        "gdn": model.hybrid_linear and "linear_num_value_heads" in (model.text or model.raw),
        "deepseek": model.architecture in DEEPSEEK_FAMILY,
        "glm": model.architecture.startswith("Glm"),
        "architecture": model.architecture,
        "model_type": model.model_type,
        "dual_chunk": model.dual_chunk,
        "context": model.context_length,
        "weights": _weights(model),
        "cross_model": any(g.cross_attention for g in model.layer_groups),
        "windowed_model": windowed,
    }


def group_facts(model: Model, group: LayerGroup, options: Options, num_sms: int | None = None) -> dict[str, Fact]:
    """Give the facts of one layer group on one rank.

    Args:
        model: The model.
        group: The layer group.
        options: Serving options.
        num_sms: Streaming multiprocessors of the device, for the size of workspaces.

    Raises:
        ValueError: Heads do not divide by the TP size.
    """
    attention = per_rank(group.attention, options.tp)
    if options.kv_cache_dtype != "auto":
        attention = replace(attention, kv_dtype=options.kv_cache_dtype)
    facts = attention_facts(attention)
    if options.max_requests is not None and num_sms is not None:
        facts["workspace_mib"] = flashinfer_workspace(attention, options.max_requests, num_sms) / 2**20
    return {**facts, "sparse": sparse_kind(model, group), "cross": group.cross_attention}


def attention_facts(attention: Attention) -> dict[str, Fact]:
    """Give the facts of one attention layer on one rank."""
    qk, v = attention.head_dim, attention.value_dim
    latent = attention.is_latent
    return {
        "kind": _kind(attention),
        "latent": latent,
        "dims": f"{qk}/{v}",
        "qk_dim": qk,
        "v_dim": v,
        "equal_dims": qk == v,
        "qo_heads": attention.num_qo_heads,
        "kv_heads": attention.num_kv_heads,
        "group": attention.group_size,
        "kv": attention.kv_dtype,
        "dtype": attention.dtype,
        "window": attention.sliding_window is not None,
        "chunk": attention.chunk_size is not None,
        "sinks": attention.sinks,
        "soft_cap": attention.logit_soft_cap is not None,
        "causal": attention.causal,
    }


def phase_facts(phase: str, options: Options) -> dict[str, Fact]:
    """Give the facts that depend on the phase: verification and drafting are speculative whatever was asked."""
    topk = options.spec_topk or 1
    speculative = options.spec_topk is not None or phase in ("verify", "draft")
    return {"phase": phase, "topk": topk, "tree": topk > 1, "speculative": speculative}


def sparse_kind(model: Model, group: LayerGroup) -> str:
    """Name the kind of sparse attention as backends tell them apart; `none` for dense layers."""
    text = model.text or model.raw
    if "compress_ratios" in text or "compress_rates" in text:
        return "dsv4"
    if (
        "qwen4" in model.model_type
        or "indexer_budget" in text
        or "qwen_sparse_attention" in (text.get("layer_types") or ())
    ):
        return "qsa"
    if group.attention.top_k is None:
        return "none"
    if group.attention.is_latent:
        return "dsa"
    if isinstance(text.get("sparse_attention_config"), dict):
        return "minimax"
    return "minicpm" if isinstance(text.get("sparse_config"), dict) else "other"


def _kind(attention: Attention) -> str:
    if attention.form is not None:
        return "mla" if attention.is_latent else "mla_expanded"
    if attention.group_size == 1:
        return "mha"
    return "mqa" if attention.num_kv_heads == 1 else "gqa"


def _weights(model: Model) -> str:
    method = model.quantization.get("quant_method")
    return method if isinstance(method, str) else ""
