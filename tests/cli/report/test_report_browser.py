"""The page in headless Chromium: quiet, self-contained, drawn, filtered, sorted, dark, small and printed."""

import os

import pytest
from browser import Browser, chromium

from cli.report.page import render

pytestmark = pytest.mark.service
SHOWN = "[...document.querySelectorAll('figure[data-chart]')].filter((f) => !f.hidden)"
ROWS = "[...document.querySelectorAll('#winners-table tbody tr')].filter((r) => !r.hidden)"


@pytest.fixture(scope="module")
def address(page, tmp_path_factory):
    if chromium() is None:
        if os.environ.get("CI") == "true":
            pytest.fail("no Chromium on this machine")
        pytest.skip("no Chromium on this machine")
    pytest.importorskip("plotly")
    path = tmp_path_factory.mktemp("page") / "report.html"
    path.write_text(render(page), encoding="utf-8")
    return path.as_uri()


@pytest.fixture(scope="module")
def browser(address):
    with Browser() as one:
        one.open(address)
        yield one
        assert one.complaints() == []
        assert one.requests() == []


def ready(browser, code):
    """Do something and wait until the page is drawn again."""
    browser.run("document.documentElement.dataset.ready = 'false'")
    browser.run(code)
    browser.wait("document.documentElement.dataset.ready === 'true'")


def test_opens_without_a_word_and_without_a_request(browser):
    assert browser.complaints() == []
    assert browser.requests() == []


def test_every_shown_chart_is_drawn_and_labelled(browser, page):
    names = browser.run(f"{SHOWN}.map((f) => f.dataset.chart)")
    assert {"roofline", "winners-decode", "winners-extend", "splits", "timeline", "accuracy"} <= set(names)
    assert {"service-front", "service-ttft", "service-tpot", "service-throughput"} <= set(names)
    drawn = browser.run(f"{SHOWN}.map((f) => f.querySelectorAll('.main-svg').length > 0)")
    assert all(drawn)
    labels = browser.run(f"{SHOWN}.map((f) => f.querySelector('[role=img]').getAttribute('aria-label').length)")
    assert min(labels) > 20


def test_choosing_a_shape_filters_tables_and_charts(browser, page):
    other = page.shapes[1]
    before = browser.run(f"{ROWS}.length")
    ready(browser, f"s = document.getElementById('shape'); s.value = {other!r}; s.dispatchEvent(new Event('change'))")
    assert browser.run(f"{ROWS}.every((r) => r.dataset.shape === {other!r})")
    assert browser.run(f"{ROWS}.length") != before
    assert "splits" not in browser.run(f"{SHOWN}.map((f) => f.dataset.chart)")
    assert not browser.run("document.querySelector('#splits .hint').hidden")
    ready(browser, "s.value = 'all'; s.dispatchEvent(new Event('change'))")
    assert browser.run(f"{ROWS}.length") == browser.run("document.querySelectorAll('#winners-table tbody tr').length")
    ready(browser, f"s.value = {page.shapes[0]!r}; s.dispatchEvent(new Event('change'))")


def test_phase_and_backend_filters(browser):
    ready(browser, "document.querySelector('.segments [data-phase=extend]').click()")
    assert set(browser.run(f"{ROWS}.map((r) => r.dataset.phase)")) == {"extend"}
    assert "winners-decode" not in browser.run(f"{SHOWN}.map((f) => f.dataset.chart)")
    ready(browser, "document.querySelector('.segments [data-phase=all]').click()")
    traces = "document.querySelector('figure[data-chart=accuracy] .plot').data.map((t) => t.name)"
    assert "triton" in browser.run(traces)
    ready(browser, "document.querySelector('.chips [data-backend=triton]').click()")
    assert "triton" not in browser.run(traces)
    assert browser.run("document.querySelector('.chips [data-backend=triton]').getAttribute('aria-pressed')") == "false"
    ready(browser, "document.querySelector('.chips [data-backend=triton]').click()")


def test_tables_sort_by_number_both_ways(browser):
    order = "[...document.querySelectorAll('#winners-table tbody tr')].map((r) => Number(r.cells[4].dataset.order))"
    click = "document.querySelectorAll('#winners-table th button')[4].click()"
    browser.run(click)
    up = browser.run(order)
    assert up == sorted(up)
    browser.run(click)
    assert browser.run(order) == up[::-1]
    assert browser.run("document.querySelectorAll('#winners-table th')[4].getAttribute('aria-sort')") == "descending"


def test_a_view_can_be_shared_by_its_address(address, page):
    other = page.shapes[1].replace(" ", "+")
    with Browser() as one:
        one.open(f"{address}#shape={other}&phase=decode&off=triton&theme=dark")
        assert one.run("document.getElementById('shape').value") == page.shapes[1]
        assert set(one.run(f"{ROWS}.map((r) => r.dataset.phase)")) == {"decode"}
        assert one.run("getComputedStyle(document.documentElement).colorScheme") == "dark"


def test_theme_changes_the_charts(browser):
    colour = "document.querySelector('figure[data-chart=accuracy] .plot').layout.font.color"
    light = browser.run(colour)
    ready(browser, "document.getElementById('theme').click()")
    assert browser.run(colour) != light
    ready(browser, "document.getElementById('theme').click()")
    assert browser.run(colour) == light


def test_fits_a_phone(address):
    with Browser(390, 844, mobile=True) as phone:
        phone.open(address)
        assert phone.run("document.documentElement.scrollWidth") <= 390
        assert phone.complaints() == []


def test_prints(browser):
    pdf = browser.call("Page.printToPDF", printBackground=True)["data"]
    assert len(pdf) > 10_000
