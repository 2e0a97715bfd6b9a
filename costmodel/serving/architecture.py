"""What a config.json says about the weights beside attention: widths of the MLPs, the experts and the vocabulary."""

from collections import Counter
from dataclasses import dataclass

from costmodel.layer_group import Model
from costmodel.serving.feed_forward import Experts, dense_widths, gated, moe_layers, read_experts
from costmodel.serving.linear_mixers import LinearMixer, read_linear
from costmodel.serving.served_attention import is_block_sparse
from costmodel.serving.sizes import VOCABULARY, Sizes


@dataclass(frozen=True, slots=True)
class Architecture:
    """Sizes that decide weights and matrix products."""

    hidden_size: int
    vocab_size: int
    tied_embeddings: bool
    layers: int
    moe_layers: int
    dense_widths: tuple[tuple[int, int], ...]
    """Width of a dense MLP and how many layers have it, those that have experts beside it included."""
    experts: Experts | None
    gated: bool
    """Whether an MLP has a gate, hence three matrices."""
    q_lora_rank: int | None
    linear: LinearMixer | None
    """Mixer of the layers without a KV cache."""
    sublayers: int
    """Mixers and MLPs; each begins with a norm and ends with an all-reduce under tensor parallelism."""
    notes: tuple[str, ...]
    """What is approximate, in words."""
    per_layer_width: int = 0
    """Width of the embedding that every layer adds of its own (Gemma 3n and 4 E); 0 without."""

    @property
    def dense_layers(self) -> int:
        """Layers with a dense MLP."""
        return sum(layers for _, layers in self.dense_widths)

    @property
    def mlp_matrices(self) -> int:
        """Matrices of one MLP or expert."""
        return 3 if self.gated else 2


def read_architecture(model: Model) -> Architecture:
    """Read the sizes.

    Raises:
        ConfigError: A size is missing; the message names the fields that it was looked for in.
    """
    sizes, moe = Sizes(model), moe_layers(model)
    experts = read_experts(model) if moe else None
    dense = Counter(dense_widths(model, moe))
    linear = read_linear(model)
    mixing = sum(group.layers for group in model.layer_groups) + (linear.layers if linear else 0)
    return Architecture(
        hidden_size=sizes.hidden,
        vocab_size=sizes.count(*VOCABULARY),
        tied_embeddings=_tied(model),
        layers=model.num_layers,
        moe_layers=moe,
        dense_widths=tuple(sorted(dense.items())),
        experts=experts,
        gated=gated(model),
        q_lora_rank=sizes.optional("q_lora_rank"),
        linear=linear,
        sublayers=mixing + max(moe, sum(dense.values())),
        notes=_notes(model, experts, linear),
        per_layer_width=sizes.optional("hidden_size_per_layer_input") or 0,
    )


def _notes(model: Model, experts: Experts | None, linear: LinearMixer | None) -> tuple[str, ...]:
    notes = []
    if linear is not None:
        notes.append(
            f"{linear.layers} layers of {linear.name} keep {linear.state_bytes / 1e6:.3g} MB a request each; reading "
            "and writing it is counted, their scan over a prompt only as element-wise passes"
        )
    if experts is not None and experts.latent_size:
        notes.append(f"routed experts work on a latent of {experts.latent_size}; both projections are counted")
    if any(is_block_sparse(group.attention) for group in model.layer_groups):
        notes.append("block-sparse layers run on kernels of their own; they are taken as a window over as many tokens")
    if any(group.kv_compression > 1 for group in model.layer_groups):
        notes.append("compressed attention: its compressors are counted as products, their pooling is not")
    if Sizes(model).optional("hc_mult"):
        notes.append("hyper-connections between layers are left out, below a hundredth of the weights")
    return tuple(notes)


def _tied(model: Model) -> bool:
    for part in (model.text, model.raw):
        for name in ("tie_word_embeddings", "share_input_output_layers"):
            if isinstance(part.get(name), bool):
                return bool(part[name])
    return "gemma" in model.model_type
