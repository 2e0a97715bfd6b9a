"""The report of a tuned configuration: its rows are read as measurements, its table and failures are shown."""

import pytest
from report_fakes import DEVICE, GQA

from cli.errors import AnswerIsNo
from cli.report.answer import answer
from cli.report.build import build
from cli.report.choices import rejected_table, tuned_table
from cli.report.page import Section
from cli.report.source import from_configurations
from tuner.configuration import Configuration, Provenance, write
from tuner.row import Choice, Counts, Row, Tried

FASTER, OWN = "fa3[num_splits=16]", "fa3[num_splits=0]"


def choice(backend, measured_us, **knobs):
    """A measured choice that SGLang reaches where it has no knobs."""
    return Choice(
        backend=backend,
        implementation="library",
        implementation_version="1.0",
        knobs=knobs,
        sglang=not knobs.get("num_splits"),
        measured_us=measured_us,
        predicted_us=measured_us,
        repeats=5,
    )


def row(**changed):
    """One decode of one long request: the default is twice as slow as the best."""
    fields = {
        "phase": "decode",
        "batch_size": 1,
        "q_len": 1,
        "kv_len": 32768,
        "max_kv_len": 32768,
        "spec": "q1s32k",
        "best": choice("fa3", 45.0, num_splits=16),
        "best_sglang": choice("fa3", 90.0, num_splits=0),
        "sglang_default": choice("fa3", 90.0, num_splits=0),
        "gain": 2.0,
        "noise": 0.01,
        "status": "measured",
        "counts": Counts(candidates=3, measured=2, failed=1),
        "tried": {FASTER: Tried(measured_us=45.0), OWN: Tried(measured_us=90.0)},
        "failures": {"triton[max_kv_splits=8]": "crashed: illegal address"},
    }
    return Row(**{**fields, **changed})


@pytest.fixture
def saved(tmp_path):
    """A function that saves a configuration with some rows and gives its folder."""

    def save(*rows):
        attention = {"num_qo_heads": 32, "num_kv_heads": 8, "head_dim": 128, "dtype": "bf16", "kv_dtype": "bf16"}
        made = Configuration(
            device=DEVICE,
            attention=attention,
            page_size=64,
            provenance=Provenance(tool="attnroof", created="2026-11-30T14:05:09Z", command="attnroof tune"),
        )
        assert made.to_attention() == GQA
        write(made.with_rows(rows), tmp_path)
        return tmp_path

    return save


def test_rows_become_measurements(saved):
    source = from_configurations(saved(row()))
    assert {(r.backend, r.knobs["num_splits"], round(r.measured * 1e6)) for r in source.rows} == {
        ("fa3", 16, 45),
        ("fa3", 0, 90),
    }


def test_answer_tells_the_pair_and_the_gain(saved):
    text = answer(from_configurations(saved(row())))
    assert "decode with fa3" in text
    assert "2.00× as fast as the default over 1 measured batch" in text


def test_no_gain_is_said(saved):
    text = answer(from_configurations(saved(row(gain=1.0))))
    assert "nothing beats the default" in text


def test_table_and_failures(saved):
    source = from_configurations(saved(row()))
    (line,) = tuned_table(source).rows
    assert [cell.text for cell in line.cells][2:5] == ["fa3 num_splits=16", "fa3", "fa3"]
    assert "2.00×" in [cell.text for cell in line.cells]
    texts = [" ".join(cell.text for cell in r.cells) for r in rejected_table(source).rows]
    assert any("triton crashed: illegal address" in text for text in texts)


def test_page_shows_before_and_after(saved):
    source = from_configurations(saved(row()))
    page = build(source, "attnroof report", Section("service", "", ""))
    assert page.sections[0].anchor == "tuned"
    (chart,) = [c for s in page.sections for c in s.charts if c.name == "timeline"]
    assert [panel.title.split(":")[0] for panel in chart.panels] == ["Default", "Tuned"]


def test_nothing_measured_is_no_answer(saved):
    with pytest.raises(AnswerIsNo, match="was measured"):
        from_configurations(saved(row(tried={}, status="predicted")))
