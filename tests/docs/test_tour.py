"""The tour tells the truth: its commands run, print what it shows, and its prose has no other figures."""

import pytest
from tour import FIGURE, ROOT, TOUR, prose, run, steps

TEXT = TOUR.read_text(encoding="utf-8")
STEPS = list(steps(TEXT))


@pytest.mark.parametrize("step", STEPS, ids=[str(i) for i in range(len(STEPS))])
def test_command_prints_what_the_tour_shows(step, tmp_path, monkeypatch):
    if " report " in step.command:
        pytest.importorskip("plotly")
    monkeypatch.chdir(ROOT)
    assert run(step.command, tmp_path) == step.output, "run python tests/docs/refresh_tour.py"
    if " report " in step.command:
        assert (tmp_path / "report.html").stat().st_size > 1_000_000


def test_every_figure_of_the_prose_is_in_an_output():
    shown = "\n".join(step.output for step in STEPS)
    figures = FIGURE.findall(prose(TEXT))
    assert figures
    assert [figure for figure in figures if figure not in shown] == []


def test_pictures_of_the_tour_exist_and_are_small():
    for name in ("report.png",):
        assert f"images/{name}" in TEXT
        assert 10_000 < (ROOT / "docs" / "images" / name).stat().st_size < 300_000


def test_what_the_prose_concludes_is_what_the_outputs_say():
    shown = {step.command.partition("--batch-spec ")[2]: step.output for step in STEPS if " predict " in step.command}
    assert "compute" in shown["q2k --backend fa3"]
    assert "memory" in shown["64q1s4k --page-size 64 --backend fa3"]
    half, whole = (latency(shown[f"{spec} --backend fa3"]) for spec in ("q16k", "q32k"))
    assert 3.5 < whole / half < 4.5
    long = "q1s32k --backend fa3 --knob num_splits=1"
    explained = next(step.output for step in STEPS if "explain" in step.command and "q1s32k" in step.command)
    assert latency(shown[long]) > 4 * float(explained.split("fa3: ")[1].split()[0])
    nearly_full = "12q1s8k --page-size 64 --backend fa3"
    assert latency(shown[nearly_full]) > latency(shown[f"{nearly_full} --knob num_splits=1"])
    pair = "--page-size 64 --backend fa3 --backend flashinfer"
    assert first(shown[f"q2k {pair}"]) != first(shown[f"64q1s4k {pair}"])


def rows(output):
    """Cells of a printed table."""
    return [[cell.strip() for cell in line.split("│")[1:-1]] for line in output.splitlines() if line.startswith("│")]


def latency(output):
    """Latency in the first row."""
    return float(rows(output)[0][2])


def first(output):
    """Backend in the first row."""
    return rows(output)[0][0]
