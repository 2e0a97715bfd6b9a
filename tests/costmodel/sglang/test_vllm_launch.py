"""vLLM's names for the same kernels, and what vLLM cannot be told."""

import pytest
from sglang_cases import DATA, device

from costmodel import LaunchChoice, LaunchRefused, load_model, vllm_launch

LLAMA = load_model(DATA / "models" / "Llama-3.1-8B.json")
DEEPSEEK = load_model(DATA / "models" / "DeepSeek-V3.json")


@pytest.mark.parametrize(
    ("model", "backend", "gpu", "expected"),
    [
        (LLAMA, "fa3", "h200", ["--attention-backend", "FLASH_ATTN", "--attention-config.flash_attn_version", "3"]),
        (DEEPSEEK, "fa3", "h200", ["--attention-backend", "FLASH_ATTN_MLA"]),
        (LLAMA, "triton", "h200", ["--attention-backend", "TRITON_ATTN"]),
        (DEEPSEEK, "triton", "h200", ["--attention-backend", "TRITON_MLA"]),
        (DEEPSEEK, "flashmla", "h200", ["--attention-backend", "FLASHMLA"]),
        (LLAMA, "trtllm_mha", "b200", ["FLASHINFER", "--attention-config.use_trtllm_attention", "true"]),
        (LLAMA, "aiter", "mi300x", ["--attention-backend", "ROCM_AITER_FA"]),
        (LLAMA, "torch_native", "intel-xeon-6980p", ["--attention-backend", "CPU_ATTN"]),
    ],
)
def test_names(model, backend, gpu, expected):
    plan = vllm_launch(LaunchChoice(backend, backend, 64), model, device(gpu))
    line = " ".join(plan.flags)
    assert " ".join(expected) in line
    assert "--block-size 64" in line
    assert plan.env == {}


def test_older_versions_take_a_variable():
    plan = vllm_launch(LaunchChoice("fa3", "fa3", 16), LLAMA, device("h200"), vllm="0.11.2")
    assert plan.env == {"VLLM_ATTENTION_BACKEND": "FLASH_ATTN"}
    assert "--attention-backend" not in plan.flags


def test_what_vllm_has_no_setting_for_is_said():
    choice = LaunchChoice("fa3", "triton", 1, decode_knobs={"max_kv_splits": 16})
    plan = vllm_launch(choice, LLAMA, device("h200"))
    said = " ".join(plan.not_expressed)
    assert "one backend for both phases" in said
    assert "max_kv_splits=16" in said
    assert "page size 1" in said
    assert "--block-size" not in plan.flags


def test_splits_become_a_limit():
    plan = vllm_launch(LaunchChoice("fa3", "fa3", 16, decode_knobs={"num_splits": 8}), LLAMA, device("h200"))
    at = plan.flags.index("--attention-config.flash_attn_max_num_splits_for_cuda_graph")
    assert plan.flags[at + 1] == "8"
    assert "largest number of splits" in plan.not_expressed[0]


@pytest.mark.parametrize(
    ("choice", "model", "gpu"),
    [
        (LaunchChoice("cutedsl_mla", "cutedsl_mla"), DEEPSEEK, "b200"),
        (LaunchChoice("flashmla", "flashmla"), LLAMA, "h200"),
        (LaunchChoice("torch_native", "torch_native"), LLAMA, "h200"),
        (LaunchChoice("fa3", "fa3", 16, "fp8_e5m2"), LLAMA, "h200"),
        (LaunchChoice("triton", "triton", 16, "mxfp8"), LLAMA, "b200"),
    ],
)
def test_no_counterpart(choice, model, gpu):
    with pytest.raises(LaunchRefused):
        vllm_launch(choice, model, device(gpu))


def test_a_version_is_a_version():
    with pytest.raises(ValueError, match="not a version"):
        vllm_launch(LaunchChoice("fa3", "fa3"), LLAMA, device("h200"), vllm="latest")


@pytest.mark.parametrize(
    ("prefill", "gpu", "said"),
    [
        ("fa3", "h200", "prefill runs on flashinfer's kernels, not fa3's"),
        ("trtllm_mha", "h200", "prefill runs on flashinfer's kernels, not trtllm_mha's"),
        ("flashinfer", "h200", None),
        ("trtllm_mha", "b200", None),
    ],
)
def test_trtllm_attention_prefills_on_datacenter_blackwell_only(prefill, gpu, said):
    plan = vllm_launch(LaunchChoice(prefill, "trtllm_mha", 64), LLAMA, device(gpu))
    assert [text.removeprefix("vLLM runs one backend for both phases: ") for text in plan.not_expressed] == (
        [said] if said else []
    )
