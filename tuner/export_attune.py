"""Export in the schema of SGLang's proposed pre-flight tuner (attune/1, sgl-project/sglang pull request 32961)."""

import hashlib
import json
from typing import Any

from costmodel import Attention
from tuner.configuration import Configuration
from tuner.filename import slug
from tuner.row import Choice, Row

SCHEMA = "attune/1"
_DTYPES = {"bf16": "bfloat16", "fp16": "float16", "fp32": "float32"}


def attune_document(configuration: Configuration, *, max_sm_clock_mhz: int | None = None) -> dict[str, Any]:
    """Reduce a configuration to `batch:ctx` and `batch:seq` cells, winners reachable by SGLang's flags.

    Ragged batches and chunks over a cached prefix have no cell in that schema and are left out; so are rows without
    a measurement.
    """
    attention, device = configuration.to_attention(), configuration.device
    hardware = {
        "name": device.name,
        "sm": _sm(device.cc),
        "cuda": configuration.provenance.cuda,
        "driver": device.driver,
        "max_sm_clock_mhz": max_sm_clock_mhz,
    }
    profile = _profile(attention, configuration.provenance.tensor_parallel)
    decode = {
        r.key: _cell(r.best_sglang, configuration.page_size) for r in _even(configuration.decode) if r.best_sglang
    }
    prefill = {
        f"{r.batch_size}:{r.q_len}": _cell(r.best_sglang)
        for r in _even(configuration.extend)
        if r.best_sglang and r.q_len == r.kv_len
    }
    blob = json.dumps({"schema": SCHEMA, "hw": hardware, "profile": profile}, sort_keys=True)
    return {
        "schema_version": SCHEMA,
        "fingerprint": hashlib.sha256(blob.encode()).hexdigest()[:16],
        "device": hardware,
        "profile": profile,
        "provenance": {
            "tool": configuration.provenance.tool,
            "measured_at": configuration.provenance.created,
            "command": configuration.provenance.command,
            "implementations": {k: " ".join(v) for k, v in configuration.provenance.implementations.items()},
        },
        "decode": decode,
        "prefill": prefill,
        "skipped": _skipped(configuration),
    }


def attune_file_name(configuration: Configuration) -> str:
    """The name that schema gives its files."""
    profile = _profile(configuration.to_attention(), configuration.provenance.tensor_parallel)
    fields = {"device_name": slug(configuration.device.name), "sm": _sm(configuration.device.cc), **profile}
    return "attn," + ",".join(f"{name}={value}" for name, value in fields.items()) + ".json"


def _even(table: dict[str, Row]) -> list[Row]:
    return [r for r in table.values() if not r.ragged and r.best_sglang is not None and r.best_sglang.measured_us]


def _cell(choice: Choice | None, page_size: int | None = None) -> dict[str, Any]:
    assert choice is not None
    page = {} if page_size is None else {"page_size": page_size}
    return {"backend": choice.backend, **page, "latency_us": choice.measured_us}


def _profile(attention: Attention, tensor_parallel: int) -> dict[str, Any]:
    """Heads after TP; the schema knows the families mha, gqa and mla only."""
    family = attention.family
    return {
        "family": "gqa" if family == "mqa" else "mla" if attention.is_latent else family,
        "qo": attention.num_qo_heads,
        "kv": attention.num_kv_heads,
        "hd": attention.head_dim,
        "dtype": _DTYPES.get(attention.dtype, attention.dtype),
        "kv_dtype": "auto" if attention.kv_dtype == attention.dtype else attention.kv_dtype,
        "tp": tensor_parallel,
        "ep": 1,
        "dp": 1,
    }


def _skipped(configuration: Configuration) -> dict[str, str]:
    skipped: dict[str, str] = {}
    for row in configuration.rows:
        for name, reason in row.failures.items():
            backend = name.partition("[")[0]
            skipped.setdefault(backend, reason)
    winners = {row.best_sglang.backend for row in configuration.rows if row.best_sglang}
    return {backend: reason for backend, reason in skipped.items() if backend not in winners}


def _sm(cc: str | None) -> int | None:
    return None if cc is None else int(cc.replace(".", ""))
