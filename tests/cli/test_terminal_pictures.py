"""Pictures of characters: the curves of a sweep, the wave timeline, and the matrix that is never stored."""

import io

import pytest
from rich.console import Console

from cli.score_matrix import binary, score_matrix_words
from cli.sweep_picture import draw, sweep_picture
from cli.sweep_table import MARKS, Cell, fastest, styles_of, sweep_table, winners_first
from cli.wave_picture import LAUNCH, MERGE, TILES, WIDTH, wave_lines
from costmodel import Attention, Batch
from costmodel.explain import explain
from costmodel.machine import machine_of
from costmodel.score_matrix import stored_scores
from hwprofiles import load_profile

H200 = load_profile("h200")
GQA = Attention(num_qo_heads=32, num_kv_heads=8, head_dim=128)


def taken_apart(batch, knobs=None):
    """A call of fa3 on the H200."""
    return explain(GQA, batch, backend="fa3", profile=H200, knobs=knobs)


def test_sweep_draws_every_backend_that_runs_and_no_other():
    picture = sweep_picture(GQA, H200, 64, ["fa3", "triton", "flashmla"]).plain
    legend = picture.splitlines()[-1]
    assert "fa3" in legend
    assert "triton" in legend
    assert "flashmla" not in picture


def test_curves_rise_from_left_to_right():
    lines = draw([256, 1024, 4096], {"a": (1e-5, 1e-4, 1e-3)}, "title").plain.splitlines()
    spots = [(line.index(MARKS[0]), n) for n, line in enumerate(lines[:-1]) if MARKS[0] in line]
    assert len(spots) == 3
    assert spots == sorted(spots, key=lambda spot: -spot[0])


def test_the_first_curve_is_on_top():
    same = (1e-5, 1e-4)
    body = draw([256, 1024], {"a": same, "b": same}, "title").plain.splitlines()[1:-1]
    assert sum(line.count(MARKS[0]) for line in body) == 2
    assert sum(line.count(MARKS[1]) for line in body) == 0


def test_nothing_that_runs_is_said_in_words():
    assert "no backend" in sweep_picture(GQA, H200, 64, ["flashmla"]).plain


@pytest.mark.parametrize("width", [80, 120])
def test_pictures_keep_to_the_terminal(width):
    styles = styles_of(["fa3", "triton", "flashinfer"])
    console = Console(width=width, file=io.StringIO(), highlight=False, markup=False)
    names = list(styles)
    cells = fastest(GQA, H200, 64, names)
    console.print(sweep_table("title", cells, styles))
    console.print(sweep_picture(GQA, H200, 64, names, styles=styles, width=width))
    lines = console.file.getvalue().splitlines()
    assert max(map(len, lines)) <= width
    assert "…" not in console.file.getvalue()
    marks = {styles[cell.backend][0] for cell in cells}
    assert all(any(mark in line for line in lines) for mark in marks)


def test_marks_go_to_the_winners_first():
    cells = [Cell(1, 256, "b", 1e-6), Cell(2, 256, "b", 1e-6), Cell(4, 256, "a", 1e-6)]
    assert winners_first(cells, ["c", "a", "b"]) == ["b", "a", "c"]


@pytest.mark.parametrize("splits", [1, 3])
def test_wave_lines_count_the_slots_with_work(splits):
    found = taken_apart(Batch.decode([8192] * 12, page_size=64), {"num_splits": splits})
    rows = [line for line in wave_lines(found) if "slots |" in line]
    assert sum(int(line.split()[0]) for line in rows) == sum(width for _, width in found.loads)
    for line in rows:
        inside = line[line.index("|") + 1 : -1]
        assert len(inside) == WIDTH
        assert inside.startswith(LAUNCH)
        assert (MERGE in inside) == (splits > 1)


def test_wave_lines_show_second_jobs_in_another_tone():
    found = taken_apart(Batch.decode([8192] * 12, page_size=64), {"num_splits": 3})
    assert found.plan.job_count > found.slots
    assert all(any(tone in line for line in wave_lines(found)) for tone in TILES)


def test_many_kinds_of_slots_fit_twelve_lines():
    found = taken_apart(Batch.extend([2048, 1000, 300], [2048, 1000, 300], page_size=64))
    assert len([line for line in wave_lines(found) if "slots |" in line]) <= 12


def test_the_scores_of_32k_tokens_take_two_gib_a_head():
    prompt = Batch.extend([32768], [32768])
    stored = stored_scores(GQA, prompt, machine_of(H200))
    assert stored.head_bytes == 2 * 2**30
    words = score_matrix_words(stored)
    assert "2 GiB a head, 64 GiB for 32 heads" in words
    assert "inputs and output are 640 MiB" in words


def test_binary_units():
    assert [binary(n) for n in (12, 2048, 3 << 20)] == ["12 B", "2 KiB", "3 MiB"]
