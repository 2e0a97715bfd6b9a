"""Layers that mix tokens without a KV cache: their weights, and the state that a request keeps in each."""

from collections.abc import Callable
from dataclasses import dataclass

from costmodel.errors import ConfigError
from costmodel.layer_group import Model
from costmodel.serving.projection import Projection
from costmodel.serving.sizes import Sizes

STATE_BYTES = 4
"""Recurrent states are kept in fp32 unless the file says otherwise."""
CONV_BYTES = 2
STATE_DTYPES = ("mamba_ssm_cache_dtype", "mamba_ssm_dtype")
ALWAYS_GATED = ("minimax_m1", "minimax_text_01", "bailing")
"""Lightning attention with an output gate as wide as the values."""


@dataclass(frozen=True, slots=True)
class LinearMixer:
    """One kind of layer without a KV cache."""

    name: str
    layers: int
    projections: tuple[Projection, ...]
    """Of one layer, before TP."""
    state_bytes: float
    """What one request keeps in one layer, before TP; short convolutions included."""


def read_linear(model: Model) -> LinearMixer | None:
    """Read the linear-attention, Mamba or convolution layers; None where there are none.

    Raises:
        ConfigError: Their sizes are not in the file; the message names the fields that were looked for.
    """
    layers = model.num_layers if model.parallel_linear else model.mixers.count("linear")
    if not layers:
        return None
    sizes = Sizes(model)
    for present, read in _KINDS:
        if present(sizes):
            name, projections, state = read(sizes)
            return LinearMixer(name, layers, projections, state)
    raise ConfigError(
        f"{model.name}: {layers} layers have no KV cache, and config.json has no size of theirs that this tool knows "
        "(linear_num_value_heads, linear_attn_config, mamba_num_heads, mamba_d_state, conv_L_cache, lru_width); "
        "without it weights and step times are unknown"
    )


_Read = tuple[str, tuple[Projection, ...], float]


def _delta_net(sizes: Sizes) -> _Read:
    """Gated delta net: queries and keys, values and their gate, two numbers a head."""
    hidden, heads = sizes.hidden, sizes.count("linear_num_value_heads")
    key, value = sizes.count("linear_key_head_dim"), sizes.count("linear_value_head_dim")
    keys, values = sizes.count("linear_num_key_heads") * key, heads * value
    conv = (sizes.optional("linear_conv_kernel_dim") or 4) - 1
    parts = (
        Projection("linear_in", 2 * keys + 2 * values, hidden),
        Projection("linear_decay", 2 * heads, hidden),
        Projection("linear_out", hidden, values, "k"),
    )
    return "gated delta net", parts, heads * key * value * _state_bytes(sizes) + conv * (2 * keys + values) * CONV_BYTES


def _kimi(sizes: Sizes) -> _Read:
    """Kimi delta attention: q, k and v, a low-rank decay, and a gate of full or low rank."""
    inner, hidden = sizes.inside("linear_attn_config"), sizes.hidden
    heads, dim = inner.count("num_heads"), inner.count("head_dim")
    width, conv = heads * dim, (inner.optional("short_conv_kernel_size") or 4) - 1
    gate = (
        (Projection("linear_gate", width, hidden),)
        if inner.flag("use_full_rank_gate")
        else (Projection("linear_gate_a", dim, hidden, "none"), Projection("linear_gate_b", width, dim))
    )
    parts = (
        Projection("linear_in", 3 * width, hidden),
        Projection("linear_decay_a", dim, hidden, "none"),
        Projection("linear_decay_b", width, dim),
        Projection("linear_beta", heads, hidden),
        *gate,
        Projection("linear_out", hidden, width, "k"),
    )
    return "Kimi delta attention", parts, heads * dim * dim * STATE_BYTES + conv * 3 * width * CONV_BYTES


def _mamba2(sizes: Sizes) -> _Read:
    """Mamba-2: gate, input, B and C of every group, and a step size a head in one projection."""
    hidden = sizes.hidden
    heads, dim = sizes.count("mamba_num_heads", "mamba_n_heads", "n_mamba_heads"), _mamba_head_dim(sizes)
    groups = sizes.optional("n_groups", "mamba_n_groups", "mamba_ngroups") or 1
    state = sizes.count("ssm_state_size", "mamba_d_state", "state_size")
    width, conv = heads * dim, (sizes.optional("conv_kernel", "mamba_d_conv") or 4) - 1
    parts = (
        Projection("linear_in", 2 * width + 2 * groups * state + heads, hidden),
        Projection("linear_out", hidden, width, "k"),
    )
    kept = width * state * _state_bytes(sizes) + conv * (width + 2 * groups * state) * CONV_BYTES
    return "Mamba-2", parts, kept


