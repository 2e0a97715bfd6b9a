"""The matrix products of one forward step on one rank, and the bytes of weights that a rank holds."""

from collections.abc import Iterator
from dataclasses import dataclass

from costmodel.layer_group import LayerGroup, Model
from costmodel.serving.architecture import Architecture, read_architecture
from costmodel.serving.attention_weights import attention_products, indexer_products
from costmodel.serving.feed_forward import Experts
from costmodel.serving.formats import Formats, WeightFormat, weight_formats
from costmodel.serving.projection import share
from costmodel.serving.sizes import Sizes


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
    """Of what enters the experts: the model's, or their latent's."""
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
        ConfigError: A size is missing from config.json.
        ValueError: `ep` does not divide `tp` or the experts.
    """
    architecture, formats = read_architecture(model), weight_formats(model)
    products = [p for group in model.layer_groups for p in _attention(group, model, architecture, (tp, formats))]
    products += _linear(architecture, tp, formats.linear)
    products += _replaced(model, tp, formats.dense)
    products += _mlps(architecture, tp, formats)
    products += _per_layer(architecture, tp, formats.dense)
    vocab = share(architecture.vocab_size, tp)
    return RankWeights(
        architecture,
        tuple(products),
        Product("lm_head", vocab, architecture.hidden_size, 1, formats.head),
        _routed(architecture, tp, ep, formats.experts),
        vocab * (architecture.hidden_size + architecture.layers * architecture.per_layer_width),
        formats,
    )


def _attention(group: LayerGroup, model: Model, a: Architecture, on: tuple[int, Formats]) -> Iterator[Product]:
    tp, formats = on
    for name, n, k in attention_products(group, model, a, tp):
        yield Product(name, n, k, group.layers, formats.attention)
    if group.indexer_layers:
        for name, n, k in indexer_products(group, a):
            yield Product(name, n, k, group.indexer_layers, formats.attention)


def _linear(a: Architecture, tp: int, format: WeightFormat) -> Iterator[Product]:
    if a.linear is not None:
        for projection in a.linear.projections:
            yield Product(projection.name, *projection.on_rank(tp), a.linear.layers, format)


def _replaced(model: Model, tp: int, format: WeightFormat) -> Iterator[Product]:
    """Sublayers of searched blocks that are one square matrix instead of attention or an MLP."""
    sizes = Sizes(model)
    blocks = sizes.data.get("block_configs")
    parts = [block.get(name) for block in blocks for name in ("attention", "ffn")] if isinstance(blocks, list) else []
    count = sum(1 for part in parts if isinstance(part, dict) and part.get("replace_with_linear"))
    if count:
        yield Product("linear_in", share(sizes.hidden, tp), sizes.hidden, count, format)


def _mlps(a: Architecture, tp: int, formats: Formats) -> Iterator[Product]:
    for width, layers in a.dense_widths:
        yield from _mlp("", width, a, tp, (layers, formats.dense))
    if a.experts is not None:
        yield Product("router", a.experts.count, a.hidden_size, a.moe_layers, formats.router)
        if a.experts.latent_size:
            yield Product("latent_in", a.experts.latent_size, a.hidden_size, a.moe_layers, formats.shared)
            yield Product("latent_out", a.hidden_size, a.experts.latent_size, a.moe_layers, formats.shared)
        if a.experts.shared_intermediate_size:
            yield from _mlp("shared_", a.experts.shared_intermediate_size, a, tp, (a.moe_layers, formats.shared))


def _per_layer(a: Architecture, tp: int, format: WeightFormat) -> Iterator[Product]:
    """Projections of the embeddings that every layer adds."""
    width = a.per_layer_width
    if width:
        yield Product("per_layer_all", share(a.layers * width, tp), a.hidden_size, 1, format)
        yield Product("per_layer_gate", width, a.hidden_size, a.layers, format)
        yield Product("per_layer_out", a.hidden_size, width, a.layers, format)


def _mlp(name: str, width: int, a: Architecture, tp: int, layers: tuple[int, WeightFormat]) -> Iterator[Product]:
    local = share(width, tp)
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
    width, entering = share(a.experts.intermediate_size, tp // ep), a.experts.latent_size or a.hidden_size
    return ExpertLayers(a.experts, a.experts.count // ep, entering, width, a.mlp_matrices, a.moe_layers, format)
