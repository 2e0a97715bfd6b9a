"""The CUDA sampler's bookkeeping on a pretended device: slots in rotation, whole rotations a graph, hidden launches."""

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from costmodel import Attention, Batch
from executors.base import Prepared
from executors.inputs import Inputs, make_inputs
from executors.outcome import Conditions
from executors.sampler_cuda import MAX_CALLS, CudaSampler


class Device:
    """A device whose clock moves by `seconds` with each call."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self.now = 0.0
        self.slots: list[int] = []
        self.replays = 0
        self.capturing: list[int] | None = None

    def run(self, slot: int) -> torch.Tensor:
        if self.capturing is not None:
            self.capturing.append(slot)
        else:
            self.slots.append(slot)
            self.now += self.seconds
        return torch.full((1,), float(slot))


@pytest.fixture
def device(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> Device:
    made = Device(request.param)

    class Event:
        def __init__(self, enable_timing: bool) -> None:
            self.time = 0.0

        def record(self) -> None:
            self.time = made.now

        def synchronize(self) -> None: ...

        def elapsed_time(self, end: "Event") -> float:
            return (end.time - self.time) * 1e3

    class Graph:
        calls: tuple[int, ...] = ()

        def replay(self) -> None:
            made.replays += 1
            made.slots += self.calls
            made.now += made.seconds * len(self.calls)

    class Stream:
        def __init__(self, device: str = "") -> None: ...

        def wait_stream(self, other: Any) -> None: ...

    @contextmanager
    def graph(target: Graph) -> Iterator[None]:
        made.capturing = []
        yield
        target.calls, made.capturing = tuple(made.capturing), None

    class Probe:
        def __init__(self, device: str) -> None: ...

        def read(self) -> Conditions:
            return Conditions(sm_clock_hz=1e9)

    for name, value in {
        "Event": Event,
        "CUDAGraph": Graph,
        "Stream": Stream,
        "graph": graph,
        "current_stream": lambda device: Stream(),
        "stream": lambda stream: nullcontext(),
        "synchronize": lambda device=None: None,
    }.items():
        monkeypatch.setattr(torch.cuda, name, value)
    monkeypatch.setattr("executors.sampler_cuda.Probe", Probe)
    return made


def inputs(slots: int) -> Inputs:
    made = make_inputs(Attention(2, 1, 8), Batch.decode([4]), seed=0, slots=slots)
    return replace(made, device="cuda:0")


@pytest.mark.parametrize("device", [10e-6], indirect=True)
def test_a_graph_holds_whole_rotations_and_lasts_long_enough(device: Device) -> None:
    sampler = CudaSampler(Prepared(device.run), inputs(3))
    assert sampler.warm_up().item() == 2.0
    graph_calls = device.slots[-21:]
    assert graph_calls == [0, 1, 2] * 7
    before = device.replays
    sample = sampler.sample()
    assert sample.seconds == pytest.approx(10e-6)
    assert sample.conditions.sm_clock_hz == 1e9
    assert device.replays == before + 2


@pytest.mark.parametrize("device", [20e-3], indirect=True)
def test_a_long_call_is_captured_once_a_slot_and_needs_no_lead(device: Device) -> None:
    sampler = CudaSampler(Prepared(device.run), inputs(2))
    sampler.warm_up()
    before = device.replays
    assert sampler.sample().seconds == pytest.approx(20e-3)
    assert device.replays == before + 1


@pytest.mark.parametrize("device", [1e-9], indirect=True)
def test_no_graph_holds_more_than_its_limit(device: Device) -> None:
    sampler = CudaSampler(Prepared(device.run), inputs(7))
    sampler.warm_up()
    start = len(device.slots)
    sampler.sample()
    calls = (len(device.slots) - start) // 2
    assert calls == MAX_CALLS // 7 * 7


@pytest.mark.parametrize("device", [10e-6], indirect=True)
def test_what_cannot_be_captured_is_timed_as_launched(device: Device) -> None:
    sampler = CudaSampler(Prepared(device.run, capturable=False), inputs(3))
    assert sampler.warm_up().item() == 2.0
    assert sampler.sample().seconds == pytest.approx(10e-6)
    assert device.replays == 0


@pytest.mark.parametrize("device", [10e-6], indirect=True)
def test_a_sustained_time_is_taken_after_a_while_of_load(device: Device) -> None:
    sampler = CudaSampler(Prepared(device.run), inputs(3))
    sampler.warm_up()
    before = device.replays
    assert sampler.sustained_seconds(0.01) == pytest.approx(10e-6)
    assert device.replays > before + 2
    assert sampler.eager_seconds() > 0


@pytest.mark.parametrize("device", [10e-6], indirect=True)
def test_a_plan_is_timed_apart(device: Device) -> None:
    planned: list[int] = []
    sampler = CudaSampler(Prepared(device.run, plan=lambda: planned.append(1)), inputs(2))
    seconds = sampler.plan_seconds()
    assert seconds is not None
    assert seconds > 0
    assert len(planned) == 5
    assert CudaSampler(Prepared(device.run), inputs(2)).plan_seconds() is None


@pytest.mark.parametrize("device", [10e-6], indirect=True)
def test_what_a_library_compiles_at_its_first_call_is_told_apart(
    device: Device, monkeypatch: pytest.MonkeyPatch
) -> None:
    def run(slot: int) -> torch.Tensor:
        device.now += 0.0 if device.slots else 1.5
        return device.run(slot)

    monkeypatch.setattr("executors.sampler_cuda.time", SimpleNamespace(perf_counter=lambda: device.now))
    sampler = CudaSampler(Prepared(run), inputs(3))
    assert sampler.first_call_seconds() == pytest.approx(1.5)
    assert sampler.first_call_seconds() == pytest.approx(0.0)
