"""Public field reports of wrong backends, each with the answer that would have been right.

Named by the public issue or change they come from. Two kinds of reports are not here: the default that SGLang itself
takes (tests/costmodel/sglang), and a fast kernel that is wrong under graph replay (the executors compare outputs).
"""

import pytest
from judging import RUNS, device, judged, made, published, reasons, rows, running, verdict

from costmodel.compat import backend_names, contradiction, judge_pair
from hwprofiles import list_profiles

MADE = made()


@pytest.mark.parametrize("profile", [p for p in list_profiles() if p.compute_capability], ids=lambda p: p.id)
def test_mini_sglang_146_architectures_are_families_not_thresholds(profile) -> None:
    """A test `>= sm_100` once chose data-centre Blackwell kernels on sm_120."""
    families = {
        "fa3": {"8.0", "8.6", "8.7", "8.9", "9.0"},
        "flashmla": {"9.0"},
        "hpc_ops": {"9.0"},
        "cutedsl_mla": {"10.0", "10.3"},
        "trtllm_mla": {"10.0", "10.3"},
        "trtllm_mha": {"9.0", "10.0", "10.3", "12.0", "12.1"},
        "fa4": {"9.0", "10.0", "10.3", "11.0", "12.0", "12.1"},
    }
    for model in (MADE, published("DeepSeek-V3")):
        judgement = judged(model, profile.id)
        for backend, family in families.items():
            if profile.compute_capability not in family:
                assert verdict(judgement, backend) not in RUNS, backend


def test_sglang_28297_facts_that_contradict_the_product_are_told() -> None:
    b300 = device("b300")
    assert contradiction(b300) is None
    told = contradiction(b300.model_copy(update={"compute_capability": "9.0"}))
    assert told is not None
    assert "9.0 contradicts" in told


def test_sglang_28297_fa4_forces_pages_of_128_on_sm_100() -> None:
    judgement = judged(MADE, "b300", page_size=64)
    assert verdict(judgement, "fa4") == "rewritten"
    assert "becomes 128" in reasons(judgement, "fa4")
    assert rows(judgement, "fa4")[0].settings["page_size"] == 128
    assert verdict(judged(MADE, "b300", page_size=128), "fa4") == "compatible"


def test_sglang_12178_fa3_has_no_kernels_for_sm_120() -> None:
    judgement = judged(MADE, "rtx_pro_6000")
    assert verdict(judgement, "fa3") == "incompatible"
    assert "sm_120" in reasons(judgement, "fa3")
    assert {"flashinfer", "triton"} <= set(rows(judgement, "fa3")[0].instead)


@pytest.mark.parametrize("model", ["gpt-oss-20b", "gpt-oss-120b"])
@pytest.mark.parametrize("kv", ["auto", "fp8_e4m3"])
def test_vllm_28561_sinks_are_served_by_trtllm_on_sm_100(model: str, kv: str) -> None:
    judgement = judged(model, "b200", kv_cache_dtype=kv)
    assert verdict(judgement, "trtllm_mha") in RUNS
    assert verdict(judgement, "flashinfer") == "incompatible"
    assert "sinks" in reasons(judgement, "flashinfer")


@pytest.mark.parametrize("gpu", ["a100", "l40s", "nvidia-rtx-4090"])
def test_sglang_23139_sink_models_off_hopper_and_blackwell_need_triton(gpu: str) -> None:
    judgement = judged("gpt-oss-20b", gpu)
    assert verdict(judgement, "triton", "extend") == verdict(judgement, "triton") == "compatible"
    assert verdict(judgement, "flashinfer") == "incompatible"


def test_vllm_40677_each_layer_group_is_judged_for_itself() -> None:
    judgement = judged("gemma-4-26B-A4B", "b200")
    assert [row.verdict for row in rows(judgement, "fa4")] == ["incompatible", "compatible"]
    assert "256" in rows(judgement, "fa4")[0].reasons[0]
    judgement = judged("gemma-4-26B-A4B", "h200")
    assert "512" in reasons(judgement, "fa3")
    assert running(judgement) == {"fa4", "triton"}


def test_flashinfer_1043_mla_goes_to_mla_kernels() -> None:
    judgement = judged("DeepSeek-V3", "b200")
    assert verdict(judgement, "trtllm_mha") == "incompatible"
    assert "576/512 latent" in reasons(judgement, "trtllm_mha")
    assert verdict(judgement, "flashinfer") == "compatible"


