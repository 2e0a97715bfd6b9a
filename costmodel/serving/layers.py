"""Attention of all layers of one step, from the cost model or from what was measured for the same call."""

from collections.abc import Mapping
from dataclasses import replace

from costmodel.attention import Attention
from costmodel.batch import Batch
from costmodel.calibration import HALF_WIDTH
from costmodel.layer_group import LayerGroup
from costmodel.mla_form import form_for
from costmodel.predict import predict
from costmodel.prediction import Evidence
from costmodel.serving.calibrated import sustained_factor
from costmodel.serving.deployment import PREFILL_KERNELS, Deployment
from costmodel.serving.kernels import Time
from costmodel.serving.served_attention import as_served, is_block_sparse, selecting_seconds, with_entries
from costmodel.workload import workload_key

ORDER: tuple[Evidence, ...] = ("measured", "calibrated", "others", "structure")
"""Evidence from the strongest to the weakest."""


def measured_key(backend: str, attention: Attention, batch: Batch) -> str:
    """Key of a measured call with the backend's default knobs."""
    return f"{backend}:{workload_key(attention, replace(batch, layers=1))}"


class LayerTimes:
    """Attention over the layer groups of one deployment."""

    def __init__(self, deployment: Deployment, measured: Mapping[str, float]) -> None:
        self._deployment = deployment
        self._groups = deployment.groups
        self._measured = measured

    def of(self, batch: Batch) -> tuple[Time, Time]:
        """Give the plan and the attention of all layers.

        Raises:
            Incompatible: The phase's backend cannot run a layer group.
        """
        plan = 0.0
        evidence: Evidence = "measured"
        seconds = low = high = 0.0
        for group in self._groups:
            once, call = self._call(group, batch)
            plan = max(plan, once)
            seconds += group.layers * call.seconds
            low += group.layers * call.low
            high += group.layers * call.high
            evidence = max(evidence, call.evidence, key=ORDER.index)
        half = HALF_WIDTH["others"]
        return Time(plan, plan / (1 + half), plan * (1 + half), "others"), Time(seconds, low, high, evidence)

    def _call(self, group: LayerGroup, batch: Batch) -> tuple[float, Time]:
        decode = batch.phase == "decode"
        prefill = self._deployment.prefill
        backend = self._deployment.decode if decode else PREFILL_KERNELS.get(prefill, prefill)
        form = form_for(as_served(group, decode, max(batch.kv_lens)), batch.phase)
        profile = self._deployment.profile
        p = predict(form, with_entries(group, batch), backend=backend, profile=profile)
        if is_block_sparse(group.attention):
            seconds = p.seconds + selecting_seconds(group, batch, profile.require("memory_bytes_per_s"))
            half = HALF_WIDTH["structure"]
            return p.plan_seconds, Time(seconds, seconds / (1 + half), seconds * (1 + half), "structure")
        found = self._measured.get(measured_key(backend, form, batch))
        half = HALF_WIDTH["measured"]
        burst = Time(p.seconds, p.low, p.high, p.evidence)
        if found is not None:
            burst = Time(found, found / (1 + half), found * (1 + half), "measured")
        return p.plan_seconds, burst.times(sustained_factor(profile.id, backend, batch.phase, burst.seconds))
