"""Launch lines: what they say is what SGLang's rules then serve."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sglang_cases import DATA, device

from costmodel import LaunchChoice, LaunchRefused, load_model, sglang_launch, sglang_resolve
from costmodel.sglang.tables import load_tables

LLAMA = load_model(DATA / "models" / "Llama-3.1-8B.json")
DEEPSEEK = load_model(DATA / "models" / "DeepSeek-V3.json")
GEMMA4 = load_model(DATA / "models" / "gemma-4-26B-A4B.json")

MODELS = {"llama": LLAMA, "deepseek": DEEPSEEK, "gemma4": GEMMA4}
BACKENDS = st.sampled_from(load_tables().choices)


@settings(deadline=None, max_examples=150)
@given(
    model=st.sampled_from(sorted(MODELS)),
    gpu=st.sampled_from(["h200", "b200", "a100", "mi300x", "rtx_pro_6000"]),
    prefill=BACKENDS,
    decode=BACKENDS,
    page=st.sampled_from([None, 1, 16, 64, 128]),
    kv=st.sampled_from(["auto", "bf16", "fp8_e4m3", "fp8_e5m2", "nvfp4"]),
)
def test_a_line_gives_the_choice_or_is_refused(model, gpu, prefill, decode, page, kv):
    choice = LaunchChoice(prefill, decode, page, kv)
    try:
        plan = sglang_launch(choice, MODELS[model], device(gpu))
    except LaunchRefused:
        return
    decision = sglang_resolve(MODELS[model], device(gpu), plan.flags)
    aliases = load_tables().aliases
    assert decision.refused is None
    assert aliases.get(decision.prefill, decision.prefill) == aliases.get(prefill, prefill)
    assert aliases.get(decision.decode, decision.decode) == aliases.get(decode, decode)
    assert page in (None, decision.page_size)
    assert kv == "auto" or (decision.kv_cache_dtype or "").startswith(kv[:4])


def test_a_pair_with_split_knobs():
    knobs = {"max_kv_splits": 32, "split_mode": "fixed"}
    plan = sglang_launch(LaunchChoice("fa3", "triton", 64, "bf16", decode_knobs=knobs), LLAMA, device("h200"))
    assert plan.flags[plan.flags.index("--prefill-attention-backend") + 1] == "fa3"
    assert plan.flags[plan.flags.index("--decode-attention-backend") + 1] == "triton"
    assert plan.flags[plan.flags.index("--triton-attention-num-kv-splits") + 1] == "32"
    assert plan.env == {"SGLANG_TRITON_DECODE_ATTN_STATIC_KV_SPLITS": "1"}
    assert any("whole pages of 64" in effect for effect in plan.side_effects)
    assert any("32 splits" in effect for effect in plan.side_effects)
    assert plan.shell().startswith("SGLANG_TRITON_DECODE_ATTN_STATIC_KV_SPLITS=1 --attention-backend triton")
    assert plan.not_expressed == ()


def test_tensor_cores_of_flashinfer_are_a_variable():
    knobs = {"use_tensor_cores": False, "kernel": "auto"}
    plan = sglang_launch(LaunchChoice("flashinfer", "flashinfer", 1, decode_knobs=knobs), LLAMA, device("h200"))
    assert plan.env == {"SGLANG_FLASHINFER_USE_TENSOR_CORE": "false"}


def test_what_sglang_has_no_setting_for_is_said():
    choice = LaunchChoice("fa3", "fa3", 1, decode_knobs={"num_splits": 4, "pack_gqa": "auto"})
    plan = sglang_launch(choice, LLAMA, device("h200"))
    assert plan.not_expressed == ("decode: SGLang has no setting for fa3's num_splits=4",)


def test_decode_only_backends_get_their_prefill():
    choice = LaunchChoice("trtllm_mla", "cutedsl_mla", 64, "fp8_e4m3", tensor_parallel=8)
    plan = sglang_launch(choice, DEEPSEEK, device("b200"))
    assert plan.flags[:2] == ("--tp-size", "8")
    assert plan.decision is not None
    assert plan.decision.prefill == "trtllm_mla"
    assert any("more" not in effect and "1 bytes" in effect for effect in plan.side_effects)


def test_backends_without_cuda_graphs_say_so():
    plan = sglang_launch(LaunchChoice("torch_native", "torch_native", 1), LLAMA, device("h200"))
    assert any("CUDA graphs are off" in effect for effect in plan.side_effects)


@pytest.mark.parametrize(
    ("choice", "model", "gpu", "says"),
    [
        (LaunchChoice("attnroof_triton", "fa3"), LLAMA, "h200", "no attention backend 'attnroof_triton'"),
        (LaunchChoice("fa3", "fa3", 1, "fp8_e5m2"), LLAMA, "h200", "e4m3"),
        (LaunchChoice("trtllm_mha", "trtllm_mha", 1), LLAMA, "b200", "page"),
        (LaunchChoice("dsa", "dsa", 64), LLAMA, "h200", "dsa"),
        (LaunchChoice("flashinfer", "flashinfer", 1), GEMMA4, "h200", "flashinfer"),
        (LaunchChoice("fa3", "fa3", 1, "int4"), LLAMA, "h200", "int4"),
    ],
)
def test_refusals_say_why(choice, model, gpu, says):
    with pytest.raises(LaunchRefused, match=says):
        sglang_launch(choice, model, device(gpu))
