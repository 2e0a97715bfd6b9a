"""The cost model: what attention costs on a device, per backend, as pure functions over values."""

from costmodel.attention import Attention
from costmodel.batch import Batch, Phase
from costmodel.batch_spec import parse_batch_spec
from costmodel.emulators import implementation_of
from costmodel.errors import ConfigError, Incompatible, UnknownBackend
from costmodel.layer_group import LayerGroup, Model
from costmodel.mla_form import form_for, served_form
from costmodel.models import group_per_rank, load_model, per_rank
from costmodel.predict import predict
from costmodel.prediction import Bound, Evidence, Knobs, KnobValue, Prediction, Ranked
from costmodel.ranking import rank, rank_as_served
from costmodel.record import Record
from costmodel.sglang import (
    LaunchChoice,
    LaunchPlan,
    LaunchRefused,
    SglangDecision,
    sglang_launch,
    sglang_resolve,
    vllm_launch,
)

__all__ = [
    "Attention",
    "Batch",
    "Bound",
    "ConfigError",
    "Evidence",
    "Incompatible",
    "KnobValue",
    "Knobs",
    "LaunchChoice",
    "LaunchPlan",
    "LaunchRefused",
    "LayerGroup",
    "Model",
    "Phase",
    "Prediction",
    "Ranked",
    "Record",
    "SglangDecision",
    "UnknownBackend",
    "form_for",
    "group_per_rank",
    "implementation_of",
    "load_model",
    "parse_batch_spec",
    "per_rank",
    "predict",
    "rank",
    "rank_as_served",
    "served_form",
    "sglang_launch",
    "sglang_resolve",
    "vllm_launch",
]
