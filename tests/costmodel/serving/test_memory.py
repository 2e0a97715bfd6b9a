"""Memory as SGLang's defaults share it out."""

import pytest
from serving_cases import asked, memory, steps

from costmodel.serving import DoesNotFit, memory_of, rank_weights
from costmodel.serving.memory import captured_size, running_limit, static_fraction

GIB = 1 << 30


def test_an_80_gib_device_by_hand():
    reserved_mib = 512 + 8192 * 1.5 + 1024 / 8 + 256 * 2
    assert reserved_mib == 13440
    assert static_fraction(80 * GIB, 8192, 256, 1) == round((80 * 1024 - 13440) / (80 * 1024), 3) == 0.836


def test_large_devices_keep_ten_gib():
    assert static_fraction(100 * GIB, 2048, 8, 1) == round(90 / 100, 3)


def test_kv_takes_what_weights_leave():
    found = memory(steps())
    assert found.kv_bytes_per_token == 32 * 8 * 256 * 2
    left = found.device_bytes * found.static_fraction - found.weight_bytes
    assert 0 <= left - found.kv_tokens * found.kv_bytes_per_token < found.kv_bytes_per_token


def test_pages_are_whole():
    deployment = asked().deployment("fa3", "fa3", 64)
    found = memory_of(deployment, rank_weights(deployment.model))
    assert found.kv_tokens % 64 == 0
    assert (found.tokens_of(1), found.tokens_of(64), found.tokens_of(65)) == (64, 64, 128)


def test_weights_that_do_not_fit_say_by_how_much():
    deployment = asked("DeepSeek-V3").deployment("fa3", "fa3", 1)
    weights = rank_weights(deployment.model)
    with pytest.raises(DoesNotFit, match=r"DeepSeek-V3 takes 673 GB .* 537 GB too much; raise --tp"):
        memory_of(deployment, weights)


@pytest.mark.parametrize(("batch", "size"), [(1, 1), (3, 4), (9, 12), (13, 16), (17, 24), (256, 256), (257, 257)])
def test_graphs_are_padded_to_captured_sizes(batch, size):
    assert captured_size(batch, 256) == size


@pytest.mark.parametrize(
    ("kv_tokens", "context", "limit"),
    [
        (915_066, 131_072, 3574),
        (100_000, 131_072, 2048),
        (10**8, 4096, 4096),
        (1000, 131_072, 500),
        (10_000, None, 2048),
    ],
)
def test_running_requests_are_limited_as_sglang_does(kv_tokens, context, limit):
    assert running_limit(kv_tokens, context) == limit


def test_no_graph_is_larger_than_the_largest():
    assert captured_size(10, 12) == 12
    assert captured_size(20, 22) == 22


def test_recurrent_states_take_their_share():
    request = asked("Nemotron-H-56B-Base-8K", tp=4)
    deployment = request.deployment("fa3", "fa3", 1)
    found = memory_of(deployment, rank_weights(deployment.model, tp=4))
    free = found.device_bytes * found.static_fraction - found.weight_bytes
    width, conv = 256 * 64, 3 * (256 * 64 + 2 * 8 * 256) * 2
    assert found.state_bytes_per_request == 54 * (width * 256 * 4 + conv) / 4
    assert found.kv_tokens == int(free / 1.9 // found.kv_bytes_per_token)
    assert found.max_running_requests == int(free * 0.9 / 1.9 / found.state_bytes_per_request) // 3