def _mamba_head_dim(sizes: Sizes) -> int:
    dim = sizes.optional("mamba_head_dim", "mamba_d_head", "mamba_headdim", "hidden_size_per_head")
    if dim is not None:
        return dim
    width = sizes.optional("mamba_d_ssm") or (sizes.optional("mamba_expand", "expand") or 2) * sizes.hidden
    return width // sizes.count("mamba_num_heads", "mamba_n_heads", "n_mamba_heads")


def _mamba1(sizes: Sizes) -> _Read:
    """Mamba-1: gate and input, then B, C and a low-rank step size of every channel."""
    hidden, state = sizes.hidden, sizes.count("mamba_d_state", "state_size")
    width = (sizes.optional("mamba_expand", "expand") or 2) * hidden
    rank = sizes.optional("mamba_dt_rank", "time_step_rank") or -(-hidden // 16)
    conv = (sizes.optional("mamba_d_conv", "conv_kernel") or 4) - 1
    parts = (
        Projection("linear_in", 2 * width, hidden),
        Projection("linear_x", rank + 2 * state, width, "k"),
        Projection("linear_dt", width, rank),
        Projection("linear_out", hidden, width, "k"),
    )
    return "Mamba-1", parts, width * state * _state_bytes(sizes) + conv * width * CONV_BYTES


def _convolution(sizes: Sizes) -> _Read:
    """Gated short convolution: two gates and an input."""
    hidden = sizes.hidden
    width = sizes.optional("conv_dim") or hidden
    parts = (Projection("linear_in", 3 * width, hidden), Projection("linear_out", hidden, width, "k"))
    return "short convolution", parts, (sizes.count("conv_L_cache") - 1) * width * CONV_BYTES


def _recurrent(sizes: Sizes) -> _Read:
    """Real-gated linear recurrent unit: an input and a gate, with block-diagonal gates of the recurrence."""
    hidden, width = sizes.hidden, sizes.count("lru_width")
    block = width // (sizes.optional("num_attention_heads") or 1)
    conv = (sizes.optional("conv1d_width") or 4) - 1
    parts = (
        Projection("linear_in", 2 * width, hidden),
        Projection("linear_gates", 2 * width, block),
        Projection("linear_out", hidden, width, "k"),
    )
    return "recurrent unit", parts, width * STATE_BYTES + conv * width * CONV_BYTES


def _lightning(sizes: Sizes) -> _Read:
    """Lightning attention: q, k, v of every head, and an output gate."""
    hidden, heads = sizes.hidden, sizes.count("num_attention_heads")
    dim = sizes.optional("head_dim") or hidden // heads
    width = heads * dim
    parts = (Projection("linear_in", 4 * width, hidden), Projection("linear_out", hidden, width, "k"))
    return "lightning attention", parts, heads * dim * dim * STATE_BYTES


def _state_bytes(sizes: Sizes) -> int:
    named = next((sizes.data[name] for name in STATE_DTYPES if isinstance(sizes.data.get(name), str)), "float32")
    return 2 if "16" in named else STATE_BYTES


def _has(*names: str) -> Callable[[Sizes], bool]:
    return lambda sizes: any(sizes.optional(name) is not None for name in names)


_KINDS: tuple[tuple[Callable[[Sizes], bool], Callable[[Sizes], _Read]], ...] = (
    (_has("linear_num_value_heads"), _delta_net),
    (lambda sizes: sizes.inside("linear_attn_config").optional("num_heads") is not None, _kimi),
    (_has("mamba_num_heads", "mamba_n_heads", "n_mamba_heads"), _mamba2),
    (_has("conv_L_cache"), _convolution),
    (_has("lru_width"), _recurrent),
    (_has("mamba_d_state", "state_size"), _mamba1),
    (lambda sizes: sizes.model.model_type.startswith(ALWAYS_GATED), _lightning),
)
