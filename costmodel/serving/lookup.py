"""Step times fast enough for a simulation: attention interpolated over tables that are filled as they are asked."""

import math

import numpy as np

from costmodel.batch import Batch
from costmodel.mla_form import form_for
from costmodel.predict import predict
from costmodel.serving.calibrated import sustained_factor
from costmodel.serving.deployment import PREFILL_KERNELS
from costmodel.serving.memory import Memory, captured_size
from costmodel.serving.served_attention import as_served, entries, is_block_sparse, selecting_seconds
from costmodel.serving.step import StepModel
from costmodel.sweep import sweep

DECODE_NODES = 32
"""Nodes per doubling, of batch and of length; small whole numbers are nodes themselves."""
EXTEND_NODES = 16


class StepLookup:
    """Seconds of the steps of one deployment; interpolation is between neighbouring nodes, linear in each axis."""

    def __init__(self, steps: StepModel, memory: Memory) -> None:
        self._steps = steps
        self._memory = memory
        self._deployment = steps.deployment
        prefill = steps.deployment.prefill
        self._prefill = PREFILL_KERNELS.get(prefill, prefill)
        self._longest = _node_at_or_above(steps.deployment.model.context_length or 1 << 20, DECODE_NODES)
        self._lengths = _nodes_up_to(self._longest, DECODE_NODES)
        self._rows: dict[int, list[float]] = {}
        self._extend: dict[tuple[int, int, int], float] = {}
        self._verify: dict[tuple[int, int, int], float] = {}
        self._plans: dict[tuple[str, int], float] = {}

    def decode(self, batch: int, mean_kv_len: float) -> float:
        """Seconds to decode one token of each of `batch` requests that hold `mean_kv_len` tokens on average."""
        padded = captured_size(batch, self._memory.graph_batch)
        dense = self._steps.dense.seconds(padded, padded)
        return dense + self._plan("decode", batch) + self.decode_attention(batch, mean_kv_len)

    def decode_attention(self, batch: int, mean_kv_len: float) -> float:
        """Attention of all layers of a decode step, seconds."""
        low, high, share = _around(batch, DECODE_NODES)
        seconds = self._row_at(low, mean_kv_len)
        return seconds if not share else seconds + share * (self._row_at(high, mean_kv_len) - seconds)

    def dense_extra(self, tokens: int, further: int) -> float:
        """Seconds that `further` sampled tokens add to a step of `tokens` tokens, attention left out."""
        return self._steps.dense.seconds(tokens + further, further + 1) - self._steps.dense.seconds(tokens, 1)

    def extend(self, tokens: int, quadratic: float, weighted_kv: float, sampled: int) -> float:
        """Seconds of a prefill step.

        Requests of different lengths count as equal ones with the same sum and sum of squares.

        Args:
            tokens: New tokens of all requests.
            quadratic: Sum over requests of the square of their new tokens.
            weighted_kv: Sum over requests of new tokens times visible tokens.
            sampled: Requests whose prompt ends in this step.
        """
        dense = self._steps.dense.seconds(tokens, max(1, sampled))
        q_len = max(1.0, quadratic / tokens)
        requests = max(1, round(tokens / q_len))
        attention = self.extend_attention(requests, tokens / requests, weighted_kv / tokens)
        return dense + self._plan("extend", requests) + attention

    def extend_attention(self, requests: int, q_len: float, kv_len: float) -> float:
        """Attention of all layers of a prefill step of equal requests, seconds."""
        q0, q1, q_share = _around(q_len, EXTEND_NODES)
        low = self._extend_at(requests, q0, max(kv_len - q_len, 0.0))
        if not q_share:
            return low
        return low + q_share * (self._extend_at(requests, q1, max(kv_len - q_len, 0.0)) - low)

    def verify(self, batch: int, mean_kv_len: float, draft_tokens: int) -> float:
        """Seconds to verify `draft_tokens` tokens of each request, the drafting not included."""
        tokens = batch * draft_tokens
        dense = self._steps.dense.seconds(tokens, tokens)
        size, length = _nearest(batch, EXTEND_NODES), _nearest(mean_kv_len, EXTEND_NODES)
        key = (size, max(length, draft_tokens), draft_tokens)
        if key not in self._verify:
            page = self._deployment.page_size
            asked = Batch.verify([key[1]] * size, draft_tokens, page_size=page)
            self._verify[key] = self._steps.layers.of(asked)[1].seconds / size
        return dense + self._plan("extend", batch) + self._verify[key] * batch

    def _row_at(self, batch: int, length: float) -> float:
        row = self._rows.get(batch)
        if row is None:
            row = self._rows[batch] = self._row(batch)
        if length >= self._longest:
            return row[-1] * length / self._longest
        position = _position(length, DECODE_NODES)
        index = int(position)
        share = position - index
        return row[index] + share * (row[index + 1] - row[index])

    def _row(self, batch: int) -> list[float]:
        total = np.zeros(len(self._lengths))
        bandwidth = self._deployment.profile.require("memory_bytes_per_s")
        for group in self._deployment.groups:
            pairs = np.array([(batch, max(1, round(entries(group, n)))) for n in self._lengths], dtype=np.int64)
            total += group.layers * np.array(
                [selecting_seconds(group, Batch.decode([n]), bandwidth) * batch for n in self._lengths]
            )
            calls = sweep(
                as_served(group, True, self._longest),
                pairs,
                backend=self._deployment.decode,
                profile=self._deployment.profile,
                page_size=self._deployment.page_size,
            )
            if not is_block_sparse(group.attention):
                calls = np.array([self._in_long_runs(float(seconds)) for seconds in calls])
            total += group.layers * calls
        return [float(value) for value in total]

    def _in_long_runs(self, seconds: float) -> float:
        """Time a decode call at the clocks of long runs."""
        backend, profile = self._deployment.decode, self._deployment.profile
        return seconds * sustained_factor(profile.id, backend, "decode", seconds)

    def _extend_at(self, requests: int, q_len: int, prefix: float) -> float:
        low, high, share = _around(prefix, EXTEND_NODES) if prefix >= 1 else (0, 0, 0.0)
        seconds = self._extend_node(requests, q_len, low)
        if not share:
            return seconds
        return seconds + share * (self._extend_node(requests, q_len, high) - seconds)

    def _extend_node(self, requests: int, q_len: int, prefix: int) -> float:
        key = (requests, q_len, prefix)
        found = self._extend.get(key)
        if found is None:
            batch = Batch.extend([q_len] * requests, [q_len + prefix] * requests, self._deployment.page_size)
            found = self._extend[key] = self._steps.layers.of(batch)[1].seconds
        return found

    def _plan(self, phase: str, batch: int) -> float:
        key = (phase, batch)
        found = self._plans.get(key)
        if found is None:
            decode = phase == "decode"
            backend = self._deployment.decode if decode else self._prefill
            page = self._deployment.page_size
            asked = Batch.decode([2] * batch, page) if decode else Batch.extend([2] * batch, [2] * batch, page)
            form = form_for(as_served(self._deployment.groups[0], decode, 2), asked.phase)
            estimate = predict(form, asked, backend=backend, profile=self._deployment.profile)
            found = self._plans[key] = estimate.plan_seconds
        return found


