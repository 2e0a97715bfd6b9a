"""`attnroof predict` by its entry point."""

import json
import sys

import pytest

from cli.main import main

LLAMA = "examples/models/Llama-3.1-8B"
DEEPSEEK = "examples/models/DeepSeek-V3"
FIELDS = {
    "backend", "implementation", "implementation_version", "phase", "layer_group", "compatible", "reasons",
    "latency_us", "low_us", "high_us", "plan_us", "eager_us", "bound", "num_splits", "waves", "dram_bytes", "flops",
    "workspace_bytes", "knobs", "breakdown_us", "evidence",
}  # fmt: skip


def run(capsys, *arguments):
    """Exit code, stdout and stderr of one command."""
    sys.argv = ["attnroof", *arguments]
    with pytest.raises(SystemExit) as end:
        main()
    streams = capsys.readouterr()
    return end.value.code or 0, streams.out, streams.err


def test_table_gives_the_reason(capsys):
    code, out, _ = run(capsys, "predict", "--model", LLAMA, "--gpu", "h200", "--batch-spec", "q1s32k")
    assert code == 0
    assert "8 tiles for 132 SMs" in out
    assert "fa3" in out
    assert "cannot run: flashmla" in out


def test_json_has_the_contract_fields(capsys):
    arguments = ("--model", LLAMA, "--gpu", "h200", "--batch-spec", "8q1s4k", "--page-size", "64", "--json")
    code, out, _ = run(capsys, "predict", *arguments)
    rows = json.loads(out)
    assert code == 0
    assert all(set(row) >= FIELDS for row in rows)
    for row in rows:
        timed = [row["latency_us"], row["low_us"], row["bound"], row["breakdown_us"]]
        assert all(v is None for v in timed) != row["compatible"]
        if row["compatible"]:
            assert sum(row["breakdown_us"].values()) == pytest.approx(row["latency_us"])
    times = [row["latency_us"] for row in rows if row["compatible"]]
    assert times == sorted(times)


def test_one_backend_with_knobs(capsys):
    arguments = ("--model", LLAMA, "--gpu", "h200", "--batch-spec", "q1s32k", "--backend", "fa3", "--json")
    _, out, _ = run(capsys, "predict", *arguments, "--knob", "num_splits=8")
    (row,) = json.loads(out)
    assert row["num_splits"] == 8
    assert row["knobs"]["num_splits"] == 8


def test_mla_prefills_on_expanded_heads(capsys):
    arguments = ("--gpu", "h200", "--tp", "8", "--page-size", "64", "--backend", "fa3", "--json")
    _, prefill, _ = run(capsys, "predict", "--model", DEEPSEEK, "--batch-spec", "q2k", *arguments)
    _, decode, _ = run(capsys, "predict", "--model", DEEPSEEK, "--batch-spec", "16q1s2k", *arguments)
    assert json.loads(prefill)[0]["flops"] == 2 * 16 * (192 + 128) * 2048 * 2049 / 2
    assert json.loads(decode)[0]["flops"] == 2 * 16 * (576 + 512) * 2048 * 16


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"--gpu": "h2000"}, "h200"),
        ({"--batch-spec": "8x1"}, "cannot read '8x1'"),
        ({"--backend": "fa33"}, "did you mean fa3"),
        ({"--batch-spec": "400q1s128k"}, "too much"),
        ({"--tp": "3"}, "not a multiple"),
        ({"--knob": "num_splits"}, "K=V"),
        ({"--knob": "num_splits=8"}, "--knob needs --backend"),
        ({"--backend": "fa3", "--knob": "num_splits=900"}, "from 0 to 128"),
        ({"--model": "no/such/folder"}, "no/such/folder"),
        ({"--kv-cache-dtype": "int3"}, "int3"),
    ],
)
def test_bad_input_is_one_message(capsys, changes, message):
    options = {"--model": LLAMA, "--gpu": "h200", "--batch-spec": "8q1s4k", **changes}
    code, out, err = run(capsys, "predict", *(word for pair in options.items() for word in pair))
    assert code == 2
    assert out == ""
    assert message in err
    assert "Traceback" not in err


