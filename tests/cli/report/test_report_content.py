"""What the report says about a set of records whose answer is known."""

from dataclasses import replace
from itertools import pairwise

import pytest
from report_fakes import GQA, SPLITS

from cli.errors import AnswerIsNo, WrongInput
from cli.report.accuracy import accuracy_chart, judged
from cli.report.answer import answer, details, standings, too_rare
from cli.report.charts import GridChart, TimelineChart, XYChart, log_ticks
from cli.report.choices import rejected_table, winners_table
from cli.report.roofline import roofline
from cli.report.service import shown_pairs
from cli.report.source import from_records, parse_candidate
from cli.report.splits import split_charts
from cli.report.timeline import bars, take_apart, timelines
from cli.report.winners import winner_maps
from cli.report.words import batch_name, knob_text, microseconds, shape_name
from costmodel import Attention, Batch, load_model
from costmodel.serving import Asked, Load, advise
from costmodel.work import count_work
from hwprofiles import load_profile


def charts_of(page, name):
    """All charts of one name."""
    return [chart for section in page.sections for chart in section.charts if chart.name == name]


def test_answer_names_the_fastest_pair(source):
    assert "prefill with fa3 and decode with flashinfer" in answer(source)


def test_standings_by_hand(source):
    decode = [w for w in source.workloads if w.batch.phase == "decode"]
    first = standings(decode)[0]
    assert (first.backend, first.loss, first.wins, first.workloads) == ("flashinfer", 0.0, 1.0, 6)


def test_backends_with_too_few_runs_are_named(source):
    assert "too few" not in details(source)
    contested = [w for w in source.workloads if len(w.defaults) > 1]
    default = next(iter(contested[0].defaults.values()))
    first = replace(contested[0], rows=(*contested[0].rows, replace(default, backend="flex_attention")))
    assert too_rare([first, *contested[1:]]) == ["flex_attention"]
    assert all(s.backend != "flex_attention" for s in standings([first, *contested[1:]]))


def test_damage_is_told(source):
    assert source.remarks == ("1 damaged lines were left out",)


def test_roofline_points_lie_where_work_and_time_put_them(source):
    chart = roofline(source)
    points = [s for s in chart.series if s.style == "points"]
    assert sum(len(s.x) for s in points) == len(source.workloads)
    workload = next(w for w in source.workloads if w.batch.phase == "extend" and w.attention == GQA)
    work = count_work(workload.attention, workload.batch)
    found = [(x, y) for s in points for x, y in zip(s.x, s.y, strict=True)]
    expected = (work.flops / work.bytes, work.flops / workload.best.measured / 1e12)
    assert any(pair == pytest.approx(expected) for pair in found)


def test_maps_show_each_phase_with_measured_winners(source):
    maps = winner_maps(source)
    assert {(m.tags["shape"], m.name) for m in maps} == {
        (shape, f"winners-{phase}") for shape in source.shapes for phase in ("decode", "extend")
    }
    for one in maps:
        assert all(0 <= cell.strength <= 1 for cell in one.cells)
        assert {s.name for s in one.points} == {"measured: fa3" if "extend" in one.name else "measured: flashinfer"}


def test_split_chart_marks_the_best_count_and_the_library_own(source):
    charts = split_charts(source)
    assert {chart.tags["shape"] for chart in charts} == {shape_name(GQA)}
    series = {s.name: s for s in charts[0].series}
    assert series["fa3, measured"].x == tuple(map(float, SPLITS))
    best = min(zip(series["fa3, measured"].y, SPLITS, strict=True))[1]
    assert any(mark.text == f"best: {best}" for mark in charts[0].marks)


def test_timeline_rows_never_do_two_things_at_once(source):
    (chart,) = timelines(source)
    assert [panel.title.split(":")[0] for panel in chart.panels] == ["Default", "Tuned"]
    for panel in chart.panels:
        by_row = {}
        for bar in panel.bars:
            by_row.setdefault(bar.row, []).append((bar.start, bar.start + bar.length))
        assert set(by_row) <= set(range(panel.rows))
        for spans in by_row.values():
            spans.sort()
            assert all(a[1] <= b[0] + 1e-6 for a, b in pairwise(spans))


def test_timeline_ends_when_the_prediction_does(source):
    workload = next(w for w in source.workloads if w.batch.size == 1 and w.batch.phase == "decode")
    for knobs in ({}, {"num_splits": 1}):
        found = take_apart(source.profile, workload, "fa3", knobs)
        end = max(bar.start + bar.length for bar in bars(found))
        assert end == pytest.approx(found.prediction.seconds * 1e6, rel=1e-6)


