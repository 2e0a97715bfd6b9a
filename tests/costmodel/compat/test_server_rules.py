"""The server's verdicts by what has to be covered: devices, dtypes, masks, modes and kinds of models."""

import pytest
from judging import RUNS, judged, made, published, reasons, rows, running, verdict

from costmodel.compat import Options

PLAIN = made()
MLA = published("DeepSeek-V3")
SOFT_CAPPED = made(model_type="gemma2", architectures=["Gemma2ForCausalLM"], head_dim=256, sliding_window=4096)
MLLAMA = made(
    model_type="mllama_text_model", architectures=["MllamaForConditionalGeneration"], cross_attention_layers=[1]
)

OWN_VENDOR = [
    ("mi300x", {"triton", "aiter"}),
    ("ascend_910b2", {"ascend"}),
    ("arc_pro_b60", {"triton", "intel_xpu", "torch_native"}),
    ("intel-xeon-platinum-8480plus", {"intel_amx", "torch_native"}),
    ("nvidia-a10", {"fa3", "flashinfer", "triton"}),
    ("nvidia-jetson-thor-t5000", {"flashinfer", "triton", "fa4"}),
]


@pytest.mark.parametrize(("gpu", "names"), OWN_VENDOR)
def test_each_vendor_has_its_backends(gpu: str, names: set[str]) -> None:
    assert names <= running(judged(PLAIN, gpu))


@pytest.mark.parametrize("gpu", ["mi300x", "arc_pro_b60", "ascend_910b2", "intel-xeon-platinum-8480plus"])
def test_nvidia_kernels_run_nowhere_else(gpu: str) -> None:
    names = {"fa3", "fa4", "flashinfer", "flashmla", "trtllm_mha", "trtllm_mla", "cutedsl_mla", "hpc_ops"}
    assert names.isdisjoint(running(judged(PLAIN, gpu)) | running(judged(MLA, gpu, tp=8)))


def test_a_cpu_without_amx_falls_back() -> None:
    judgement = judged(PLAIN, "nvidia-grace-72c")
    assert verdict(judgement, "intel_amx") == "rewritten"
    assert rows(judgement, "intel_amx")[0].settings["backend"] == "torch_native"


def test_volta_is_below_what_sglang_starts_on() -> None:
    assert running(judged(PLAIN, "nvidia-v100-sxm2-32gb")) == set()


def test_an_old_cuda_rules_blackwell_kernels_out() -> None:
    assert verdict(judged(MLA, "b200", cuda=12.4), "trtllm_mla") == "incompatible"
    assert "12.8" in reasons(judged(MLA, "b200", cuda=12.4), "trtllm_mla")
    assert verdict(judged(MLA, "b200", cuda=12.8), "trtllm_mla") == "compatible"


def test_packages_are_checked_where_they_are_known() -> None:
    old = judged(PLAIN, "h200", packages={"flashinfer-python": "0.6.1", "sglang-kernel": "0.4.10"})
    assert "flashinfer_python 0.6.1 is older than 0.7.2" in reasons(old, "flashinfer")
    assert verdict(old, "fa3") == "compatible"
    assert "flash-attn-4 is not installed" in reasons(old, "fa4")


@pytest.mark.parametrize(
    ("backend", "gpu", "expected"),
    [
        ("flashinfer", "h200", "compatible"),
        ("triton", "h200", "compatible"),
        ("fa3", "h200", "compatible"),
        ("trtllm_mha", "b200", "incompatible"),
        ("torch_native", "h200", "incompatible"),
        ("flex_attention", "h200", "incompatible"),
    ],
)
def test_soft_caps_that_would_be_ignored_are_errors(backend: str, gpu: str, expected: str) -> None:
    judgement = judged(SOFT_CAPPED, gpu)
    assert verdict(judgement, backend) == expected
    assert expected == "compatible" or "soft-cap" in reasons(judgement, backend)


