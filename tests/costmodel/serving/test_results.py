"""Benchmark results, server facts, and the comparison with what was predicted."""

import json

import pytest
from serving_cases import memory, steps

from costmodel.serving import Load, serve
from costmodel.serving.compare import compare, explain
from costmodel.serving.results import ResultError, read_results
from costmodel.serving.server_facts import facts_of_arguments, facts_of_info, facts_of_log, sglang_name

SGLANG = {
    "backend": "sglang", "dataset_name": "random", "request_rate": float("inf"), "max_concurrency": 16,
    "random_input_len": 1024, "random_output_len": 128, "random_range_ratio": 0.5, "duration": 20.0, "completed": 200,
    "total_input_tokens": 153600, "total_output_tokens": 19200, "output_throughput": 960.0, "mean_ttft_ms": 40.0,
    "mean_tpot_ms": 7.0, "concurrency": 15.5,
    "server_info": {"attention_backend": "fa3", "page_size": 1, "tp_size": 1, "disable_cuda_graph": False},
}  # fmt: skip
VLLM = {
    "endpoint_type": "vllm", "num_prompts": 100, "request_rate": "4.0", "burstiness": 2.0, "max_concurrency": None,
    "duration": 25.0, "completed": 100, "total_input_tokens": 102400, "total_output_tokens": 12800,
    "output_throughput": 512.0, "mean_ttft_ms": 30.0, "mean_tpot_ms": 6.0,
}  # fmt: skip


def one(data):
    return next(iter(read_results([json.dumps(data)], "result")))


def test_sglang_results_are_read():
    found = one(SGLANG)
    assert (found.engine, found.completed, found.isl, found.osl) == ("sglang", 200, 768, 96)
    assert (found.concurrency, found.rate) == (16, None)
    assert (found.ttft_seconds, found.tpot_seconds) == (0.040, 0.007)
    assert found.spread == pytest.approx(1 / 3)
    assert found.server.decode == "fa3"
    assert found.server.cuda_graph is True


def test_vllm_results_are_read():
    found = one(VLLM)
    assert (found.engine, found.rate, found.burstiness, found.concurrency) == ("vllm", 4.0, 2.0, None)
    assert found.server is None


def test_every_line_is_a_run_and_an_indented_file_is_one():
    assert len(list(read_results([json.dumps(SGLANG) + "\r\n", "\n", json.dumps(SGLANG)], "result"))) == 2
    assert len(list(read_results(json.dumps(VLLM, indent=2).splitlines(), "result"))) == 1


def test_lengths_in_the_file_are_used():
    found = one({**VLLM, "input_lens": [1000, 1048], "output_lens": [128, 128]})
    assert found.lengths == ((1000, 128), (1048, 128))


@pytest.mark.parametrize(
    ("data", "why"),
    [
        ("", "is empty"),
        ("not json", "line 1: no JSON object"),
        (json.dumps({"completed": 3}), "'duration' is missing"),
        (json.dumps({**VLLM, "completed": 0}), "completed=0"),
        (json.dumps({**VLLM, "duration": 0}), "duration=0"),
        (json.dumps({**VLLM, "duration": float("nan")}), "duration=nan is no finite number"),
        (json.dumps({**VLLM, "mean_ttft_ms": -3}), "mean_ttft_ms=-3 is no finite number"),
        (json.dumps({**VLLM, "total_output_tokens": 5}), "100 requests but"),
        (json.dumps({**VLLM, "request_rate": 0}), "request_rate=0 must be positive"),
    ],
)
def test_bad_results_are_told(data, why):
    with pytest.raises(ResultError, match=why):
        list(read_results(data.splitlines(), "result"))


@pytest.mark.parametrize(
    ("lines", "prefill", "decode"),
    [
        (
            ["server_args=ServerArgs(model_path='x', attention_backend='flashinfer', page_size=1)"],
            "flashinfer",
            "flashinfer",
        ),
        (["server_args={'attention_backend': 'triton', 'decode_attention_backend': None}"], "triton", "triton"),
        (
            ["Using hybrid attention backend for decode and prefill: decode_backend=fa3, prefill_backend=fa4."],
            "fa4",
            "fa3",
        ),
        (["Attention backend not explicitly specified. Use fa3 backend by default."], "fa3", "fa3"),
        (["INFO Using FLASH_ATTN attention backend out of potential backends: ['FLASH_ATTN']."], "fa3", "fa3"),
        (["Using FLASH_ATTN attention backend out of [..]", "Using FlashAttention version 4"], "fa4", "fa4"),
        (["Using TRITON_ATTN attention backend out of potential backends"], "triton", "triton"),
    ],
)
def test_logs_say_what_ran(lines, prefill, decode):
    facts = facts_of_log(lines)
    assert (facts.prefill, facts.decode) == (prefill, decode)


