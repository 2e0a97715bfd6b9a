"""Weights counted from config.json against the published parameter counts."""

import pytest
from serving_cases import made, model

from costmodel import ConfigError
from costmodel.serving import rank_weights, read_architecture


@pytest.mark.parametrize(
    ("name", "billions", "digits"),
    [
        ("Llama-3.1-8B", 8.03, 2),
        ("Llama-3.1-70B-Instruct-FP8", 70.6, 1),
        ("Mixtral-8x7B-v0.1", 46.7, 1),
        ("Qwen3-0.6B", 0.60, 2),
        ("Qwen3-8B", 8.2, 1),
        ("DeepSeek-V3", 671, 0),
        ("gpt-oss-120b", 116.8, 1),
        ("gpt-oss-20b", 20.9, 1),
        ("Llama-4-Scout-17B-16E-Instruct", 107.8, 1),
    ],
)
def test_parameters_are_those_that_were_published(name, billions, digits):
    assert round(rank_weights(model(name)).parameters / 1e9, digits) == billions


def test_parameters_of_a_small_model_by_hand():
    w = rank_weights(made())
    attention = 1024 * (8 + 2 + 2) * 128 + 8 * 128 * 1024
    mlp = 3 * 1024 * 4096
    assert w.parameters == 2 * (attention + mlp) + 2 * 1000 * 1024
    assert w.bytes == 2 * w.parameters


def test_tied_embeddings_are_held_once():
    tied, free = rank_weights(made(tie_word_embeddings=True)), rank_weights(made())
    assert free.parameters - tied.parameters == 1000 * 1024


@pytest.mark.parametrize(("name", "tp"), [("Llama-3.1-8B", 8), ("Mixtral-8x7B-v0.1", 4), ("DeepSeek-V3", 8)])
def test_ranks_share_what_can_be_split(name, tp):
    whole, rank = rank_weights(model(name)), rank_weights(model(name), tp=tp)
    assert whole.parameters / tp <= rank.parameters
    split = {p.name: p.parameters for p in rank.products if p.name in ("o", "gate_up", "down", "shared_down")}
    for product in whole.products:
        if product.name in split and [p.name for p in whole.products].count(product.name) == 1:
            assert split[product.name] * tp == product.parameters


def test_experts_are_dealt_out_or_split():
    split, dealt = rank_weights(model("Mixtral-8x7B-v0.1"), tp=4), rank_weights(model("Mixtral-8x7B-v0.1"), tp=4, ep=4)
    assert (split.experts.local, split.experts.intermediate_size) == (8, 14336 // 4)
    assert (dealt.experts.local, dealt.experts.intermediate_size) == (2, 14336)
    assert split.experts.parameters == dealt.experts.parameters


@pytest.mark.parametrize(("ep", "why"), [(3, "must divide tp"), (4, "no experts")])
def test_expert_parallelism_that_cannot_be(ep, why):
    with pytest.raises(ValueError, match=why):
        rank_weights(model("Llama-3.1-8B"), tp=4, ep=ep)


def test_quantised_weights_are_smaller_and_the_head_is_not():
    fp8 = rank_weights(model("Llama-3.1-70B-Instruct-FP8"))
    assert fp8.formats.dense.name == "fp8"
    assert fp8.formats.head.name == "bf16"
    assert 1.0 < fp8.bytes / fp8.parameters < 1.1
    experts = rank_weights(model("gpt-oss-20b")).formats.experts
    assert (experts.name, experts.bytes) == ("mxfp4", 4 / 8 + 1 / 32)


@pytest.mark.parametrize("field", ["hidden_size", "intermediate_size", "vocab_size"])
def test_a_missing_size_is_named(field):
    with pytest.raises(ConfigError, match=f"made: config.json has no .*{field}"):
        read_architecture(made(**{field: None}))


def test_weights_that_cannot_be_counted_are_said():
    with pytest.raises(ConfigError, match="routed_expert_hidden_size means experts that work on a narrower latent"):
        read_architecture(model("Kimi-K3"))


def test_an_unknown_quantisation_is_said():
    with pytest.raises(ConfigError, match="quantised by 'secret'"):
        rank_weights(made(quantization_config={"quant_method": "secret"}))
