"""Trace files: the field's formats, and what is wrong with bad ones."""

import json
import time

import pytest

from costmodel.serving.trace_fields import TraceError
from costmodel.serving.traces import LONGEST_LINE, Reading, read_trace

AZURE = [
    "TIMESTAMP,ContextTokens,GeneratedTokens",
    "2023-11-16 18:15:46.6805900,374,44",
    "2023-11-16 18:15:50.9951690,396,109",
]
BURST = [
    "Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type",
    "5,GPT-4,472,18,490,API log",
    "45,GPT-4,7,8,15,",
]
MOONCAKE = [
    '{"timestamp": 0, "input_length": 6755, "output_length": 500, "hash_ids": [0, 1]}',
    '{"timestamp": 3052, "input_length": 7234, "output_length": 794, "hash_ids": [0, 2]}',
]


def read(lines, **reading):
    return list(read_trace(iter(lines), Reading("trace", **reading)))


def test_azure_times_are_dates_from_the_first():
    first, second = read(AZURE)
    assert (first.arrival, first.isl, first.osl) == (0.0, 374, 44)
    assert second.arrival == pytest.approx(4.314579, abs=1e-6)


def test_azures_second_form_of_dates_is_read():
    rows = [AZURE[0], "2024-05-10 00:00:00.009930+00:00,2162,5", "2024-05-10 00:00:01.5+00:00,2399,6"]
    assert read(rows)[1].arrival == pytest.approx(1.49007)


def test_burst_gpt_is_in_seconds():
    assert [(r.arrival, r.isl, r.osl) for r in read(BURST)] == [(0.0, 472, 18), (40.0, 7, 8)]


def test_mooncake_is_in_milliseconds_and_has_blocks():
    first, second = read(MOONCAKE)
    assert second.arrival == pytest.approx(3.052)
    assert (first.blocks, second.blocks) == ((0, 1), (0, 2))


def test_the_unit_of_times_can_be_said():
    assert read(MOONCAKE, unit="s")[1].arrival == 3052


@pytest.mark.parametrize("indent", [None, 2])
def test_conversations_give_lengths_by_their_characters(indent):
    talks = [
        {"id": "a", "conversations": [{"from": "human", "value": "x" * 400}, {"from": "gpt", "value": "é" * 80}]},
        {"id": "b", "conversations": [{"from": "human", "value": "alone"}]},
        {"messages": [{"role": "user", "content": "[{,"}, {"role": "assistant", "content": "]}" * 10}]},
    ]
    reading = Reading("trace")
    found = list(read_trace(iter(json.dumps(talks, indent=indent).splitlines()), reading))
    assert [(r.isl, r.osl) for r in found] == [(100, 20), (1, 5)]
    assert "characters / 4" in reading.notes[0]


def test_one_line_of_any_length_is_read_in_parts():
    talks = [{"messages": [{"content": "é[{" * 400_000}, {"content": "no"}]}, {"messages": [{"content": "ok"}] * 2}]
    text = json.dumps(talks)
    parts = [text[i : i + LONGEST_LINE] for i in range(0, len(text), LONGEST_LINE)]
    assert len(parts) > 1
    assert [r.isl for r in read(parts)] == [300_000, 1]


def test_windows_line_ends_marks_and_blank_lines_are_read():
    lines = ["\ufeff" + BURST[0] + "\r\n", BURST[1] + "\r\n", "\r\n", BURST[2] + "\r\n"]
    assert len(read(lines)) == 2


