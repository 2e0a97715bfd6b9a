"""What SGLang itself does with a launch line, and launch lines that it and vLLM accept."""

from costmodel.sglang.decision import Change, SglangDecision
from costmodel.sglang.launch import LaunchChoice, LaunchPlan, LaunchRefused, sglang_launch
from costmodel.sglang.own_rules import warnings_on
from costmodel.sglang.preference import WORKLOAD, Preference, preferred, without_attention_flags
from costmodel.sglang.resolve import sglang_resolve
from costmodel.sglang.tables import latest_version, nearest_version, sglang_aliases, supported_versions
from costmodel.sglang.vllm import vllm_launch

__all__ = [
    "WORKLOAD",
    "Change",
    "LaunchChoice",
    "LaunchPlan",
    "LaunchRefused",
    "Preference",
    "SglangDecision",
    "latest_version",
    "nearest_version",
    "preferred",
    "sglang_aliases",
    "sglang_launch",
    "sglang_resolve",
    "supported_versions",
    "vllm_launch",
    "warnings_on",
    "without_attention_flags",
]