def test_nothing_compatible_is_no(capsys):
    arguments = ("--model", LLAMA, "--gpu", "a100", "--batch-spec", "8q1s4k", "--backend", "flashmla")
    code, out, err = run(capsys, "predict", *arguments)
    assert code == 1
    assert "flashmla" in out
    assert "no backend" in err


def test_sweep_names_the_fastest_of_each_batch(capsys):
    code, out, _ = run(capsys, "predict", "--model", LLAMA, "--gpu", "h200", "--sweep")
    assert code == 0
    assert "kv 128k" in out
    assert "8 requests, us a layer" in out
    _, out, _ = run(capsys, "predict", "--model", LLAMA, "--gpu", "h200", "--sweep", "--backend", "fa3", "--json")
    cells = json.loads(out)
    assert {cell["backend"] for cell in cells} == {"fa3"}
    assert all(cell["latency_us"] > 0 for cell in cells)


def test_a_batch_is_needed(capsys):
    code, _, err = run(capsys, "predict", "--model", LLAMA, "--gpu", "h200")
    assert code == 2
    assert "--batch-spec" in err


def test_shared_prefixes_add_the_cascade(capsys):
    arguments = ("--batch-spec", "64q1s8448", "--page-size", "64", "--shared-prefix", "8192")
    code, out, _ = run(capsys, "predict", "--model", LLAMA, "--gpu", "h200", *arguments, "--json")
    assert code == 0
    rows = [row for row in json.loads(out) if row["compatible"]]
    assert {row["backend"] for row in rows if row["knobs"].get("cascade")} == {"fa3", "flashinfer"}
    assert rows[0]["knobs"]["cascade"]
    assert rows[0]["evidence"] == "structure"
    _, table, _ = run(capsys, "predict", "--model", LLAMA, "--gpu", "h200", *arguments)
    assert "of KV not read again" in " ".join(table.split())
    assert "A cascade pays" in " ".join(table.split())
    _, alone, _ = run(capsys, "predict", "--model", LLAMA, "--gpu", "h200", "--batch-spec", "1q1s8448",
                      "--page-size", "64", "--shared-prefix", "8192")  # fmt: skip
    assert "A cascade does not pay" in " ".join(alone.split())
    code, _, err = run(capsys, "predict", "--model", LLAMA, "--gpu", "h200", "--batch-spec", "8q1s4k",
                       "--page-size", "64", "--shared-prefix", "100")  # fmt: skip
    assert code == 2
    assert "page_size=64" in err


def test_deterministic_says_what_it_loses(capsys):
    arguments = ("--model", LLAMA, "--gpu", "h200", "--batch-spec", "2q1s32k", "--deterministic")
    code, out, _ = run(capsys, "predict", *arguments, "--json")
    assert code == 0
    rows = {row["backend"]: row for row in json.loads(out)}
    assert rows["fa3"]["num_splits"] == 1
    assert rows["fa3"]["latency_us"] > 2 * rows["fa3"]["free_latency_us"]
    assert not rows["torch_native"]["compatible"]
    assert rows["triton"]["knobs"]["context_len"] > 32768
    _, table, _ = run(capsys, "predict", *arguments)
    assert "best otherwise us" in " ".join(table.split())


@pytest.mark.parametrize(("choice", "width"), [("absorbed", 576 + 512), ("expanded", 192 + 128)])
def test_the_form_of_mla_can_be_chosen_and_is_told(capsys, choice, width):
    arguments = ("--model", DEEPSEEK, "--gpu", "h200", "--tp", "8", "--page-size", "64", "--backend", "fa3", "--json")
    _, out, _ = run(capsys, "predict", "--batch-spec", "q2k", "--mla-form", choice, *arguments)
    (row,) = json.loads(out)
    assert row["mla_form"] == choice
    assert row["flops"] == 2 * 16 * width * 2048 * 2049 / 2


def test_a_short_cached_prefix_is_attended_on_the_latent(capsys):
    arguments = ("--model", DEEPSEEK, "--gpu", "h200", "--tp", "8", "--page-size", "64", "--backend", "fa3", "--json")
    _, short, _ = run(capsys, "predict", "--batch-spec", "q2ks6k", *arguments)
    _, long, _ = run(capsys, "predict", "--batch-spec", "q2ks16k", *arguments)
    assert [json.loads(out)[0]["mla_form"] for out in (short, long)] == ["absorbed", "expanded"]
