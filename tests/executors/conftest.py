"""What the executors' tests share: one CPU thread, and a CPU's profile."""

import sys
from collections.abc import Iterator

import pytest

from hwprofiles import Profile


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    """Run PyTorch, where a test uses it, on one thread: two wait for each other where other processes compute."""
    torch = sys.modules.get("torch")
    if torch is None:
        yield
        return
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture
def cpu() -> Profile:
    """A CPU's profile."""
    return Profile(id="test-cpu", name="a CPU", vendor="AMD", kind="cpu", architecture="x86-64", num_sms=2)