def test_sglang_18550_fa3_and_fp8_e5m2_do_not_go_together() -> None:
    judgement = judged(MADE, "h100", kv_cache_dtype="fp8_e5m2")
    assert verdict(judgement, "fa3") == "incompatible"
    assert "--kv-cache-dtype fp8_e4m3" in reasons(judgement, "fa3")
    assert judge_pair(MADE, device("h100"), "fa3", "triton", judged_options("fp8_e5m2")).reasons


def judged_options(kv: str):
    from costmodel.compat import Options

    return Options(kv_cache_dtype=kv)


MLA = published("DeepSeek-V3")
PAGES = (
    [("flashmla", MLA, "h200", page, page == 64) for page in (1, 16, 32, 64, 128)]
    + [("trtllm_mla", MLA, "b200", page, page in (32, 64)) for page in (1, 16, 32, 64, 128)]
    + [("cutedsl_mla", MLA, "b200", page, page in (32, 64)) for page in (1, 32, 64, 128)]
    + [("trtllm_mha", MADE, "b200", page, page in (16, 32, 64, 128)) for page in (1, 8, 16, 32, 64, 128, 256)]
    + [("fa4", MADE, "b200", page, page == 128) for page in (1, 64, 128)]
    + [("fa4", MADE, "h200", page, True) for page in (1, 64)]
    + [("flashinfer", MLA, "b200", page, True) for page in (1, 64)]
    + [("intel_xpu", MADE, "arc_pro_b60", page, page in (64, 128)) for page in (1, 16, 32, 64, 128)]
)


@pytest.mark.parametrize(("backend", "model", "gpu", "page", "kept"), PAGES)
def test_page_sizes_are_kept_or_the_rewrite_is_told(backend, model, gpu, page, kept) -> None:
    judgement = judged(model, gpu, page_size=page)
    assert verdict(judgement, backend) == ("compatible" if kept else "rewritten")
    settings = rows(judgement, backend)[0].settings
    assert settings.get("page_size", page) == page if kept else settings["page_size"] != page
    assert kept or f"page size {page} becomes" in reasons(judgement, backend)


SWA = made(model_type="mistral", sliding_window=4096)
TREES = [
    ("flashinfer", MADE, "h200", 4, 1, True), ("flashinfer", MADE, "h200", 4, 16, True),
    ("flashinfer", MLA, "h200", 1, 1, True), ("flashinfer", MLA, "h200", 4, 1, False),
    ("triton", MADE, "h200", 4, 1, True), ("triton", MADE, "h200", 4, 16, True),
    ("triton", MLA, "h200", 4, 1, True), ("fa3", MADE, "h200", 4, 1, True), ("fa3", MADE, "h200", 4, 16, True),
    ("fa3", SWA, "h200", 4, 16, False), ("fa3", SWA, "h200", 4, 1, True), ("fa3", MLA, "h200", 4, 1, True),
    ("fa4", MADE, "h200", 1, 64, True), ("fa4", MADE, "h200", 4, 1, True), ("fa4", MADE, "h200", 4, 64, False),
    ("flashmla", MLA, "h200", 1, 64, True), ("flashmla", MLA, "h200", 2, 64, False),
    ("trtllm_mha", MADE, "b200", 1, 64, True), ("trtllm_mha", MADE, "b200", 2, 64, False),
    ("trtllm_mla", MLA, "b200", 1, 64, True), ("trtllm_mla", MLA, "b200", 2, 64, False),
    ("cutedsl_mla", MLA, "b200", 1, 64, True), ("cutedsl_mla", MLA, "b200", 2, 64, False),
    ("torch_native", MADE, "h200", 1, 1, False), ("torch_native", MADE, "h200", 4, 1, False),
    ("flex_attention", MADE, "h200", 1, 1, False), ("hpc_ops", MADE, "h200", 1, 64, False),
    ("aiter", MADE, "mi300x", 1, 1, True), ("aiter", MADE, "mi300x", 2, 1, False),
    ("wave", MADE, "mi300x", 1, 1, False), ("dsa", published("GLM-5"), "h200", 1, 64, True),
    ("dsa", published("GLM-5"), "h200", 2, 64, False), ("intel_xpu", MADE, "arc_pro_b60", 1, 64, True),
    ("intel_xpu", MADE, "arc_pro_b60", 2, 64, False), ("ascend", MADE, "ascend_910b2", 1, 128, True),
    ("ascend", MADE, "ascend_910b2", 2, 128, False),
]  # fmt: skip


