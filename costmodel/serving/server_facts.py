"""What a server really ran: from its own information, its log, or its launch arguments."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from costmodel.sglang.vllm import NAMES

FIELDS = (
    "attention_backend",
    "prefill_attention_backend",
    "decode_attention_backend",
    "page_size",
    "kv_cache_dtype",
    "tp_size",
    "chunked_prefill_size",
    "max_running_requests",
    "disable_cuda_graph",
    "enable_mixed_chunk",
)
COUNTS = frozenset({"page_size", "tp_size", "max_running_requests"})
SWITCHES = frozenset({"disable_cuda_graph", "enable_mixed_chunk"})
NOTHING = frozenset({"none", "null", ""})
KV_NAMES = {"bfloat16": "bf16", "float16": "fp16", "fp8": "fp8_e4m3"}
_ARGUMENT = re.compile(r"['\"]?(\w+)['\"]?\s*[=:]\s*('[^']*'|\"[^\"]*\"|[\w.\-]+)")
_HYBRID = re.compile(r"decode_backend=(\w+),\s*prefill_backend=(\w+)")
_DEFAULTED = re.compile(r"[Aa]ttention backend not (?:explicitly )?specified\. Use (\w+) backend by default")
_VLLM = re.compile(r"Using (?:AttentionBackendEnum\.)?([A-Z][A-Z0-9_]+) attention backend")
_VLLM_FA = re.compile(r"Using FlashAttention version (\d)|flash_attn_version[=: ]+(\d)")


@dataclass(frozen=True, slots=True)
class ServerFacts:
    """Settings of a server as it ran; None where nothing tells."""

    source: str
    prefill: str | None = None
    decode: str | None = None
    page_size: int | None = None
    kv_cache_dtype: str | None = None
    tp: int | None = None
    chunked_prefill_size: int | None = None
    max_running_requests: int | None = None
    cuda_graph: bool | None = None
    mixed_chunk: bool | None = None


def facts_of_info(info: object) -> ServerFacts | None:
    """Read what SGLang's `/server_info` said; None without it."""
    if not isinstance(info, Mapping):
        return None
    found = {name: str(info[name]) for name in FIELDS if info.get(name) is not None}
    return _facts(found, "server_info of the result") if found else None


def facts_of_log(lines: Iterable[str]) -> ServerFacts | None:
    """Read a server's log, SGLang's or vLLM's; later lines win. None if nothing in it names a backend or setting."""
    found: dict[str, str] = {}
    vllm: str | None = None
    version: str | None = None
    for line in lines:
        if "server_args=" in line or "ServerArgs(" in line:
            values = ((name, value.strip("'\"")) for name, value in _ARGUMENT.findall(line))
            found |= {name: value for name, value in values if name in FIELDS}
        if (hybrid := _HYBRID.search(line)) is not None:
            found |= {"decode_attention_backend": hybrid[1], "prefill_attention_backend": hybrid[2]}
        if (default := _DEFAULTED.search(line)) is not None:
            found["attention_backend"] = default[1]
        if (backend := _VLLM.search(line)) is not None:
            vllm = backend[1]
        if (flash := _VLLM_FA.search(line)) is not None:
            version = flash[1] or flash[2]
    if vllm is not None:
        name = sglang_name(vllm, version)
        found |= {"attention_backend": name} if name else {}
    return _facts(found, "the server's log") if found else None


def facts_of_arguments(arguments: Iterable[str]) -> ServerFacts | None:
    """Read launch arguments such as `--attention-backend fa3`; None if none of them says anything.

    Raises:
        ValueError: An argument lacks its value, or a count is no whole number above 0.
    """
    found: dict[str, str] = {}
    words = list(arguments)
    for i, word in enumerate(words):
        name, equals, value = word.removeprefix("--").partition("=")
        name = {"tp": "tp_size", "tensor_parallel_size": "tp_size"}.get(name.replace("-", "_"), name.replace("-", "_"))
        if not word.startswith("--") or name not in FIELDS:
            continue
        if not equals:
            value = words[i + 1] if i + 1 < len(words) and not words[i + 1].startswith("--") else "True"
            if value == "True" and name not in SWITCHES:
                raise ValueError(f"the server's argument {word} lacks its value")
        if name in COUNTS and _count(value) is None:
            raise ValueError(f"the server's argument {word}: {value!r} is no whole number above 0")
        found[name] = value
    if found.get("attention_backend", "").isupper():
        found["attention_backend"] = sglang_name(found["attention_backend"], None) or ""
    return _facts(found, "the launch arguments") if found else None


def sglang_name(vllm: str, flash_version: str | None) -> str | None:
    """Give SGLang's name for the kernels behind a vLLM backend; FlashAttention without a version is taken as 3."""
    for name, known in NAMES.items():
        if vllm in (known.dense, known.latent):
            if name == "fa3" and flash_version == "4":
                return "fa4"
            return name
    return None


def _facts(found: Mapping[str, str], source: str) -> ServerFacts:
    values = {name: value for name, value in found.items() if value.lower() not in NOTHING}
    base = values.get("attention_backend")
    graph, mixed = values.get("disable_cuda_graph"), values.get("enable_mixed_chunk")
    kv = values.get("kv_cache_dtype")
    return ServerFacts(
        source=source,
        prefill=values.get("prefill_attention_backend", base),
        decode=values.get("decode_attention_backend", base),
        page_size=_whole(values, "page_size"),
        kv_cache_dtype=None if kv is None else KV_NAMES.get(kv, kv),
        tp=_whole(values, "tp_size"),
        chunked_prefill_size=_whole(values, "chunked_prefill_size"),
        max_running_requests=_whole(values, "max_running_requests"),
        cuda_graph=None if graph is None else graph.lower() != "true",
        mixed_chunk=None if mixed is None else mixed.lower() == "true",
    )


def _whole(values: Mapping[str, Any], name: str) -> int | None:
    return _count(str(values.get(name, "")))


def _count(value: str) -> int | None:
    return int(value) if value.isdecimal() and int(value) > 0 else None
