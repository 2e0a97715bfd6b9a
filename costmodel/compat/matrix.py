"""The table in docs/backends.md: `python -m costmodel.compat.matrix > docs/backends.md`."""

import sys
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

from costmodel.compat.device import describe
from costmodel.compat.facts import Options
from costmodel.compat.judge import Judgement, judge
from costmodel.compat.tables import BackendTable, load_tables
from costmodel.layer_group import Model
from costmodel.models import read_model
from hwprofiles import Profile, list_profiles, load_profile

MARKS = {"compatible": "✓", "rewritten": "~", "unknown": "?", "incompatible": "✗"}
WORST = ("compatible", "rewritten", "unknown", "incompatible")

PLAIN: dict[str, Any] = {
    "model_type": "llama", "architectures": ["LlamaForCausalLM"], "torch_dtype": "bfloat16", "hidden_size": 4096,
    "num_hidden_layers": 1, "num_attention_heads": 32, "num_key_value_heads": 8, "head_dim": 128,
}  # fmt: skip
LATENT = {
    **PLAIN, "model_type": "deepseek_v3", "architectures": ["DeepseekV3ForCausalLM"], "num_attention_heads": 16,
    "kv_lora_rank": 512, "qk_rope_head_dim": 64, "qk_nope_head_dim": 128, "v_head_dim": 128,
}  # fmt: skip
SPARSE = {
    **LATENT, "model_type": "deepseek_v32", "architectures": ["DeepseekV32ForCausalLM"],
    "index_topk": 2048, "index_n_heads": 64, "index_head_dim": 128,
}  # fmt: skip
COMPRESSED = {
    **PLAIN, "model_type": "deepseek_v4", "architectures": ["DeepseekV4ForCausalLM"], "num_attention_heads": 64,
    "num_key_value_heads": 1, "head_dim": 512, "qk_rope_head_dim": 64, "sliding_window": 128, "index_topk": 512,
    "index_n_heads": 64, "index_head_dim": 128, "compress_ratios": [4], "max_position_embeddings": 1048576,
}  # fmt: skip
BLOCKS = {**PLAIN, "model_type": "minicpm", "num_key_value_heads": 2, "sparse_config": {"topk": 64, "block_size": 64}}
QWEN = {**PLAIN, "model_type": "qwen4_exp", "num_key_value_heads": 1, "head_dim": 256}
KINDS = {"G": (PLAIN,), "M": (LATENT,), "S": (SPARSE, COMPRESSED, BLOCKS)}
"""Letters of the table: grouped heads, MLA latent, models that attend to selected tokens."""

HOMES = {
    "flashmla": "h200", "hpc_ops": "h200", "fa3": "h200", "trtllm_mha": "b200", "trtllm_mla": "b200", "fa4": "h200",
    "cutedsl_mla": "b200", "aiter": "mi300x", "wave": "mi300x", "ascend": "huawei-ascend-910b2", "dsa": "h200",
    "intel_amx": "intel-xeon-platinum-8480plus", "intel_xpu": "intel-arc-pro-b60", "tokenspeed_mla": "b200",
}  # fmt: skip
"""A device that each backend is at home on; h200 for those not named."""

Variant = tuple[str, dict[str, Any], dict[str, Any]]
VARIANTS: tuple[Variant, ...] = (
    ("head dim 64", {"head_dim": 64}, {}),
    ("80", {"head_dim": 80}, {}),
    ("256", {"head_dim": 256}, {}),
    ("512", {"head_dim": 512}, {}),
    ("K 192, V 128", {"head_dim": 192, "v_head_dim": 128}, {}),
    ("window", {"model_type": "mistral", "sliding_window": 4096}, {}),
    ("sinks", {"learnable_sink": True}, {}),
    ("soft-cap", {"attn_logit_softcapping": 50.0}, {}),
    ("fp8_e4m3 KV", {}, {"kv_cache_dtype": "fp8_e4m3"}),
    ("fp8_e5m2 KV", {}, {"kv_cache_dtype": "fp8_e5m2"}),
    ("page 1", {}, {"page_size": 1}),
    ("page 64", {}, {"page_size": 64}),
    ("topk 1", {}, {"spec_topk": 1}),
    ("topk 4", {}, {"spec_topk": 4}),
    ("deterministic", {}, {"deterministic": True}),
)


