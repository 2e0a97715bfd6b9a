"""Single rules, each by a case worked out from SGLang's source."""

from dataclasses import replace

import pytest
from sglang_cases import EAGLE_CHAIN, EAGLE_TREE, bare, device, latent_of, model_of, published, resolve

from costmodel.sglang import sglang_resolve

LLAMA = model_of("LlamaForCausalLM")
DEEPSEEK = latent_of("DeepseekV3ForCausalLM")
SPARSE = latent_of("DeepseekV32ForCausalLM", index_topk=2048)
SHARING = latent_of("DeepseekV32ForCausalLM", index_topk=2048, index_topk_freq=4)
QWEN_NEXT = model_of("Qwen3NextForCausalLM", model_type="qwen3_next")
GRANITE = model_of("GraniteMoeHybridForCausalLM", model_type="granitemoehybrid", layer_types=["mamba", "attention"])


def values(decision):
    return decision.prefill, decision.decode, decision.page_size


@pytest.mark.parametrize(
    ("model", "gpu", "args", "expected"),
    [
        (LLAMA, "h200", (), ("fa3", "fa3", 1)),
        (LLAMA, "b200", (), ("trtllm_mha", "trtllm_mha", 64)),
        (LLAMA, "a100", (), ("flashinfer", "flashinfer", 1)),
        (LLAMA, "nvidia-t4", (), ("flashinfer", "flashinfer", 1)),
        (LLAMA, "nvidia-jetson-thor-t5000", (), ("flashinfer", "flashinfer", 1)),
        (LLAMA, "mi300x", (), ("aiter", "aiter", 1)),
        (LLAMA, "intel-xeon-6980p", (), ("intel_amx", "intel_amx", 1)),
        (LLAMA, "amd-epyc-9654", (), ("torch_native", "torch_native", 1)),
        (LLAMA, "nvidia-grace-72c", (), ("torch_native", "torch_native", 1)),
        (LLAMA, "huawei-ascend-910b2", ("--attention-backend", "triton"), ("ascend", "ascend", 128)),
        (LLAMA, "intel-gaudi-3", ("--attention-backend", "fa3"), ("torch_native", "torch_native", 1)),
        (LLAMA, "h200", EAGLE_TREE, ("flashinfer", "flashinfer", 1)),
        (LLAMA, "h200", (*EAGLE_CHAIN, "--page-size", "64"), ("flashinfer", "flashinfer", 64)),
        (LLAMA, "b200", ("--prefill-attention-backend", "fa4"), ("fa4", "trtllm_mha", 128)),
        (LLAMA, "b200", ("--attention-backend", "fa4", *EAGLE_TREE), ("fa4", "fa4", 1)),
        (LLAMA, "h200", ("--attention-backend", "intel_xpu", "--page-size", "16"), ("intel_xpu", "intel_xpu", 128)),
        (DEEPSEEK, "h200", (), ("fa3", "fa3", 1)),
        (DEEPSEEK, "b200", (), ("trtllm_mla", "trtllm_mla", 64)),
        (DEEPSEEK, "b200", ("--decode-attention-backend", "trtllm_mla"), ("flashinfer", "trtllm_mla", 64)),
        (DEEPSEEK, "b200", ("--attention-backend", "cutedsl_mla"), ("trtllm_mla", "cutedsl_mla", 64)),
        (DEEPSEEK, "mi300x", ("--tp-size", "8"), ("aiter", "aiter", 1)),
        (DEEPSEEK, "mi300x", ("--tp-size", "4"), ("triton", "triton", 1)),
        (DEEPSEEK, "a100", (), ("triton", "triton", 1)),
        (SPARSE, "h200", ("--page-size", "1"), ("dsa", "dsa", 64)),
        (SPARSE, "mi300x", (), ("dsa", "dsa", 1)),
        (SPARSE, "intel-arc-b580", (), ("dsa", "dsa", 128)),
        (QWEN_NEXT, "b200", (), ("triton", "triton", 1)),
        (QWEN_NEXT, "b200", ("--disable-radix-cache",), ("trtllm_mha", "trtllm_mha", 64)),
        (QWEN_NEXT, "b200", EAGLE_CHAIN, ("trtllm_mha", "trtllm_mha", 64)),
        (GRANITE, "b200", (), ("flashinfer", "flashinfer", 1)),
        (model_of("Olmo3ForCausalLM", model_type="olmo3"), "a100", (), ("fa3", "fa3", 1)),
        (model_of("Exaone4ForCausalLM", sliding_window_pattern="LLLG"), "mi300x", (), ("triton", "triton", 1)),
        (model_of("MiMoV2FlashForCausalLM", head_dim=192, v_head_dim=128), "b200", (), ("fa4", "fa4", 128)),
        (model_of("SomethingForCausalLM", head_dim=192, v_head_dim=128), "b200", (), ("fa4", "fa4", 128)),
        (model_of("MiniMaxM3SparseForCausalLM"), "h200", (), ("fa3", "fa3", 128)),
        (model_of("MiniMaxM3SparseForCausalLM"), "a100", (), ("flashinfer", "flashinfer", 1)),
        (model_of("DeepseekV4ForCausalLM"), "h200", ("--page-size", "64"), ("dsv4", "dsv4", 256)),
        (model_of("DeepseekV4ForCausalLM"), "huawei-ascend-910b2", (), ("dsv4", "dsv4", 128)),
        (model_of("WhisperForConditionalGeneration"), "h200", (), ("flashinfer", "flashinfer", 1)),
        (model_of("GptOssForCausalLM"), "intel-arc-b580", (), ("intel_xpu", "intel_xpu", 128)),
    ],
)
def test_what_sglang_serves_with(model, gpu, args, expected):
    decision = resolve(model, gpu, *args)
    assert values(decision) == expected
    assert decision.refused is None


