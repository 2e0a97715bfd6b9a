"""One report for all tests of it."""

import pytest
from report_fakes import write_records

from cli.report.build import build
from cli.report.service import Traffic, service_section
from cli.report.source import from_records
from costmodel import load_model
from costmodel.serving import Load


@pytest.fixture(scope="session")
def records_file(tmp_path_factory):
    """A file of records with one damaged line."""
    path = tmp_path_factory.mktemp("records") / "some.jsonl"
    write_records(path)
    return path


@pytest.fixture(scope="session")
def source(records_file):
    """The records as the report reads them."""
    return from_records(records_file)


@pytest.fixture(scope="session")
def page(source):
    """The page with every section, for a model under a load."""
    traffic = Traffic(load_model("examples/models/Qwen3-8B"), Load(1024, 256, 16))
    return build(source, "attnroof report", service_section(source.profile, traffic, None))
