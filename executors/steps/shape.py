"""What one rank of a model multiplies and attends in every layer, for as many layers as are asked for."""

from dataclasses import dataclass
from functools import cached_property

from costmodel.attention import Attention
from costmodel.batch import Batch
from costmodel.errors import ConfigError
from costmodel.layer_group import Model
from costmodel.mla_form import form_for
from costmodel.models import per_rank, read_model
from costmodel.serving import RankWeights, rank_weights
from costmodel.serving.weights import ExpertLayers, Product


@dataclass(frozen=True)
class StackShape:
    """A decoder whose layers are alike, as one of `tp` ranks holds it; nothing is exchanged between ranks.

    Raises:
        ConfigError: The layers differ, or there are experts that every token visits.
    """

    model: Model
    tp: int = 1

    def __post_init__(self) -> None:
        """Check that the layers are alike."""
        a = self.weights.architecture
        mixed = a.moe_layers and (a.dense_layers or (a.experts is not None and a.experts.shared_intermediate_size))
        if len(self.model.layer_groups) != 1 or self.model.layers_without_kv or mixed:
            raise ConfigError(f"{self.model.name}: a step needs layers that are all alike, without shared experts")

    @property
    def layers(self) -> int:
        """Layers of the stack."""
        return self.model.num_layers

    @cached_property
    def attention(self) -> Attention:
        """The attention of one rank; MLA in absorbed form."""
        return per_rank(self.model.layer_groups[0].attention, self.tp)

    @cached_property
    def weights(self) -> RankWeights:
        """The matrix products of one rank."""
        return rank_weights(self.model, self.tp)

    @property
    def experts(self) -> ExpertLayers:
        """The routed experts of one rank.

        Raises:
            ConfigError: The MLPs are dense.
        """
        if self.weights.experts is None:
            raise ConfigError(f"{self.model.name} has no experts")
        return self.weights.experts

    @property
    def has_experts(self) -> bool:
        """Whether the MLPs are routed experts."""
        return self.weights.experts is not None

    @property
    def hidden_size(self) -> int:
        """Width of the residual stream."""
        return self.weights.architecture.hidden_size

    @property
    def vocab_size(self) -> int:
        """Rows of the embedding and of the output head on this rank."""
        return self.weights.head.n

    @property
    def qk_norm(self) -> bool:
        """Whether every query and key head is normalised before its rotation."""
        return self.model.model_type.startswith("qwen3")

    @property
    def eps(self) -> float:
        """What norms add under the root."""
        return float(self.model.raw.get("rms_norm_eps") or 1e-6)

    @property
    def rope_theta(self) -> float:
        """Base of the rotation's wavelengths."""
        return float(self.model.raw.get("rope_theta") or 1e4)

    def product(self, name: str) -> Product:
        """Give one product of a layer by its name."""
        return next(product for product in self.weights.products if product.name == name)

    def runs(self, batch: Batch) -> bool:
        """Say whether the stack runs a batch: MLA only where its calls are absorbed."""
        return not self.attention.is_latent or form_for(self.attention, batch.phase).form == "absorbed"


def stack_model(model: Model, layers: int | None = None) -> Model:
    """Give the model with this many layers, all alike, its weights not quantised.

    Where the first layers have a dense MLP, every one has it.

    Args:
        model: As `load_model` gives it.
        layers: None keeps their number.
    """
    count = layers or model.num_layers
    plain = {name: value for name, value in model.raw.items() if name != "quantization_config"}
    changed = {**plain, "num_hidden_layers": count}
    if "first_k_dense_replace" in model.raw:
        changed["first_k_dense_replace"] = count
    return read_model(changed, name=model.name)
