"""The fitted values in docs/model.md are those of the calibration files."""

import importlib.util
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_the_table_is_current():
    path = ROOT / "benchmarks" / "model_docs.py"
    spec = importlib.util.spec_from_file_location("model_docs", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    text = (ROOT / "docs" / "model.md").read_text()
    between = text.partition(module.BEGIN)[2].partition(module.END)[0]
    assert between.strip() == module.fitted_tables().strip(), "run: python benchmarks/model_docs.py"
