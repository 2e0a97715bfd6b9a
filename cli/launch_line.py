"""The command that starts a server: environment, program, model and flags, quoted for a shell."""

import shlex
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from costmodel import LaunchPlan

PROGRAMS = {"sglang": ("python", "-m", "sglang.launch_server", "--model-path"), "vllm": ("vllm", "serve")}


def launch_line(plan: "LaunchPlan", model: str) -> str:
    """Write a plan as one line for a shell."""
    env = [f"{name}={shlex.quote(value)}" for name, value in plan.env.items()]
    return " ".join([*env, *PROGRAMS[plan.engine], *map(shlex.quote, (model, *plan.flags))])