@pytest.mark.parametrize(
    ("lines", "why"),
    [
        ([], "is empty"),
        (["\n", "  \n"], "is empty"),
        (["when,how,much"], "line 1: no known header"),
        (["TIMESTAMP,ContextTokens", "x"], "line 1: .* needs the column 'GeneratedTokens'"),
        ([BURST[0]], "holds no request"),
        ([*AZURE, "2023-11-16 18:15:40,1,1"], "line 4: time goes back"),
        ([*AZURE, "yesterday,1,1"], "line 4: TIMESTAMP='yesterday' is no date"),
        ([*BURST, "50,GPT-4,0,8,8,"], "line 4: Request tokens='0' must be from 1"),
        ([*BURST, "50,GPT-4,-3,8,5,"], "line 4: Request tokens='-3' must be from 1"),
        ([*BURST, "50,GPT-4,nan,8,5,"], "line 4: Request tokens='nan' is no whole number"),
        ([*BURST, "50,GPT-4,1.5,8,5,"], "line 4: Request tokens='1.5' is no whole number"),
        ([*BURST, "-5,GPT-4,1,8,5,"], "line 4: Timestamp='-5' is negative"),
        ([*BURST, "inf,GPT-4,1,8,5,"], "line 4: Timestamp='inf' is no finite number"),
        ([*BURST, "50,GPT-4"], "line 4: 2 cells for 6 columns"),
        ([MOONCAKE[0], '{"timestamp": 1, "input_length": 5}'], "line 2: 'output_length' is missing"),
        ([MOONCAKE[0], '{"timestamp": NaN, "input_length": 5, "output_length": 1}'], "line 2: holds NaN"),
        ([MOONCAKE[0], MOONCAKE[1][:40]], "line 2: no valid JSON"),
        ([MOONCAKE[0], "[1, 2]"], "line 2: a JSON list where an object is needed"),
        ([MOONCAKE[0], '{"timestamp": 1, "input_length": 5, "output_length": 1, "hash_ids": ["a"]}'], "hash_ids"),
        ([MOONCAKE[0], '{"timestamp": 1, "input_length": true, "output_length": 1}'], "input_length=True"),
        (['[{"conversations": ['], "is the file cut off"),
        (['{"timestamp": 1' + "0" * 5000 + "}"], "line 1: holds a number of thousands of digits"),
        (['["text"]'], "a JSON str where a conversation is needed"),
        (['[{"id": 1}]'], "none of conversations"),
    ],
)
def test_bad_files_are_told_with_their_line(lines, why):
    with pytest.raises(TraceError, match=f"(?s)trace.*{why}"):
        read(lines)


def test_milliseconds_among_seconds_are_seen():
    rows = [f"{second},GPT-4,10,10,20," for second in range(0, 50, 5)]
    with pytest.raises(TraceError, match=r"line 12: .*s and ms seem to be mixed"):
        read([BURST[0], *rows, "50000,GPT-4,10,10,20,"])


def test_a_pause_of_years_is_a_mix_up_from_the_second_row_on():
    rows = ["Timestamp,Request tokens,Response tokens", "5,3,18", "1700000000000,3,18"]
    with pytest.raises(TraceError, match=r"line 3: time jumps by 19,675,926 days .* --time-unit"):
        list(read_trace(rows, Reading("trace.csv")))


def test_a_long_pause_is_no_mix_up():
    rows = [f"{second},GPT-4,10,10,20," for second in range(0, 50, 5)]
    assert len(read([BURST[0], *rows, "90000,GPT-4,10,10,20,"])) == 11


def test_bad_rows_can_be_left_out_and_are_counted():
    reading = Reading("trace", skip_bad=True)
    rows = [*BURST, "50,GPT-4,9,0,9,", "60,GPT-4,9,1,10,"]
    assert len(list(read_trace(iter(rows), reading))) == 3
    assert reading.skipped == 1
    assert "line 4: Response tokens='0'" in reading.first_reason


def test_a_file_is_read_as_it_is_asked():
    taken = 0

    def lines():
        nonlocal taken
        yield BURST[0]
        for second in range(10**9):
            taken += 1
            yield f"{second},GPT-4,10,10,20,"

    stream = read_trace(lines(), Reading("trace"))
    for _ in range(5):
        next(stream)
    assert taken <= 6


@pytest.mark.parametrize("zone", ["Europe/Berlin", "UTC"])
def test_dates_without_a_zone_know_no_summer_time(zone, monkeypatch):
    monkeypatch.setenv("TZ", zone)
    time.tzset()
    rows = [AZURE[0], "2023-10-29 00:30:00,1,1", "2023-10-29 02:30:00,1,1", "2023-10-29 03:30:00,1,1"]
    found = [r.arrival for r in read(rows)]
    monkeypatch.undo()
    time.tzset()
    assert found == [0.0, 7200.0, 10800.0]