@pytest.mark.parametrize(
    ("model", "gpu", "args", "stage", "says"),
    [
        (LLAMA, "h200", ("--attention-backend", "flash"), "cli", "flash"),
        (LLAMA, "h200", ("--page-size", "many"), "cli", "page-size"),
        (LLAMA, "h200", ("--attention-backend", "trtllm_mla"), "resolve", "Blackwell"),
        (LLAMA, "b200", ("--attention-backend", "trtllm_mla"), "build", "MLA models only"),
        (LLAMA, "b200", ("--attention-backend", "fa3"), "build", "SM80-SM90"),
        (LLAMA, "intel-xeon-6980p", ("--attention-backend", "fa3"), "build", "SM80-SM90"),
        (LLAMA, "amd-rx-7900-xtx", ("--attention-backend", "fa3"), "build", "SM80-SM90"),
        (LLAMA, "h200", ("--page-size", "48"), "check", "multiple"),
        (LLAMA, "h200", ("--kv-cache-dtype", "nvfp4"), "resolve", "Blackwell"),
        (LLAMA, "h200", ("--kv-cache-dtype", "mxfp8"), "resolve", "Blackwell"),
        (LLAMA, "mi300x", ("--kv-cache-dtype", "fp4_mx_block16"), "resolve", "NVIDIA"),
        (LLAMA, "intel-xeon-6980p", ("--kv-cache-dtype", "fp8_e5m2"), "build", "CPU"),
        (LLAMA, "intel-xeon-6980p", ("--enable-deterministic-inference",), "resolve", "deterministic"),
        (LLAMA, "h200", ("--attention-backend", "flex_attention", *EAGLE_CHAIN), "resolve", "flex_attention"),
        (LLAMA, "h200", ("--attention-backend", "wave", *EAGLE_CHAIN), "draft", "wave"),
        (LLAMA, "h200", ("--dp-size", "2", "--attn-dp-size", "2"), "resolve", "exclude"),
        (LLAMA, "h200", ("--enable-hierarchical-cache", "--disable-radix-cache"), "resolve", "prefix cache"),
        (LLAMA, "h200", ("--nnodes", "2"), "check", "nodes"),
        (LLAMA, "h200", ("--nnodes", "0"), "check", "size that is 0"),
        (LLAMA, "h200", ("--page-size", "0"), "check", "size that is 0"),
        (
            model_of("Qwen3_5ForConditionalGeneration", model_type="qwen3_5"),
            "h200",
            ("--page-size", "0"),
            "resolve",
            "is 0",
        ),
        (LLAMA, "h200", ("--enable-two-batch-overlap",), "check", "two-batch"),
        (LLAMA, "h200", ("--speculative-algorithm", "GUESS"), "resolve", "GUESS"),
        (LLAMA, "h200", ("--speculative-algorithm", "EAGLE", "--speculative-eagle-topk", "4"), "resolve", "together"),
        (LLAMA, "b200", ("--attention-backend", "trtllm_mha", *EAGLE_TREE), "resolve", "chains only"),
        (DEEPSEEK, "b200", ("--enable-deterministic-inference",), "resolve", "deterministic"),
        (DEEPSEEK, "h200", ("--attention-backend", "fa4", "--enable-deterministic-inference"), "resolve", "SM100"),
        (DEEPSEEK, "b200", ("--prefill-attention-backend", "cutedsl_mla"), "resolve", "only decodes"),
        (SPARSE, "h200", ("--kv-cache-dtype", "fp8_e5m2"), "resolve", "fp8_e4m3"),
        (SPARSE, "intel-xeon-6980p", (), "resolve", "kernels"),
        (SHARING, "h200", ("--enable-two-batch-overlap",), "resolve", "share"),
        (SPARSE, "h200", ("--enable-two-batch-overlap",), "check", "two-batch"),
        (model_of("DeepseekV4ForCausalLM"), "b200", [a.lower() for a in EAGLE_CHAIN], "resolve", "capitals"),
        (QWEN_NEXT, "b200", ("--attention-backend", "aiter"), "build", "gated-delta"),
        (QWEN_NEXT, "intel-xeon-6980p", (), "resolve", "--disable-radix-cache"),
        (model_of("Lfm2ForCausalLM", model_type="lfm2"), "h200", ("--page-size", "64"), "resolve", "page 1 only"),
        (model_of("Lfm2ForCausalLM", model_type="lfm2"), "huawei-ascend-910b2", (), "resolve", "page 1 only"),
        (model_of("GptOssForCausalLM"), "h200", ("--attention-backend", "flashinfer"), "resolve", "sinks"),
        (model_of("Gemma4ForCausalLM"), "h200", ("--decode-attention-backend", "fa3"), "resolve", "Gemma 4"),
        (model_of("Llama4ForCausalLM"), "h200", ("--attention-backend", "fa4"), "resolve", "chunked"),
        (model_of("MllamaForConditionalGeneration"), "h200", ("--attention-backend", "triton"), "build", "cross"),
        (model_of("DeepseekV4ForCausalLM"), "h200", ("--kv-cache-dtype", "bf16"), "resolve", "bfloat16"),
        (model_of(None), "h200", (), "resolve", "architectures"),
        (model_of("LlamaForCausalLM", quantization_config={"quant_method": "hqq"}), "h200", (), "resolve", "hqq"),
    ],
)
def test_what_sglang_refuses(model, gpu, args, stage, says):
    decision = resolve(model, gpu, *args)
    assert decision.stage == stage
    assert decision.refused is not None
    assert says in decision.refused
    assert (decision.prefill is None) == (stage in ("cli", "resolve"))


