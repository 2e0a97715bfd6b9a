"""Each of SGLang's 24 names gives an estimate for a workload and device that it supports."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from costmodel import Attention, Batch, load_model, predict
from costmodel.backends.structural import STRUCTURES, plan_of
from costmodel.call import Call
from costmodel.compat import backend_names
from costmodel.estimate import limit_seconds
from costmodel.machine import machine_of
from tests.costmodel.costmodel_devices import device

EXAMPLES = Path(__file__).parents[2] / "examples" / "models"
GQA = Attention(num_qo_heads=32, num_kv_heads=8, head_dim=128)
MLA = Attention.mla(num_qo_heads=128)
DSA = Attention.sparse(MLA, top_k=2048)
QWEN = Attention.sparse(Attention(num_qo_heads=16, num_kv_heads=1, head_dim=256), top_k=64, block=64)
MINICPM = Attention.sparse(Attention(num_qo_heads=32, num_kv_heads=2, head_dim=128), top_k=64, block=64)
DECODE = Batch.decode([8192] * 32, page_size=64)

HOMES: dict[str, tuple[Attention, str]] = {
    "aiter": (GQA, "mi300x"),
    "ascend": (GQA, "910b2"),
    "compressed": (load_model(EXAMPLES / "DeepSeek-V4-Flash").layer_groups[1].attention, "h200"),
    "cutedsl_mla": (MLA, "b200"),
    "dsa": (DSA, "h200"),
    "dsv4": (load_model(EXAMPLES / "DeepSeek-V4-Flash").layer_groups[1].attention, "b200"),
    "fa3": (GQA, "a100"),
    "fa4": (GQA, "b200"),
    "flashinfer": (GQA, "l40s"),
    "flashmla": (MLA, "h100"),
    "flex_attention": (GQA, "h100"),
    "hpc_ops": (GQA, "h200"),
    "intel_amx": (GQA, "intel-xeon-6980p"),
    "intel_xpu": (GQA, "intel-arc-b580"),
    "minicpm_flashattn": (MINICPM, "h200"),
    "minicpm_flashinfer": (MINICPM, "h200"),
    "nsa": (DSA, "mi300x"),
    "qsa": (QWEN, "b200"),
    "tokenspeed_mla": (MLA, "b200"),
    "torch_native": (GQA, "mi300x"),
    "triton": (GQA, "mi300x"),
    "trtllm_mha": (GQA, "b200"),
    "trtllm_mla": (MLA, "b200"),
    "wave": (GQA, "mi300x"),
}
PAGES = {"ascend": 128, "minicpm_flashattn": 1, "minicpm_flashinfer": 1}
SLOWEST = 40
"""Times the device's limit beyond which an estimate of a full batch would be a mistake of units or structure."""


def test_a_sparse_prefill_walks_the_selection_of_every_token():
    """The indexer scores all pairs, in fp8; each token attends to its own 2,048 keys, one token a tile."""
    batch, machine = Batch.extend([8192], [65536], page_size=64), machine_of(device("h200"))
    call = Call(DSA, batch, machine, {})
    plan = plan_of(STRUCTURES["dsa"], call)
    assert plan.total_tiles * plan.tile.keys * plan.tile.rows == 8192 * 128 * 2048
    pairs = 8192 * (65536 - 8192) + 8192 * 8193 // 2
    assert plan.extra_compute_seconds == 2 * 64 * 128 * pairs / machine.matrix_rate("fp8_e4m3")
    p = predict(DSA, batch, backend="dsa", profile=device("h200"))
    assert p.bound == "compute"
    assert "limit" not in p.breakdown


@given(
    q=st.integers(1, 300), prefix=st.integers(0, 400), top_k=st.integers(1, 400), group=st.sampled_from([1, 16, 128])
)
def test_selections_are_counted_token_by_token(q, prefix, top_k, group):
    attention = Attention.sparse(Attention.mla(group), top_k=top_k)
    call = Call(attention, Batch.extend([q], [prefix + q]), machine_of(device("h200")), {})
    plan, rows = plan_of(STRUCTURES["dsa"], call), STRUCTURES["dsa"].extend[0]
    keys, copies = plan.tile.keys, -(-group // rows)
    assert plan.total_tiles == copies * sum(-(-min(top_k, p) // keys) for p in range(prefix + 1, prefix + q + 1))
    assert plan.job_count == copies * q


def test_the_names_are_sglangs_24():
    assert len(HOMES) == 24
    assert set(HOMES) == set(backend_names())


@pytest.mark.parametrize("name", sorted(HOMES))
def test_a_supported_workload_gets_an_estimate(name):
    attention, home = HOMES[name]
    batch = Batch.decode([8192] * 32, page_size=PAGES.get(name, 64))
    profile = device(home)
    if profile.memory_bytes is None:
        profile = profile.model_copy(update={"memory_bytes": 2**39})
    p = predict(attention, batch, backend=name, profile=profile)
    limit = limit_seconds(Call(attention, batch, machine_of(profile), p.knobs))
    assert limit <= p.low < p.seconds < p.high
    assert p.seconds == pytest.approx(sum(p.breakdown.values()))
    assert p.seconds < SLOWEST * limit, p.breakdown
