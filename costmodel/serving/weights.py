"""The matrix products of one forward step on one rank, and the bytes of weights that a rank holds."""

from collections.abc import Iterator
from dataclasses import dataclass

from costmodel.attention import Attention
from costmodel.layer_group import LayerGroup, Model
from costmodel.models import per_rank
from costmodel.serving.architecture import Architecture, Experts, read_architecture
from costmodel.serving.formats import Formats, WeightFormat, weight_formats


@dataclass(frozen=True, slots=True)
class Product:
    """`[tokens, k] x [k, n]`, made `count` times a step."""

    name: str
    n: int
    k: int
    count: int
    format: WeightFormat

    @property
    def parameters(self) -> int:
        """Weights of all of them."""
        return self.n * self.k * self.count


@dataclass(frozen=True, slots=True)
class ExpertLayers:
    """The routed experts on one rank."""

    experts: Experts
    local: int
    """Experts that the rank holds."""
    hidden_size: int
    intermediate_size: int
    """Of one expert on this rank."""
    matrices: int
    count: int
    """Layers."""
    format: WeightFormat

    @property
    def parameters(self) -> int:
        """Weights of all layers on this rank."""
        return self.count * self.local * self.matrices * self.hidden_size * self.intermediate_size


@dataclass(frozen=True, slots=True)
class RankWeights:
    """Everything beside attention that one rank computes."""

    architecture: Architecture
    products: tuple[Product, ...]
    """Of every token."""
    head: Product
    """The output head, of the tokens that are sampled."""
    experts: ExpertLayers | None
    embedding: int
    """Parameters of the embedding on this rank."""
    formats: Formats

    @property
    def parameters(self) -> int:
        """Weights on this rank."""
        routed = self.experts.parameters if self.experts else 0
        head = 0 if self.architecture.tied_embeddings else self.head.parameters
        return sum(p.parameters for p in self.products) + head + routed + self.embedding

    @property
    def bytes(self) -> float:
        """Bytes of weights on this rank; norms and biases, below a thousandth, are left out."""
        routed = self.experts.parameters * self.experts.format.bytes if self.experts else 0.0
        head = 0 if self.architecture.tied_embeddings else self.head.parameters
        dense = sum(p.parameters * p.format.bytes for p in self.products)
        return dense + routed + (head + self.embedding) * self.formats.head.bytes


def rank_weights(model: Model, tp: int = 1, ep: int = 1) -> RankWeights:
    """List what one rank holds and multiplies.

    Args:
        model: As `load_model` gives it.
        tp: Tensor-parallel size.
        ep: Expert-parallel size inside `tp`: experts are dealt out over `ep` ranks and split over `tp / ep`.

    Raises:
        ConfigError: A size is missing from config.json, or its weights cannot be counted.
        ValueError: `ep` does not divide `tp` or the experts.
    """
    architecture, formats = read_architecture(model), weight_formats(model)
    products = [p for group in model.layer_groups for p in _attention(group, architecture, tp, formats.dense)]
    products += _linear(model, architecture, tp, formats.dense)
    products += _mlps(architecture, tp, formats.dense)
    vocab = _split(architecture.vocab_size, tp)
    return RankWeights(
        architecture,
        tuple(products),
        Product("lm_head", vocab, architecture.hidden_size, 1, formats.head),
        _routed(architecture, tp, ep, formats.experts),
        vocab * architecture.hidden_size,
        formats,
    )


def _attention(group: LayerGroup, a: Architecture, tp: int, format: WeightFormat) -> Iterator[Product]:
    local, layers = per_rank(group.attention, tp), group.layers
    if local.is_latent:
        yield from _latent(local, a, layers, format)
        return
    width = local.num_qo_heads * local.head_dim + local.num_kv_heads * (local.head_dim + local.value_dim)
    yield Product("qkv", width, a.hidden_size, layers, format)
    yield Product("o", a.hidden_size, local.num_qo_heads * local.value_dim, layers, format)


def _latent(local: Attention, a: Architecture, layers: int, format: WeightFormat) -> Iterator[Product]:
    rope, nope = local.qk_rope_head_dim or 0, local.qk_nope_head_dim or 0
    rank, heads, value = local.kv_lora_rank or 0, local.num_qo_heads, local.expanded_v_head_dim or 0
    query = heads * (nope + rope)
    if a.q_lora_rank:
        yield Product("qkv_a", a.q_lora_rank + rank + rope, a.hidden_size, layers, format)
        yield Product("q_b", query, a.q_lora_rank, layers, format)
    else:
        yield Product("qkv_a", query + rank + rope, a.hidden_size, layers, format)
    yield Product("kv_b", heads * (nope + value), rank, layers, format)
    yield Product("o", a.hidden_size, heads * value, layers, format)


def _linear(model: Model, a: Architecture, tp: int, format: WeightFormat) -> Iterator[Product]:
    if a.linear is not None:
        keys, values = _split(a.linear.key_width, tp), _split(a.linear.value_width, tp)
        yield Product("linear_in", 2 * keys + 2 * values, a.hidden_size, model.layers_without_kv, format)
        yield Product("linear_out", a.hidden_size, values, model.layers_without_kv, format)


def _mlps(a: Architecture, tp: int, format: WeightFormat) -> Iterator[Product]:
    if a.dense_layers:
        yield from _mlp("", a.dense_intermediate_size, a, tp, (a.dense_layers, format))
    if a.experts is not None:
        yield Product("router", a.experts.count, a.hidden_size, a.moe_layers, format)
        if a.experts.shared_intermediate_size:
            yield from _mlp("shared_", a.experts.shared_intermediate_size, a, tp, (a.moe_layers, format))


def _mlp(name: str, width: int, a: Architecture, tp: int, layers: tuple[int, WeightFormat]) -> Iterator[Product]:
    local = _split(width, tp)
    yield Product(f"{name}gate_up", (a.mlp_matrices - 1) * local, a.hidden_size, *layers)
    yield Product(f"{name}down", a.hidden_size, local, *layers)


def _routed(a: Architecture, tp: int, ep: int, format: WeightFormat) -> ExpertLayers | None:
    if ep < 1 or tp % ep:
        raise ValueError(f"ep={ep} must divide tp={tp}")
    if a.experts is None:
        if ep > 1:
            raise ValueError(f"ep={ep}: the model has no experts to deal out")
        return None
    if a.experts.count % ep:
        raise ValueError(f"ep={ep} must divide the {a.experts.count} experts")
    width = _split(a.experts.intermediate_size, tp // ep)
    return ExpertLayers(a.experts, a.experts.count // ep, a.hidden_size, width, a.mlp_matrices, a.moe_layers, format)


def _split(size: int, parts: int) -> int:
    return -(-size // parts)
