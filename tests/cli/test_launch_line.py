"""The command that starts a server, as a shell reads it."""

import shlex

import pytest

from cli.launch_line import launch_line
from costmodel import LaunchPlan


@pytest.mark.parametrize(
    ("engine", "program"), [("sglang", "python -m sglang.launch_server --model-path"), ("vllm", "vllm serve")]
)
def test_a_shell_reads_back_what_was_meant(engine, program):
    plan = LaunchPlan(engine, "1.0", ("--config", '{"a": 1}'), {"NAME": "two words"}, ())
    words = shlex.split(launch_line(plan, "my models/$HOME"))
    assert words == ["NAME=two words", *program.split(), "my models/$HOME", "--config", '{"a": 1}']
