"""On a CPU the knob `threads` leaves cores idle, and the estimate says what that costs."""

import pytest

from costmodel import Attention, parse_batch_spec, predict
from hwprofiles import load_profile

FP32 = Attention(num_qo_heads=16, num_kv_heads=8, head_dim=128, dtype="fp32", kv_dtype="fp32")
CPU = load_profile("amd-epyc-9755").model_copy(update={"memory_bytes": 1 << 38})


def seconds(spec: str, threads: int) -> float:
    return predict(
        FP32, parse_batch_spec(spec), backend="torch_native", profile=CPU, knobs={"threads": threads}
    ).seconds


@pytest.mark.parametrize("spec", ["q1k", "q256s2k", "4q1s4k"])
def test_fewer_threads_are_never_predicted_faster(spec: str) -> None:
    cores = CPU.num_sms
    assert cores is not None
    assert seconds(spec, 1) > seconds(spec, cores // 2) > seconds(spec, cores)
    assert seconds(spec, 0) == seconds(spec, cores) == seconds(spec, 2 * cores)
