"""Published configurations read as their layer groups and KV bytes say."""

import json
from pathlib import Path
from typing import Any

import pytest

from costmodel import LayerGroup, Model, load_model

FOLDER = Path(__file__).parents[2] / "data" / "models"
EXPECTED = [json.loads(line) for line in (FOLDER / "expected.jsonl").read_text().splitlines()]


def described(group: LayerGroup) -> dict[str, Any]:
    a = group.attention
    facts: dict[str, Any] = {"n_layers": group.layers, "q_heads": a.num_qo_heads, "kind": a.family}
    if a.is_latent:
        facts |= {"kv_lora_rank": a.kv_lora_rank, "qk_rope_head_dim": a.qk_rope_head_dim, "latent_dim": a.head_dim}
        return facts | ({"sparse_topk": a.top_k} if a.top_k else {})
    facts |= {"kv_heads": a.num_kv_heads, "head_dim": a.head_dim, "v_head_dim": a.value_dim}
    return facts | ({"attention_chunk_size": a.chunk_size} if a.chunk_size else {"window": a.sliding_window})


def in_order(groups: list[dict[str, Any]]) -> list[str]:
    return sorted(json.dumps(group, sort_keys=True) for group in groups)


def bf16_bytes(model: Model) -> float:
    return sum(group.kv_bytes_per_token for group in model.layer_groups)


@pytest.mark.parametrize("case", EXPECTED, ids=lambda case: case["model"])
def test_layer_groups(case: dict[str, Any]) -> None:
    model = load_model(FOLDER / f"{case['model']}.json")
    assert in_order([described(group) for group in model.layer_groups]) == in_order(case["groups"])
    assert model.layers_without_kv == case.get("layers_without_kv", 0)


@pytest.mark.parametrize("case", EXPECTED, ids=lambda case: case["model"])
def test_kv_bytes(case: dict[str, Any]) -> None:
    expected = case["kv_bytes_per_token_bf16_unwindowed"]
    if expected is None:
        expected = 225280  # K and V both stored, as the published note says
    assert bf16_bytes(load_model(FOLDER / f"{case['model']}.json")) == expected


@pytest.mark.parametrize("case", EXPECTED, ids=lambda case: case["model"])
def test_nothing_is_left_unread(case: dict[str, Any]) -> None:
    assert load_model(FOLDER / f"{case['model']}.json").unread == ()


def test_sinks_follow_from_the_class_or_its_flags() -> None:
    assert all(g.attention.sinks for g in load_model(FOLDER / "gpt-oss-20b.json").layer_groups)
    mimo = {
        g.attention.sliding_window: g.attention.sinks for g in load_model(FOLDER / "MiMo-V2-Flash.json").layer_groups
    }
    assert mimo == {None: False, 128: True}


def test_an_attention_chunk_size_beside_windows_means_no_chunks() -> None:
    assert all(g.attention.chunk_size is None for g in load_model(FOLDER / "MiMo-V2-Flash.json").layer_groups)


def test_assumptions_are_said() -> None:
    assert any("no_rope_layer_interval=4" in note for note in load_model(FOLDER / "Llama-4-Scout-17B-16E.json").notes)
    assert any("num_attention_heads=8" in note for note in load_model(FOLDER / "gemma-3-4b-it-sparse.json").notes)
