"""Prefill and decode backends together: one page size, one cache, and rules on the pair."""

import pytest
from judging import device, made, published

from costmodel.compat import Options, judge_pair

PLAIN = made()
MLA = published("DeepSeek-V3")


@pytest.mark.parametrize(
    ("model", "gpu", "prefill", "decode", "page"),
    [
        (MLA, "h200", "fa3", "flashmla", 64),
        (MLA, "b200", "trtllm_mla", "cutedsl_mla", 64),
        (PLAIN, "b200", "fa4", "trtllm_mha", 128),
        (PLAIN, "b200", "flashinfer", "trtllm_mha", 64),
        (PLAIN, "h200", "fa3", "flashinfer", None),
    ],
)
def test_pairs_share_a_page_size(model, gpu, prefill, decode, page) -> None:
    found = judge_pair(model, device(gpu), prefill, decode)
    assert (found.reasons, found.page_size) == ((), page)


def test_an_asked_page_size_is_kept_where_both_take_it() -> None:
    assert judge_pair(PLAIN, device("b200"), "flashinfer", "trtllm_mha", Options(page_size=32)).page_size == 32
    assert judge_pair(PLAIN, device("b200"), "flashinfer", "trtllm_mha", Options(page_size=8)).page_size == 64


def test_multi_head_pages_of_128_leave_no_common_page() -> None:
    heads = made(num_key_value_heads=32)
    found = judge_pair(heads, device("b200"), "fa4", "trtllm_mha")
    assert found.page_size is None
    assert any("none of" in reason for reason in found.reasons)


@pytest.mark.parametrize(
    ("model", "gpu", "prefill", "decode", "options", "message"),
    [
        (MLA, "b200", "cutedsl_mla", "cutedsl_mla", {}, "name trtllm_mla"),
        (PLAIN, "h200", "fa3", "torch_native", {}, "--disable-cuda-graph"),
        (PLAIN, "h200", "fa3", "triton", {"kv_cache_dtype": "fp8_e5m2"}, "fp8_e4m3"),
        (PLAIN, "h200", "hpc_ops", "fa3", {"spec_topk": 1}, "speculative decoding"),
        (PLAIN, "rtx_pro_6000", "trtllm_mha", "trtllm_mha", {"kv_cache_dtype": "nvfp4"}, "prefill"),
        (PLAIN, "b200", "flashinfer", "triton", {"kv_cache_dtype": "nvfp4"}, "decode has to be trtllm_mha"),
    ],
)
def test_pairs_that_cannot_serve(model, gpu, prefill, decode, options, message) -> None:
    found = judge_pair(model, device(gpu), prefill, decode, Options(**options))
    assert any(message in reason for reason in found.reasons), found.reasons
