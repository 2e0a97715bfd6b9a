"""What SGLang itself does with a launch line, and launch lines that it accepts."""

from costmodel.sglang.decision import Change, SglangDecision
from costmodel.sglang.resolve import sglang_resolve
from costmodel.sglang.tables import latest_version, sglang_aliases, supported_versions

__all__ = ["Change", "SglangDecision", "latest_version", "sglang_aliases", "sglang_resolve", "supported_versions"]
