"""docs/serving.md tells the truth: what attnroof prints is what it shows."""

import pytest
from serving_doc import REFUSED, SERVING, commands
from tour import ROOT, run

SHOWN = [(command, output) for command, output in commands(SERVING.read_text(encoding="utf-8"))]
OWN = [(command, output) for command, output in SHOWN if command.startswith("attnroof ")]


@pytest.mark.parametrize(("command", "output"), OWN, ids=[str(i) for i in range(len(OWN))])
def test_command_prints_what_the_document_shows(command, output, tmp_path, monkeypatch):
    monkeypatch.chdir(ROOT)
    if output.startswith(REFUSED):
        with pytest.raises(RuntimeError) as refused:
            run(command, tmp_path)
        assert output.removeprefix(REFUSED) in str(refused.value)
    else:
        assert run(command, tmp_path) == output, "run python tests/docs/refresh_serving.py"


def test_benchmarks_that_are_shown_exist():
    scripts = [command.split()[1] for command, _ in SHOWN if command.startswith("python ")]
    assert scripts
    assert all((ROOT / script).is_file() for script in scripts)
