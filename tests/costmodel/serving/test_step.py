"""One forward step in parts."""

import pytest
from serving_cases import asked, device, made, model, steps

from costmodel import Batch, Incompatible, predict
from costmodel.mla_form import form_for
from costmodel.serving import Asked, Deployment, Parallel, StepModel, measured_key
from costmodel.serving.calibrated import sustained_factor
from costmodel.serving.step import weakest
from hwprofiles import load_profile


def test_any_batch_is_a_step():
    mixed = steps().of(Batch.extend([512, 1, 1], [512, 1000, 2000]))
    assert mixed.phase == "mixed"
    assert steps().of(Batch.decode([1024] * 8)) == steps().decode(8, 1024)
    prefill = steps().of(Batch.extend([512], [512]))
    assert prefill.seconds < mixed.seconds
    assert prefill == steps().extend(1, 512, 512)


def test_parts_add_up_and_each_has_an_origin():
    for step in (steps().decode(8, 1024), steps().extend(1, 512, 512)):
        assert step.seconds == pytest.approx(sum(part.seconds for part in step.parts.values()))
        assert step.low < step.seconds < step.high
        assert {"plan", "attention", "kv_write", "matmul", "elementwise", "head", "scheduler"} == set(step.parts)
        assert all(part.evidence in ("measured", "calibrated", "others", "structure") for part in step.parts.values())


def test_attention_is_the_cost_models_over_all_layers():
    group = model().layer_groups[0]
    alone = predict(group.attention, Batch.decode([1024] * 8), backend="fa3", profile=device())
    factor = sustained_factor(device().id, "fa3", "decode", alone.seconds)
    assert steps().decode(8, 1024).attention.seconds == pytest.approx(32 * alone.seconds * factor)


def test_a_measured_call_replaces_the_predicted_one():
    attention, batch = model().layer_groups[0].attention, Batch.decode([1024] * 8)
    found = StepModel(asked().deployment("fa3", "fa3", 1), {measured_key("fa3", attention, batch): 5e-6})
    step = found.decode(8, 1024)
    assert step.attention.evidence == "measured"
    assert step.attention.seconds == pytest.approx(32 * 5e-6 * sustained_factor(device().id, "fa3", "decode", 5e-6))
    assert found.decode(9, 1024).attention.evidence != "measured"


def test_tensor_parallelism_adds_all_reduce_and_divides_the_rest():
    one, four = steps().decode(8, 1024), steps(tp=4).decode(8, 1024)
    assert "all_reduce" in four.parts
    assert "all_reduce" not in one.parts
    assert four.parts["matmul"].seconds < one.parts["matmul"].seconds


def test_experts_are_a_part_of_their_own():
    assert steps(name="Mixtral-8x7B-v0.1").decode(4, 512).parts["experts"].seconds > 0


def test_latent_attention_prefills_expanded():
    form = form_for(model("DeepSeek-V3").layer_groups[0].attention, "extend")
    assert (form.form, form.head_dim, form.value_dim, form.num_kv_heads) == ("expanded", 192, 128, 128)


def test_what_flashmla_prefills_with_is_flashinfer():
    ours = steps("flashmla", "flashmla", "DeepSeek-V3", 8).extend(1, 512, 512).attention
    assert ours == steps("flashinfer", "flashmla", "DeepSeek-V3", 8).extend(1, 512, 512).attention


def test_a_padded_graph_multiplies_more_rows_and_attends_to_no_more():
    plain, padded = steps().decode(5, 1024), steps().decode(5, 1024, padded=8)
    assert padded.attention == plain.attention
    assert padded.parts["head"].seconds > plain.parts["head"].seconds


def test_steps_follow_each_other_part_by_part():
    a, b = steps().extend(1, 512, 512), steps().extend(1, 256, 768)
    assert (a + b).seconds == pytest.approx(a.seconds + b.seconds)
    assert (a + b).attention.seconds == pytest.approx(a.attention.seconds + b.attention.seconds)


def test_an_impossible_backend_says_why():
    with pytest.raises(Incompatible, match="MLA"):
        steps("fa3", "flashmla").decode(1, 64)


def test_weakest_evidence_wins():
    step = steps().decode(1, 64)
    assert weakest(step.parts) == "structure"


def test_a_page_below_one_is_refused():
    with pytest.raises(ValueError, match="page_size=0"):
        Deployment(made(), load_profile("h200"), "fa3", "fa3", page_size=0)


def test_kv_dtype_is_named():
    request = Asked(model(), device(), Parallel(), kv_cache_dtype="fp8_e4m3")
    assert request.deployment("fa3", "fa3", 1).stored_kv_dtype == "fp8_e4m3"
    assert asked().deployment("fa3", "fa3", 1).stored_kv_dtype == "bf16"