@cache
def matrix_markdown() -> str:
    """Give docs/backends.md: 24 names by device and kind of attention, then by what a model or server asks for."""
    version = load_tables().version
    columns = _columns()
    cells = {target: _kinds_on(profiles[0]) for target, profiles in columns.items()}
    parts = [
        "# Where SGLang's attention backends run",
        "",
        "Generated from `costmodel/compat/data` by `python -m costmodel.compat.matrix > docs/backends.md`; a test",
        f"keeps it current. The rules were read from SGLang {version}. `attnroof backends --why NAME` gives the",
        "reasons for a model, a device and serving options of your own.",
        "",
        "## By device",
        "",
        "What runs in prefill and decode: **G** grouped KV heads (32/8 heads of 128), **M** the MLA latent",
        "(DeepSeek-V3, 16 heads a rank), **S** a model that attends to selected tokens (DeepSeek-V3.2,",
        "DeepSeek-V4, MiniCPM with a sparse_config, Qwen sparse attention). A small letter: one of the two phases",
        "only. `~`: SGLang changes a setting (page size, CUDA graphs, radix cache, name). `?`: no evidence either",
        "way. `-`: does not run.",
        "",
        *_table(list(columns), lambda name, target: cells[target][name]),
        "",
        "## By what a model or a server asks for",
        "",
        "On a device that the backend is at home on, MLA and sparse backends with their own kind of model; the",
        "worse of prefill and decode (and verification, for topk). ✓ runs, ~ after a change, ? not known,",
        "✗ does not run.",
        "",
        *_table([title for title, _, _ in VARIANTS], _variant_mark),
        "",
        "## Devices by column",
        "",
        *(f"- `{target}`: {', '.join(p.name for p in profiles)}" for target, profiles in columns.items()),
        "",
        "## What runs behind the names",
        "",
        *(f"- `{name}`{_alias(table)}: {table.what}" for name, table in load_tables().backends.items()),
    ]
    return "\n".join(parts) + "\n"


def _alias(table: BackendTable) -> str:
    return f" (old name of `{table.alias.target}`)" if table.alias else ""


def _kinds_on(profile: Profile) -> dict[str, str]:
    """The cell of each name on one device."""
    cells: dict[str, list[str]] = {}
    for letter, configs in KINDS.items():
        judgements = [judge(read_model(config, name=letter), profile) for config in configs]
        for name in load_tables().backends:
            found = [_letter(judgement, name, letter) for judgement in judgements]
            cells.setdefault(name, []).append(max(found, key=lambda mark: (bool(mark), "?" not in mark)))
    qwen = judge(read_model(QWEN, name="S"), profile, names={"qsa"})
    cells["qsa"].append(_letter(qwen, "qsa", "S"))
    return {name: " ".join(mark for mark in marks if mark) or "-" for name, marks in cells.items()}


def _letter(judgement: Judgement, name: str, letter: str) -> str:
    extend, decode = (_mark(judgement, name, (phase,)) for phase in ("extend", "decode"))
    runs = [mark for mark in (extend, decode) if mark in "✓~"]
    if not runs:
        unknown = (extend, decode).count("?")
        return f"{letter if unknown == 2 else letter.lower()}?" if unknown else ""
    return (letter if len(runs) == 2 else letter.lower()) + ("~" if "~" in runs else "")


def _columns() -> dict[str, list[Profile]]:
    columns: dict[str, list[Profile]] = {}
    for profile in list_profiles(shipped_only=True):
        device = describe(profile)
        columns.setdefault(f"CPU {device.arch}" if device.platform == "cpu" else device.arch, []).append(profile)
    order = ("sm_", "gfx", "dav", "xe", "gaudi", "CPU")
    return dict(sorted(columns.items(), key=lambda item: (_rank(item[0], order), len(item[0]), item[0])))


def _rank(target: str, order: Sequence[str]) -> int:
    return next((i for i, prefix in enumerate(order) if target.startswith(prefix)), len(order))


def _table(columns: Sequence[str], cell: Callable[[str, str], str]) -> list[str]:
    lines = ["| backend | " + " | ".join(columns) + " |", "|---|" + ":-:|" * len(columns)]
    for name in load_tables().backends:
        lines.append(f"| `{name}` | " + " | ".join(cell(name, column) for column in columns) + " |")
    return lines


def _mark(judgement: Judgement, name: str, phases: Sequence[str] = ("extend", "decode")) -> str:
    verdicts = [row.verdict for row in judgement.rows if row.backend == name and row.phase in phases]
    return MARKS[max(verdicts, key=WORST.index)]


def _variant_mark(name: str, column: str) -> str:
    _, changes, options = next(variant for variant in VARIANTS if variant[0] == column)
    base = SPARSE if name in ("dsa", "nsa") else LATENT if name.endswith("mla") else PLAIN
    if name in ("qsa", "dsv4", "compressed", "minicpm_flashattn", "minicpm_flashinfer"):
        return ""
    if base is not PLAIN and {"head_dim", "v_head_dim"} & set(changes):
        return ""
    model: Model = read_model({**base, **changes}, name=name)
    judgement = judge(model, load_profile(HOMES.get(name, "h200")), Options(**options), names={name})
    phases = ("extend", "decode", "verify") if "spec_topk" in options else ("extend", "decode")
    return _mark(judgement, name, phases)


if __name__ == "__main__":
    sys.stdout.write(matrix_markdown())