def test_tables_hold_every_workload_and_every_failure(source):
    assert len(winners_table(source).rows) == len(source.workloads)
    texts = [" ".join(cell.text for cell in row.cells) for row in rejected_table(source).rows]
    assert any("triton" in t and "crashed: illegal address" in t for t in texts)
    assert any(t.startswith("flashmla ") and "2 shapes" in t for t in texts)


def test_points_far_off_stay_in_the_picture_and_are_counted(source):
    far = replace(source, rows=[replace(row, measured=row.prediction.seconds / 5) for row in source.rows])
    chart = accuracy_chart(far)
    assert {y for series in chart.series[3:] for y in series.y} == {2.0}
    assert f"{len(judged(source))} beyond a factor of 2" in chart.title
    near = replace(source, rows=[replace(row, measured=row.prediction.seconds / 1.5) for row in source.rows])
    assert "beyond" not in accuracy_chart(near).title


def test_pairs_far_behind_are_left_to_the_table():
    asked = Asked(load_model("examples/models/Qwen3-8B"), load_profile("h200"))
    advice = advise(asked, Load(1024, 256, concurrency=32))
    shown = shown_pairs(advice)
    best = max(choice.service.rates.tokens_per_s for choice in advice.choices)
    assert min(choice.service.rates.tokens_per_s for choice in shown) >= best / 2
    assert {advice.ahead.name, advice.default.name} <= {choice.name for choice in shown}
    assert len(shown) < len({choice.pair.decode for choice in advice.choices}) + 2


def test_service_compares_pairs_with_intervals(page):
    for name in ("ttft", "tpot", "throughput"):
        (chart,) = charts_of(page, f"service-{name}")
        (series,) = chart.series
        assert all(low <= y <= high for low, y, high in zip(series.low, series.y, series.high, strict=True))
    assert any("SGLang's default" in text for _, text in charts_of(page, "service-ttft")[0].x.ticks)


def test_every_chart_says_what_it_shows(page):
    kinds = set()
    for section in page.sections:
        for chart in section.charts:
            kinds.add(type(chart))
            assert chart.title
            assert len(chart.alt) > 20
    assert kinds == {XYChart, GridChart, TimelineChart}


def test_page_opens_with_the_shape_that_has_most_to_show(page):
    assert page.shapes[0] == shape_name(GQA)


def test_nothing_measured_is_no_answer(tmp_path):
    empty = tmp_path / "empty.jsonl"
    empty.write_text("")
    with pytest.raises(AnswerIsNo, match=r"nothing in .* was measured"):
        from_records(empty)
    with pytest.raises(WrongInput, match="--records"):
        from_records(tmp_path / "none")


def test_words():
    assert shape_name(Attention.mla(128)) == "MLA 128/1, head 576/512"
    assert shape_name(Attention(8, 8, 64, sliding_window=128, sinks=True)) == "MHA 8/8, head 64, window 128, sinks"
    assert batch_name(Batch.decode([4096] * 8)) == "8 × 4k"
    assert batch_name(Batch.extend([2048], [18432])) == "1 × 2k of 18k"
    assert knob_text("fa3", {"num_splits": 8, "pack_gqa": "auto"}) == "num_splits=8"
    assert [microseconds(s) for s in (13.31e-6, 1.5e-3)] == ["13.3 µs", "1.5 ms"]


@pytest.mark.parametrize(
    ("key", "backend", "knobs"),
    [
        ("fa3[]", "fa3", {}),
        ("fa3[num_splits=4,pack_gqa=True]", "fa3", {"num_splits": 4, "pack_gqa": True}),
        ("flashinfer[kernel=fa2]", "flashinfer", {"kernel": "fa2"}),
    ],
)
def test_candidates_are_read_back(key, backend, knobs):
    from executors.outcome import Candidate

    assert parse_candidate(key) == (backend, knobs)
    assert Candidate(backend, knobs).key == key


@pytest.mark.parametrize(("low", "high"), [(1.0, 1.6), (300.0, 440.0), (3.0, 40.0), (0.01, 1e5)])
def test_log_axes_have_a_readable_number_of_ticks(low, high):
    ticks = log_ticks(low, high)
    assert 3 <= len(ticks) <= 9, ticks
    assert all(low * 0.99 <= value <= high * 1.01 for value, _ in ticks)
