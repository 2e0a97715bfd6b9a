"""The parts of a step that do not depend on the attention backend."""

from collections.abc import Iterator
from functools import lru_cache

from costmodel.layer_group import LayerGroup
from costmodel.serving.deployment import Deployment
from costmodel.serving.kernels import ACTIVATION_BYTES, Kernels, Time, scheduler_time
from costmodel.serving.weights import Product, RankWeights

LOGIT_BYTES = 10
"""Moved for each logit: read and widened to fp32, then read once to choose."""
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
        self._mlps = weights.architecture.dense_layers + weights.architecture.moe_layers
        linear = weights.architecture.linear
        self._linear_layers = linear.layers if linear else 0
        self._state = linear.state_bytes / deployment.parallel.tp if linear else 0.0
        self._written = sum(group.kv_bytes_per_token for group in groups)
        self._writing_layers = sum(group.layers - group.kv_shared_layers for group in groups)
        self.seconds = lru_cache(maxsize=1 << 15)(self._seconds)

    def parts(self, tokens: int, sampled: int) -> dict[str, Time]:
        """Time the parts.

        Args:
            tokens: Tokens that go through the layers.
            sampled: Tokens that a next token is drawn for.
        """
        parts = {
            "kv_write": self._kv_write(tokens),
            "matmul": _sum([self._product(p, tokens).times(p.count) for p in self._weights.products]),
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

    def _product(self, product: Product, tokens: int) -> Time:
        """Time one product; MLA's up-projection is one where heads are expanded, two batched ones where absorbed."""
        time = self._kernels.product(product, tokens)
        if product.name != "kv_b":
            return time
        heads = max(group.attention.num_qo_heads for group in self._deployment.groups)
        moved = (product.n * product.k / 2 + tokens * (heads * product.k + product.n / 2)) * ACTIVATION_BYTES
        batched = self._kernels.pass_over("bmm", tokens, moved).times(2)
        return max(time, batched, key=lambda found: found.seconds)

    def _kv_write(self, tokens: int) -> Time:
        layers = max(1, self._writing_layers)
        return self._kernels.pass_over("kv_write", tokens, 2.0 * tokens * self._written / layers).times(layers)

    def _elementwise(self, tokens: int) -> Time:
        row, over = ACTIVATION_BYTES * tokens, self._kernels.pass_over
        hidden = self._weights.architecture.hidden_size * row
        times = [over("embed", tokens, 2 * hidden), over("norm", tokens, 4 * hidden).times(self._sublayers)]
        times += [time for group in self._deployment.groups for time in self._around_attention(group, tokens)]
        width = max((p.n for p in self._weights.products if p.name.endswith("gate_up")), default=0)
        times.append(over("gate", tokens, 1.5 * width * row).times(self._mlps))
        mixed = sum(p.n for p in self._weights.products if p.name == "linear_in")
        times.append(over("gate", tokens, 2 * mixed * row).times(SCAN_PASSES * self._linear_layers))
        return _sum(times)

    def _around_attention(self, group: LayerGroup, tokens: int) -> Iterator[Time]:
        """Rotation of a layer's heads; MLA adds the norms of its low ranks."""
        a, row, over = group.attention, ACTIVATION_BYTES * tokens, self._kernels.pass_over
        if not a.is_latent:
            heads = a.num_qo_heads + 2 * a.num_kv_heads
            yield over("rotate", tokens, 2 * heads * a.head_dim * row).times(group.layers)
            return
        rank, rope, heads = a.kv_lora_rank or 0, a.qk_rope_head_dim or 0, a.num_qo_heads
        yield over("rotate", tokens, 2 * (heads + 1) * rope * row).times(group.layers)
        yield over("norm", tokens, 2 * (self._weights.architecture.q_lora_rank or 0) * row).times(group.layers)
        yield over("norm", tokens, 2 * rank * row).times(group.layers)

    def _linear_state(self, requests: int) -> Time:
        """Read and write what every request keeps in the layers without a KV cache."""
        return self._kernels.pass_over("gate", requests, 2 * requests * self._state).times(self._linear_layers)

    def _head(self, sampled: int) -> Time:
        logits = sampled * self._weights.head.n * LOGIT_BYTES
        return _sum(
            [self._kernels.product(self._weights.head, sampled), self._kernels.pass_over("sample", sampled, logits)]
        )

    def _all_reduce(self, tokens: int) -> Time:
        bytes = tokens * self._weights.architecture.hidden_size * ACTIVATION_BYTES
        return self._kernels.all_reduce(bytes, self._deployment.parallel.tp).times(self._sublayers)


def _sum(times: list[Time]) -> Time:
    """Add times; the evidence is that of the largest."""
    largest = max(times, key=lambda time: time.seconds)
    total = (sum(t.seconds for t in times), sum(t.low for t in times), sum(t.high for t in times))
    return Time(*total, largest.evidence)
