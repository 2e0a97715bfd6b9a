"""One forward step in parts: plan, attention, KV write, matrix products, experts, the rest; each with its origin."""

from collections.abc import Mapping
from dataclasses import dataclass

from costmodel.batch import Batch, Phase
from costmodel.prediction import Evidence
from costmodel.serving.dense import DenseParts
from costmodel.serving.deployment import Deployment
from costmodel.serving.kernels import Time, kernels_of
from costmodel.serving.layers import ORDER, LayerTimes
from costmodel.serving.weights import rank_weights


@dataclass(frozen=True, slots=True)
class Step:
    """Parts of one forward step on one rank, by name; they follow each other."""

    phase: Phase
    parts: Mapping[str, Time]

    @property
    def seconds(self) -> float:
        """Time of the step."""
        return sum(part.seconds for part in self.parts.values())

    @property
    def low(self) -> float:
        """Every part at the lower end of its interval: a bound, not a quantile, for the parts err together."""
        return sum(part.low for part in self.parts.values())

    @property
    def high(self) -> float:
        """Every part at the upper end."""
        return sum(part.high for part in self.parts.values())

    @property
    def attention(self) -> Time:
        """The part that the backend decides."""
        return self.parts["attention"]

    def __add__(self, other: "Step") -> "Step":
        """Follow one step by another, part by part."""
        names = dict.fromkeys((*self.parts, *other.parts))
        return Step(self.phase, {n: _plus(self.parts.get(n), other.parts.get(n)) for n in names})

    def with_attention(self, seconds: float) -> float:
        """Time of the step if attention took `seconds`."""
        return self.seconds - self.attention.seconds + seconds


class StepModel:
    """Step times of one deployment."""

    def __init__(self, deployment: Deployment, measured: Mapping[str, float] | None = None) -> None:
        """Read the weights and prepare the device's kernels.

        Args:
            deployment: What runs where.
            measured: Seconds of attention calls that were measured on this device, by `layers.measured_key`.

        Raises:
            ConfigError: config.json lacks a size that weights depend on.
            MissingValue: The profile lacks a value that step times depend on.
        """
        self.deployment = deployment
        self.weights = rank_weights(deployment.model, deployment.parallel.tp, deployment.parallel.ep)
        self.dense = DenseParts(self.weights, kernels_of(deployment.profile), deployment)
        self.layers = LayerTimes(deployment, measured or {})

    def decode(self, batch: int, kv_len: int, padded: int | None = None) -> Step:
        """Time one token for each of `batch` requests that then hold `kv_len` tokens.

        Args:
            batch: Requests.
            kv_len: Tokens of each, the new one included.
            padded: Batch size of the CUDA graph that runs it; None means `batch`.

        Raises:
            Incompatible: The decode backend cannot run it.
        """
        rows = max(batch, padded or batch)
        return self._step(Batch.decode([kv_len] * batch, self.deployment.page_size), rows, rows)

    def extend(self, requests: int, q_len: int, kv_len: int) -> Step:
        """Time `q_len` new tokens for each of `requests` requests that then hold `kv_len` tokens.

        Raises:
            Incompatible: The prefill backend cannot run it.
        """
        batch = Batch.extend([q_len] * requests, [kv_len] * requests, self.deployment.page_size)
        return self.of(batch)

    def of(self, batch: Batch) -> Step:
        """Time one step of any batch, one token sampled for each request.

        Raises:
            Incompatible: The phase's backend cannot run it.
        """
        return self._step(batch, batch.total_q, batch.size)

    def _step(self, batch: Batch, tokens: int, sampled: int) -> Step:
        plan, attention = self.layers.of(batch)
        return Step(batch.phase, {"plan": plan, "attention": attention, **self.dense.parts(tokens, sampled)})


def _plus(a: Time | None, b: Time | None) -> Time:
    both = [time for time in (a, b) if time is not None]
    return both[0] if len(both) == 1 else both[0] + both[1]


def weakest(parts: Mapping[str, Time]) -> Evidence:
    """Give the weakest evidence among parts."""
    return max((part.evidence for part in parts.values()), key=ORDER.index)