@pytest.mark.parametrize(
    ("config", "gpu", "args", "expected"),
    [
        ({}, "h200", (), "bfloat16"),
        ({"torch_dtype": "float16"}, "h200", (), "float16"),
        ({"torch_dtype": "float32"}, "h200", (), "float16"),
        ({"torch_dtype": None, "model_type": "gemma2"}, "h200", (), "bfloat16"),
        ({}, "h200", ("--dtype", "half"), "float16"),
        ({}, "h200", ("--kv-cache-dtype", "fp8_e5m2", "--attention-backend", "triton"), "float8_e5m2"),
        ({}, "mi300x", ("--kv-cache-dtype", "fp8_e5m2"), "float8_e4m3fnuz"),
        ({}, "mi355x", ("--kv-cache-dtype", "fp8_e5m2"), "float8_e4m3fn"),
        ({}, "b200", ("--kv-cache-dtype", "nvfp4"), "float4_e2m1fn_x2"),
        (
            {"quantization_config": {"quant_method": "modelopt", "quant_algo": "FP8", "kv_cache_quant_algo": "FP8"}},
            "h200",
            (),
            "float8_e4m3fn",
        ),
        (
            {"quantization_config": {"quant_method": "fp8", "kv_cache_quant_algo": "FP8"}},
            "h200",
            (),
            "bfloat16",
        ),
    ],
)
def test_stored_dtype(config, gpu, args, expected):
    assert resolve(model_of("LlamaForCausalLM", **config), gpu, *args).kv_pool_dtype == expected


def test_quantisation_depends_on_the_platform():
    mxfp4 = model_of("LlamaForCausalLM", quantization_config={"quant_method": "mxfp4"})
    assert resolve(mxfp4, "mi300x").stage == "resolve"
    assert resolve(mxfp4, "mi355x").refused is None
    nvfp4 = model_of("LlamaForCausalLM", quantization_config={"quant_method": "modelopt", "quant_algo": "NVFP4"})
    assert resolve(nvfp4, "b200").refused is None
    assert resolve(nvfp4, "mi355x").stage == "resolve"
    gptq = model_of("LlamaForCausalLM", quantization_config={"quant_method": "gptq", "bits": 4})
    assert resolve(gptq, "h200").refused is None
    assert resolve(gptq, "mi300x").stage == "resolve"
    assert resolve(gptq, "nvidia-t4").stage == "resolve"
    fp8 = model_of("LlamaForCausalLM", quantization_config={"quant_method": "fp8"})
    assert "drop the flag" in str(resolve(fp8, "h200", "--quantization", "awq").refused)