@pytest.mark.parametrize(("backend", "model", "gpu", "topk", "page", "runs"), TREES)
def test_sglang_5491_speculative_trees_by_backend_kind_and_page(backend, model, gpu, topk, page, runs) -> None:
    judgement = judged(model, gpu, spec_topk=topk, page_size=page)
    assert (verdict(judgement, backend, "verify") in RUNS) is runs


@pytest.mark.parametrize("gpu", ["a100", "l40s", "rtx_pro_6000"])
def test_vllm_31480_sparse_mla_has_no_backend_off_hopper_and_data_centre_blackwell(gpu: str) -> None:
    deepseek = made_v32()
    judgement = judged(deepseek, gpu)
    assert running(judgement) == set()
    assert all(row.reasons for row in judgement.rows)


@pytest.mark.parametrize("gpu", ["h200", "b200"])
def test_vllm_30214_sparse_mla_runs_on_dsa_and_dense_kernels_are_refused(gpu: str) -> None:
    judgement = judged(made_v32(), gpu)
    assert running(judgement) == {"dsa", "nsa"}
    for dense in ("flashmla", "trtllm_mla", "cutlass_mla", "fa3", "flashinfer", "triton"):
        assert verdict(judgement, dense) == "incompatible"
        assert "sparse" in reasons(judgement, dense)


def made_v32():
    return made(
        model_type="deepseek_v32", architectures=["DeepseekV32ForCausalLM"], num_attention_heads=128, hidden_size=7168,
        kv_lora_rank=512, qk_rope_head_dim=64, qk_nope_head_dim=128, v_head_dim=128, index_topk=2048, index_n_heads=64,
        index_head_dim=128,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("heads", "kv_heads", "cores"), [(28, 4, "tensor"), (24, 4, "tensor"), (32, 8, "tensor"), (32, 32, "")]
)
def test_flashinfer_996_group_sizes_choose_the_decode_kernel(heads: int, kv_heads: int, cores: str) -> None:
    model = made(num_attention_heads=heads, num_key_value_heads=kv_heads, head_dim=128)
    (row,) = rows(judged(model, "nvidia-rtx-4090"), "flashinfer")
    assert row.verdict == "compatible"
    assert any("tensor cores" in note for note in row.notes) is bool(cores)


def test_vllm_48495_drafts_are_judged_for_themselves() -> None:
    judgement = judged("gemma-4-26B-A4B", "h100")
    assert verdict(judgement, "flashinfer", "draft") == "incompatible"
    assert running(judgement, "draft") == {"fa4", "triton"}


def test_dual_chunk_models_have_one_backend_and_it_is_gone() -> None:
    judgement = judged(made(dual_chunk_attention_config={"chunk_size": 262144, "local_size": 8192}), "h200")
    assert running(judgement) == set()
    assert "dual_chunk_flash_attn" in reasons(judgement, "flashinfer")
    assert "radix cache and mixed chunks" in reasons(judgement, "dual_chunk_flash_attn")


@pytest.mark.parametrize("backend", ["torch_native", "flex_attention"])
def test_sglang_9947_uncaptured_backends_say_so(backend: str) -> None:
    judgement = judged(MADE, "h200")
    assert verdict(judgement, backend) == "rewritten"
    assert rows(judgement, backend)[0].settings == {"cuda_graph": "off"}
    assert rows(judgement, "fa3")[0].instead == ()


def test_sglang_18571_geometry_never_comes_from_a_linear_first_layer() -> None:
    judgement = judged("Qwen3.5-397B-A17B", "mi300x")
    assert verdict(judgement, "aiter") == "compatible"
    assert "falls back to triton" in reasons(judgement, "aiter", "extend")


def test_mimo_runs_where_unequal_head_dims_do() -> None:
    assert {"fa3", "triton"} <= running(judged("MiMo-V2-Flash", "h200", tp=4))
    on_b200 = judged("MiMo-V2-Flash", "b200", tp=4)
    assert "triton" in running(on_b200)
    assert {"trtllm_mha", "flashinfer", "fa3"}.isdisjoint(running(on_b200))


def test_a_declared_fp8_cache_is_judged_as_fp8() -> None:
    fp8 = made(quantization_config={"quant_method": "modelopt", "kv_cache_quant_algo": "FP8"})
    assert verdict(judged(fp8, "a100"), "fa3") == "incompatible"
    assert verdict(judged(MADE, "a100"), "fa3") == "compatible"


def test_all_documented_names_are_judged() -> None:
    judgement = judged(MADE, "h200")
    assert len(backend_names()) >= 24
    assert {row.backend for row in judgement.rows} == set(backend_names())
    assert len(judgement.rows) == len(backend_names()) * 4