def test_ignored_windows_are_errors() -> None:
    windowed = made(model_type="mistral", sliding_window=4096)
    assert "window is ignored" in reasons(judged(windowed, "h200"), "flex_attention")
    assert "window is ignored" in reasons(judged(windowed, "mi300x"), "wave")


@pytest.mark.parametrize(
    ("backend", "kv", "gpu", "phases"),
    [
        ("flashinfer", "fp8_e5m2", "h200", {"extend", "decode"}),
        ("triton", "fp8_e5m2", "h200", {"extend", "decode"}),
        ("fa3", "fp8_e4m3", "h200", {"extend", "decode"}),
        ("fa3", "fp8_e4m3", "a100", set()),
        ("trtllm_mha", "fp8_e4m3", "rtx_pro_6000", {"decode"}),
        ("trtllm_mha", "nvfp4", "b200", {"extend", "decode"}),
        ("trtllm_mha", "nvfp4", "rtx_pro_6000", {"decode"}),
        ("trtllm_mha", "nvfp4", "h200", set()),
        ("flashinfer", "nvfp4", "rtx_pro_6000", {"extend"}),
        ("triton", "nvfp4", "b200", set()),
        ("fa4", "fp8_e4m3", "b200", set()),
        ("fa4", "fp8_e4m3", "h200", set()),
    ],
)
def test_kv_dtypes_by_phase(backend: str, kv: str, gpu: str, phases: set[str]) -> None:
    judgement = judged(PLAIN, gpu, kv_cache_dtype=kv)
    assert {phase for phase in ("extend", "decode") if verdict(judgement, backend, phase) in RUNS} == phases


@pytest.mark.parametrize(
    ("head_dim", "names"),
    [
        (64, {"fa3", "fa4", "flashinfer", "triton", "trtllm_mha"}),
        (80, {"fa3", "fa4", "triton"}),
        (256, {"fa3", "fa4", "flashinfer", "triton", "trtllm_mha"}),
        (512, {"fa4", "flashinfer", "triton"}),
    ],
)
def test_head_dims_on_hopper(head_dim: int, names: set[str]) -> None:
    found = running(judged(made(head_dim=head_dim), "h200"))
    assert found - {"torch_native", "flex_attention", "hpc_ops"} == names


def test_a_head_dim_without_a_record_is_unknown() -> None:
    assert verdict(judged(made(head_dim=80), "b200"), "trtllm_mha") == "unknown"


def test_group_sizes() -> None:
    assert verdict(judged(PLAIN, "h200"), "hpc_ops") == "compatible"
    assert "2 query heads per KV head" in reasons(judged(made(num_key_value_heads=16), "h200"), "hpc_ops")


def test_tensor_parallelism_changes_what_fits() -> None:
    assert verdict(judged(MLA, "mi300x", tp=1), "aiter") == "compatible"
    assert verdict(judged(published("Kimi-K3"), "mi300x", tp=4), "aiter") == "incompatible"
    with pytest.raises(ValueError, match="num_attention_heads=32"):
        judged(PLAIN, "h200", tp=64)


def test_deterministic_mode() -> None:
    judgement = judged(PLAIN, "h200", deterministic=True)
    assert running(judgement) == {"fa3", "fa4", "flashinfer", "triton"}
    assert rows(judgement, "flashinfer")[0].settings == {"radix_cache": "off"}
    assert verdict(judged(MLA, "h200", deterministic=True), "flashinfer") == "incompatible"
    assert running(judged(MLA, "b200", deterministic=True)) == {"fa4", "triton"}


def test_cross_attention() -> None:
    judgement = judged(MLLAMA, "h200")
    assert {"fa3", "flashinfer"} <= running(judgement)
    assert "cross attention" in reasons(judgement, "triton")
    assert "cross attention" in reasons(judgement, "flex_attention")