def test_a_log_without_a_word_about_it_says_nothing():
    assert facts_of_log(["loading weights", "ready"]) is None
    assert facts_of_info(None) is None
    assert facts_of_info({"version": "0.5.23"}) is None


def test_arguments_are_read_as_written():
    words = "--attention-backend fa3 --decode-attention-backend=triton --tp 4 --kv-cache-dtype bfloat16"
    facts = facts_of_arguments([*words.split(), "--disable-cuda-graph"])
    assert (facts.prefill, facts.decode, facts.tp, facts.kv_cache_dtype) == ("fa3", "triton", 4, "bf16")
    assert facts.cuda_graph is False
    assert facts_of_arguments(["--port", "30000"]) is None
    assert facts_of_arguments(["--attention-backend", "FLASHINFER"]).decode == "flashinfer"


def test_names_of_vllm_have_counterparts():
    assert sglang_name("FLASH_ATTN_MLA", None) == "fa3"
    assert sglang_name("SOMETHING_NEW", None) is None


def test_the_load_of_a_run_is_simulated_and_set_beside_it():
    found = compare(steps(), one(SGLANG))
    assert [figure.name for figure in found.figures] == ["TTFT", "TPOT", "output tokens/s"]
    for figure in found.figures:
        assert figure.low < figure.predicted < figure.high
        assert figure.error == pytest.approx(figure.predicted / figure.measured - 1)
    assert 10 < found.running <= 16


def test_the_largest_difference_is_named_with_its_likely_cause():
    slow = compare(steps(), one({**SGLANG, "mean_tpot_ms": 50.0, "output_throughput": 960.0}))
    assert slow.largest.name == "TPOT"
    said = explain(slow, {"cuda_graph": False, "backend_known": True}, 32)
    assert said[0].startswith("TPOT is furthest off: predicted")
    assert said[0].endswith("% below what was measured; the server was slower")
    assert any("CUDA graphs were off" in text for text in said)
    assert any("nothing tells which backend ran" in text for text in explain(slow, {}, 32))


@pytest.mark.parametrize("burstiness", [1e-9, 1e9])
def test_gaps_of_any_burstiness_are_drawn(burstiness):
    even = {**VLLM, "burstiness": burstiness}
    assert compare(steps(), one(even)).figures[0].predicted > 0


def test_equal_requests_may_run_in_step_or_apart():
    load = {"random_input_len": 1024, "random_output_len": 128, "random_range_ratio": 1.0, "max_concurrency": 16}
    found = compare(steps(), one({**SGLANG, **load, "total_input_tokens": 204800, "total_output_tokens": 25600}))
    ttft = found.figures[0]
    apart = serve(steps(), Load(1024, 128, concurrency=16), memory(steps())).rates.ttft_seconds
    assert ttft.low < apart < ttft.predicted < ttft.high
    said = explain(found, {"in_step": True, "backend_known": True}, 32)
    assert "equal requests: the interval reaches from all in step, as simulated, to all apart" in said


def test_a_difference_inside_the_interval_is_said_to_be():
    first = compare(steps(), one(SGLANG))
    exact = {f.name: f.predicted for f in first.figures}
    again = {
        **SGLANG,
        "mean_ttft_ms": exact["TTFT"] * 1e3,
        "mean_tpot_ms": exact["TPOT"] * 1.01e3,
        "output_throughput": exact["output tokens/s"],
    }
    found = compare(steps(), one(again))
    assert found.largest.name == "TPOT"
    assert "within the interval" in explain(found, {"backend_known": True}, 32)[1]


def test_a_file_without_figures_is_told():
    bare = {k: v for k, v in VLLM.items() if not k.startswith("mean_")}
    found = compare(steps(), one(bare))
    assert [figure.name for figure in found.figures] == ["output tokens/s"]
