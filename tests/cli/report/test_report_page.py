"""The page as a file, and the pictures: valid, complete, readable, without a browser."""

import re
from html.parser import HTMLParser

import pytest
from typer import Typer
from typer.testing import CliRunner

from cli.commands.report import report
from cli.errors import WrongInput
from cli.report.page import render
from cli.report.palette import INK_ON_CARD, PALETTE
from cli.report.pictures import write_charts

VOID = {"meta", "link", "br", "circle", "path"}


class Checker(HTMLParser):
    """Checks that tags close, that ids are unique, and collects what pictures and headings say."""

    def __init__(self):
        super().__init__()
        self.stack, self.ids, self.labels, self.links = [], [], [], []

    def handle_starttag(self, tag, attrs):
        given = dict(attrs)
        if tag not in VOID:
            self.stack.append(tag)
        if "id" in given:
            self.ids.append(given["id"])
        if given.get("role") == "img":
            self.labels.append(given.get("aria-label"))
        self.links += [given[name] for name in ("src", "href") if name in given]

    def handle_endtag(self, tag):
        if tag not in VOID:
            assert self.stack.pop() == tag


@pytest.fixture(scope="module")
def html(page):
    pytest.importorskip("plotly")
    return render(page)


def test_page_is_well_formed_and_labelled(html, page):
    checker = Checker()
    checker.feed(html)
    assert checker.stack == []
    assert len(checker.ids) == len(set(checker.ids))
    assert len(checker.labels) == sum(len(section.charts) for section in page.sections)
    assert all(checker.labels)


def test_page_asks_for_nothing_outside_itself(html):
    checker = Checker()
    checker.feed(html)
    assert [link for link in checker.links if not link.startswith(("#", "data:"))] == []
    css = html[: html.index("</style>")]
    assert "url(" not in css
    assert "@import" not in css


def test_text_from_files_cannot_become_markup(page):
    from dataclasses import replace

    pytest.importorskip("plotly")
    evil = "<script>alert(1)</script>"
    made = render(replace(page, device=evil, answer=evil, facts=((evil, evil),)))
    assert evil not in made


def luminance(colour):
    """Relative luminance after WCAG."""
    parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    r, g, b = (p / 12.92 if p <= 0.03928 else ((p + 0.055) / 1.055) ** 2.4 for p in parts)
    return 0.2126 * r + 0.7152 * g + 0.0722 * b


def contrast(a, b):
    """Contrast ratio after WCAG."""
    light, dark = sorted((luminance(a), luminance(b)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


@pytest.mark.parametrize("theme", [0, 1], ids=["light", "dark"])
def test_colours_stand_out_from_the_card(theme):
    card = PALETTE["card"][theme]
    surfaces = ("card", "page", "line")
    ratios = {name: contrast(pair[theme], card) for name, pair in PALETTE.items() if name not in surfaces}
    assert {name: r for name, r in ratios.items() if r < (4.5 if name in INK_ON_CARD else 3.0)} == {}


def test_pictures_of_every_chart(page, tmp_path):
    pytest.importorskip("matplotlib")
    charts = [c for section in page.sections for c in section.charts if c.tags.get("shape") in (None, page.shapes[0])]
    count = write_charts(charts, tmp_path / "plots")
    files = sorted((tmp_path / "plots").iterdir())
    assert count == len(files) == 2 * len(charts)
    assert all(f.read_bytes().startswith(b"\x89PNG" if f.suffix == ".png" else b"<?xml") for f in files)


app = Typer()
app.command()(report)


def test_command_writes_page_and_pictures(records_file, tmp_path):
    pytest.importorskip("plotly")
    out, plots = tmp_path / "deep" / "out.html", tmp_path / "plots"
    arguments = ["--records", str(records_file), "--html", str(out), "--plots", str(plots)]
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 0, result.exception
    assert re.match(r"<!doctype html>", out.read_text(encoding="utf-8"))
    assert (plots / "roofline.svg").exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "--html is missing"),
        (["--html", "x.html", "--records", "nowhere"], "no records at nowhere"),
        (["--html", "x.html", "--records", "a", "--config", "b"], "two sources"),
    ],
)
def test_wrong_input_says_what_to_do(arguments, message):
    error = CliRunner().invoke(app, arguments).exception
    assert isinstance(error, WrongInput)
    assert message in str(error)


@pytest.mark.parametrize("option", ["--html", "--plots"])
def test_places_that_cannot_be_written_are_one_message(records_file, tmp_path, option):
    pytest.importorskip("matplotlib")
    pytest.importorskip("plotly")
    blocked = tmp_path / "file"
    blocked.write_text("", encoding="utf-8")
    error = CliRunner().invoke(app, ["--records", str(records_file), option, str(blocked / "out")]).exception
    assert isinstance(error, WrongInput)
    assert f"{option} {blocked / 'out'} cannot be written" in str(error)


def test_nothing_is_worked_out_for_a_place_that_cannot_be_written(records_file, tmp_path, monkeypatch):
    def never(*_):
        raise AssertionError("the page was built")

    monkeypatch.setattr("cli.report.build.build", never)
    for option, path, why in (
        ("--html", tmp_path, "it is there and no file"),
        ("--plots", records_file, "cannot be written"),
    ):
        error = CliRunner().invoke(app, ["--records", str(records_file), option, str(path)]).exception
        assert isinstance(error, WrongInput)
        assert why in str(error)


def test_a_file_of_damaged_lines_is_wrong_input(tmp_path):
    lines = tmp_path / "damaged.jsonl"
    lines.write_text('{"schema": 1}\nnothing\n', encoding="utf-8")
    error = CliRunner().invoke(app, ["--records", str(lines), "--html", str(tmp_path / "x.html")]).exception
    assert isinstance(error, WrongInput)
    assert "holds no records: 2 damaged lines" in str(error)
    assert not (tmp_path / "x.html").exists()


def test_a_profile_of_another_architecture_is_refused(records_file):
    error = CliRunner().invoke(app, ["--records", str(records_file), "--html", "x.html", "--gpu", "mi300x"]).exception
    assert isinstance(error, WrongInput)
    assert "mi300x is no profile of NVIDIA H200" in str(error)


def test_another_shape_may_stand_first(records_file, tmp_path):
    pytest.importorskip("matplotlib")
    arguments = ["--records", str(records_file), "--plots", str(tmp_path)]
    assert CliRunner().invoke(app, [*arguments, "--shape", "MQA 8/1, head 128"]).exit_code == 0
    assert not (tmp_path / "splits.png").exists()
    error = CliRunner().invoke(app, [*arguments, "--shape", "MQA 8/1"]).exception
    assert isinstance(error, WrongInput)
    assert "MQA 8/1, head 128" in str(error)


@pytest.mark.parametrize(("module", "option"), [("plotly.offline", "--html"), ("matplotlib", "--plots")])
def test_missing_library_is_one_message(records_file, tmp_path, monkeypatch, module, option):
    monkeypatch.setitem(__import__("sys").modules, module, None)
    arguments = ["--records", str(records_file), option, str(tmp_path / "out")]
    error = CliRunner().invoke(app, arguments).exception
    assert isinstance(error, WrongInput)
    assert "pip install 'attnroof[plots]'" in str(error)