def test_hybrids_on_blackwell_have_a_list() -> None:
    on_100 = judged("Qwen3.5-397B-A17B", "b200")
    assert {"triton", "trtllm_mha", "flashinfer"} <= running(on_100)
    assert "gated delta" in reasons(on_100, "torch_native")
    assert "fa4" not in running(judged("Qwen3.5-397B-A17B", "rtx_pro_6000"))
    assert running(judged("Qwen3.5-397B-A17B", "intel-xeon-platinum-8480plus")) == set()


def test_families_with_a_list_of_their_own() -> None:
    assert verdict(judged("Llama-4-Scout-17B-16E", "h200"), "flashinfer") == "incompatible"
    assert verdict(judged("Llama-4-Scout-17B-16E", "h200"), "fa3") == "compatible"
    assert verdict(judged("gemma-4-26B-A4B", "b200"), "trtllm_mha") == "compatible"


def test_mxfp4_gpt_oss_needs_gfx950() -> None:
    assert running(judged("gpt-oss-20b", "mi300x")) == set()
    assert "aiter" in running(judged("gpt-oss-20b", "mi355x"))


def test_block_sparse_layers_run_on_kernels_of_their_own() -> None:
    judgement = judged("MiniMax-M3", "h200", tp=4)
    assert "fa3" in running(judgement)
    assert any("MiniMax sparse kernels" in note for row in rows(judgement, "fa3") for note in row.notes)
    assert verdict(judged("MiniMax-M3", "a100", tp=4), "triton") == "unknown"


def test_sparse_mla_defaults_to_an_fp8_cache_on_blackwell() -> None:
    glm = judged("GLM-5", "rtx_pro_6000", tp=8)
    assert running(glm) == {"dsa", "nsa"}
    assert verdict(judged("GLM-5", "rtx_pro_6000", tp=8, kv_cache_dtype="bf16"), "dsa") == "unknown"


def test_large_batches_need_a_larger_flashinfer_workspace() -> None:
    wide = made(num_attention_heads=64, num_key_value_heads=8, head_dim=128)
    assert verdict(judged(wide, "h200", max_requests=256), "flashinfer") == "compatible"
    assert "SGLANG_FLASHINFER_WORKSPACE_SIZE" in reasons(judged(wide, "h200", max_requests=4096), "flashinfer")


def test_aliases_follow_the_version() -> None:
    now, before = judged(MLA, "b200"), judged(MLA, "b200", sglang="0.5.22")
    aliases = {row.backend: row.alias_of for row in now.rows if row.alias_of}
    assert aliases == {"nsa": "dsa", "compressed": "dsv4", "tokenspeed_mla": "cutedsl_mla"}
    assert {row.backend for row in before.rows if row.alias_of} == {"nsa", "compressed"}
    assert "only; add --kv-cache-dtype fp8_e4m3" in reasons(before, "tokenspeed_mla")
    assert rows(now, "tokenspeed_mla")[0].settings["kv_cache_dtype"] == "fp8_e4m3"


def test_names_beyond_the_documented_ones_follow_the_version() -> None:
    assert "llada2_cfg_flashinfer" in {row.backend for row in judged(PLAIN, "h200").extra}
    assert "llada2_cfg_flashinfer" not in {row.backend for row in judged(PLAIN, "h200", sglang="0.5.20").extra}


def test_a_version_without_tables_is_told() -> None:
    assert any("0.7.0" in warning for warning in judged(PLAIN, "h200", sglang="0.7.0").warnings)
    with pytest.raises(ValueError, match="not a release number"):
        judged(PLAIN, "h200", sglang="newest")


@pytest.mark.parametrize(
    ("field", "value"), [("tp", 0), ("page_size", 0), ("spec_topk", 0), ("max_requests", 0), ("kv_cache_dtype", "int4")]
)
def test_options_are_checked(field: str, value: object) -> None:
    with pytest.raises(ValueError, match=field):
        Options(**{field: value})
