"""The parts of a step that do not depend on the attention backend."""

from functools import lru_cache

from costmodel.serving.deployment import Deployment
from costmodel.serving.kernels import ACTIVATION_BYTES, Kernels, Time, scheduler_time
from costmodel.serving.weights import RankWeights

LOGIT_BYTES = 4
LOGIT_PASSES = 3
"""Passes of softmax and sampling over the logits."""
SCAN_PASSES = 3
"""Passes of a linear mixer over what it projects: convolution, scan, gated norm."""


class DenseParts:
    """Products, experts, KV write, element-wise passes, head, all-reduce and scheduler of one rank."""

    def __init__(self, weights: RankWeights, kernels: Kernels, deployment: Deployment) -> None:
        self._weights = weights
        self._kernels = kernels
        self._deployment = deployment
        groups = deployment.groups
        self._sublayers = weights.architecture.sublayers
        self._attention_layers = sum(group.layers for group in groups)
        self._mlps = weights.architecture.dense_layers + weights.architecture.moe_layers
        linear = weights.architecture.linear
        self._linear_layers = linear.layers if linear else 0
        self._state = linear.state_bytes / deployment.parallel.tp if linear else 0.0
        self._written = sum(group.kv_bytes_per_token for group in groups)
        self._writing_layers = sum(group.layers - group.kv_shared_layers for group in groups)
        self._query_width = max(g.attention.num_qo_heads * g.attention.head_dim for g in groups)
        self.seconds = lru_cache(maxsize=1 << 15)(self._seconds)

    def parts(self, tokens: int, sampled: int) -> dict[str, Time]:
        """Time the parts.

        Args:
            tokens: Tokens that go through the layers.
            sampled: Tokens that a next token is drawn for.
        """
        parts = {
            "kv_write": self._kv_write(tokens),
            "matmul": _sum([self._kernels.product(p, tokens).times(p.count) for p in self._weights.products]),
        }
        if self._weights.experts is not None:
            experts = self._weights.experts
            parts["experts"] = self._kernels.experts(experts, tokens).times(experts.count)
        parts["elementwise"] = self._elementwise(tokens)
        if self._linear_layers:
            parts["linear_state"] = self._linear_state(sampled)
        parts["head"] = self._head(sampled)
        if self._deployment.parallel.tp > 1:
            parts["all_reduce"] = self._all_reduce(tokens)
        parts["scheduler"] = scheduler_time()
        return parts

    def _seconds(self, tokens: int, sampled: int) -> float:
        return sum(part.seconds for part in self.parts(tokens, sampled).values())

    def _kv_write(self, tokens: int) -> Time:
        layers = max(1, self._writing_layers)
        return self._kernels.kv_write(tokens * self._written / layers).times(layers)

    def _elementwise(self, tokens: int) -> Time:
        hidden = self._weights.architecture.hidden_size * ACTIVATION_BYTES * tokens
        norm = self._kernels.pass_over(4 * hidden).times(self._sublayers)
        rotated = 2 * self._query_width * ACTIVATION_BYTES * tokens
        rope = self._kernels.pass_over(rotated).times(self._attention_layers)
        width = max((p.n for p in self._weights.products if p.name.endswith("gate_up")), default=0)
        gate = self._kernels.pass_over(1.5 * width * ACTIVATION_BYTES * tokens).times(self._mlps)
        mixed = sum(p.n for p in self._weights.products if p.name == "linear_in")
        scan = self._kernels.pass_over(2 * mixed * ACTIVATION_BYTES * tokens).times(SCAN_PASSES * self._linear_layers)
        return _sum([norm, rope, gate, scan])

    def _linear_state(self, requests: int) -> Time:
        """Read and write what every request keeps in the layers without a KV cache."""
        return self._kernels.pass_over(2 * requests * self._state).times(self._linear_layers)

    def _head(self, sampled: int) -> Time:
        logits = sampled * self._weights.head.n * LOGIT_BYTES
        sampling = self._kernels.pass_over(logits).times(LOGIT_PASSES)
        return _sum([self._kernels.product(self._weights.head, sampled), sampling])

    def _all_reduce(self, tokens: int) -> Time:
        bytes = tokens * self._weights.architecture.hidden_size * ACTIVATION_BYTES
        return self._kernels.all_reduce(bytes, self._deployment.parallel.tp).times(self._sublayers)


def _sum(times: list[Time]) -> Time:
    """Add times; the evidence is that of the largest."""
    largest = max(times, key=lambda time: time.seconds)
    total = (sum(t.seconds for t in times), sum(t.low for t in times), sum(t.high for t in times))
    return Time(*total, largest.evidence)