def test_mixed_precision_beside_the_config_stops_nemotron_h():
    mixed = {
        "quant_method": "modelopt",
        "quant_algo": "MIXED_PRECISION",
        "quantized_layers": {"a": {"quant_algo": "NVFP4"}},
    }
    inside = model_of("NemotronHForCausalLM", quantization_config=mixed)
    assert resolve(inside, "h200").refused is None
    apart = replace(model_of("NemotronHForCausalLM"), quantization=mixed)
    assert "copy its" in (resolve(apart, "h200").refused or "")


def test_heads_are_divided_among_attention_ranks_only():
    wide = resolve(LLAMA, "h200", "--tp-size", "16", "--enable-dp-attention", "--dp-size", "4")
    assert wide.tensor_parallel == 4
    assert resolve(LLAMA, "h200", "--tp-size", "16").tensor_parallel == 16
    assert resolve(LLAMA, "h200", "--tp-size", "0").tensor_parallel == 0


def test_changes_say_what_was_asked():
    decision = resolve(LLAMA, "b200", "--attention-backend", "trtllm_mha", "--page-size", "1")
    change = next(c for c in decision.changed if c.field == "--page-size")
    assert (change.before, change.after, change.asked) == (1, 64, True)
    assert "16, 32, 64 or 128" in change.why
    assert ":" in change.source
    default = resolve(LLAMA, "b200")
    assert [c.asked for c in default.changed] == [False, False]


def test_prefix_cache_and_draft_are_reported():
    deterministic = resolve(LLAMA, "b200", "--enable-deterministic-inference")
    assert (deterministic.prefill, deterministic.radix_cache) == ("flashinfer", False)
    nemotron = resolve(published("Nemotron-3-Nano-30B-A3B.json"), "b200", *EAGLE_CHAIN)
    assert nemotron.draft == "trtllm_mha"


def test_old_names():
    fp8 = resolve(DEEPSEEK, "b200", "--attention-backend", "tokenspeed_mla")
    assert (fp8.prefill, fp8.decode, fp8.kv_cache_dtype) == ("trtllm_mla", "cutedsl_mla", "fp8_e4m3")
    assert resolve(LLAMA, "h200", "--attention-backend", "compressed").prefill == "dsv4"
    assert resolve(LLAMA, "h200", "--attention-backend", "nsa").prefill == "nsa"


def test_tokenspeed_mla_is_a_backend_of_its_own_up_to_0_5_22():
    line = ["--attention-backend", "tokenspeed_mla", "--kv-cache-dtype", "fp8_e4m3"]
    older = sglang_resolve(DEEPSEEK, device("b200"), line, sglang="0.5.22")
    assert (older.prefill, older.decode, older.page_size) == ("tokenspeed_mla", "tokenspeed_mla", 64)
    assert "fp8_e4m3" in str(sglang_resolve(DEEPSEEK, device("b200"), line[:2], sglang="0.5.22").refused)
    assert sglang_resolve(DEEPSEEK, device("b200"), line, sglang="0.5.23").decode == "cutedsl_mla"
    assert sglang_resolve(DEEPSEEK, device("b200"), ["--enable-hicache"], sglang="0.5.22").stage == "cli"
    assert sglang_resolve(DEEPSEEK, device("b200"), ["--enable-hicache"], sglang="0.5.23").refused is None


def test_hybrid_and_vision_models_have_flags_of_their_own():
    assert any("--linear-attn-backend" in note for note in resolve(QWEN_NEXT, "h200").notes)
    assert any("--mm-attention-backend" in n for n in resolve(published("Qwen3-VL-235B-A22B.json"), "h200").notes)
    assert resolve(LLAMA, "h200").notes == ()


def test_options_that_no_rule_reads_are_named():
    assert "--enable-hierarchical-cache" in resolve(LLAMA, "h200", "--enable-hierarchical-cache").notes[0]


def test_an_unknown_version_names_those_there_are():
    with pytest.raises(ValueError, match=r"no rules for SGLang 0\.4\.0; there are rules for .*0\.5\.23"):
        sglang_resolve(LLAMA, device("h200"), [], sglang="0.4.0")


@pytest.mark.parametrize("raw", [{}, {"architectures": []}, {"architectures": None}, {"text_config": 3}])
def test_odd_configs_are_refused_not_raised(raw):
    assert resolve(bare(raw), "h200").stage == "resolve"