def _position(value: float, per_octave: int) -> float:
    """Give where a value of at least 1 lies among the nodes: whole numbers, then `per_octave` a doubling."""
    if value < per_octave:
        return value - 1.0
    mantissa, exponent = math.frexp(value)
    octave = exponent - per_octave.bit_length()
    return per_octave - 1.0 + per_octave * octave + (2.0 * mantissa - 1.0) * per_octave


def _node(index: int, per_octave: int) -> int:
    if index < per_octave - 1:
        return index + 1
    octave, step = divmod(index - (per_octave - 1), per_octave)
    return (per_octave + step) << octave


def _around(value: float, per_octave: int) -> tuple[int, int, float]:
    """Give the nodes around a value and its share of the way between them."""
    position = _position(max(1.0, value), per_octave)
    index = int(position)
    return _node(index, per_octave), _node(index + 1, per_octave), position - index


def _nearest(value: float, per_octave: int) -> int:
    return _node(round(_position(max(1.0, value), per_octave)), per_octave)


def _node_at_or_above(value: int, per_octave: int) -> int:
    return _node(math.ceil(_position(float(value), per_octave)), per_octave)


def _nodes_up_to(longest: int, per_octave: int) -> list[int]:
    last = round(_position(float(longest), per_octave))
    return [_node(index, per_octave) for index in range(last + 1)]
