"""A device that exists only on paper: times from a table, noise from a seed, failures on request."""

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from costmodel import Attention, Batch, Prediction
from executors.environment import Environment
from executors.outcome import Accuracy, Candidate, Measured, Outcome, Rejected
from hwprofiles import Profile, load_profile
from tuner.attention_fields import attention_fields
from tuner.budget import Budget, Share
from tuner.configuration import Configuration, Provenance
from tuner.cost import TrialCost
from tuner.owner import Owner
from tuner.row import Choice, Counts, Row, Tried
from tuner.search import Tools, search
from tuner.store import Store, open_store
from tuner.workload import Workload

GQA = Attention(num_qo_heads=32, num_kv_heads=8, head_dim=128)
TIMES: dict[str, dict[int, float]] = {
    "fa3": {0: 100e-6, 4: 90e-6, 8: 80e-6, 16: 95e-6},
    "triton": {8: 120e-6, 16: 110e-6, 32: 105e-6},
}
KNOB = {"fa3": "num_splits", "triton": "max_kv_splits"}
ENVIRONMENT = Environment("cuda:0", "NVIDIA H200", "9.0", 132, 143771 << 20, "580.159", "2.11.0", "13.0", "replay")


def candidate(backend: str, value: int) -> Candidate:
    return Candidate(backend, {KNOB[backend]: value})


def all_candidates() -> tuple[Candidate, ...]:
    return tuple(candidate(backend, value) for backend, values in TIMES.items() for value in values)


def true_seconds(c: Candidate) -> float:
    return TIMES[c.backend][c.knobs[KNOB[c.backend]]]  # type: ignore[index]


@dataclass
class FakeMeasurer:
    """Answers from `TIMES`; `answer` overrides the outcome of a candidate."""

    noise: float = 0.002
    answer: Callable[[Candidate], Outcome | None] = lambda _: None
    version: str = "3.0.0"
    env: Environment = ENVIRONMENT
    calls: list[tuple[str, ...]] = field(default_factory=list)
    scale: float = 1.0
    on_measure: Callable[[Sequence[Candidate]], None] = lambda _: None

    def environment(self) -> Environment:
        return self.env

    def implementation(self, backend: str) -> tuple[str, str] | None:
        return {"fa3": ("flash_attn_interface", self.version), "triton": ("sglang", "0.5.23")}[backend]

    def implementation_of(self, candidate: Candidate, attention: Attention, batch: Batch) -> tuple[str, str] | None:
        return self.implementation(candidate.backend)

    def candidates(self, attention: Attention, batch: Batch, profile: Profile) -> tuple[Candidate, ...]:
        return all_candidates()

    def rejections(self, attention: Attention, batch: Batch, profile: Profile) -> Mapping[str, Rejected]:
        return {"flashmla": Rejected(("head_dim 128 is not 576",))}

    def measure(
        self,
        attention: Attention,
        batch: Batch,
        candidates: Sequence[Candidate],
        *,
        seed: int,
        repeats: int,
        deadline: float | None = None,
    ) -> Mapping[str, Outcome]:
        self.calls.append(tuple(c.key for c in candidates))
        self.on_measure(candidates)
        return {c.key: self.answer(c) or self._measured(c, seed, repeats) for c in candidates}

    def measured_keys(self) -> list[str]:
        return [key for call in self.calls for key in call]

    def _measured(self, c: Candidate, seed: int, repeats: int) -> Measured:
        draw = random.Random(f"{seed}-{c.key}-{len(self.calls)}")
        seconds = tuple(self.scale * true_seconds(c) * (1 + self.noise * draw.uniform(-1, 1)) for _ in range(repeats))
        return Measured(seconds, Accuracy(0.001, 0.01), compile_seconds=0.0)


def prediction(c: Candidate, seconds: float, spread: float = 1.2) -> Prediction:
    return Prediction(
        c.backend, "x", "1", "decode", seconds, seconds / spread, seconds * spread, 0.0, seconds, "memory",
        1, 1.0, 0.0, 0.0, 0, c.knobs, {"dram": seconds}, "others",
    )  # fmt: skip


def predictor(error: Callable[[Candidate], float] = lambda _: 1.0, spread: float = 1.2):  # type: ignore[no-untyped-def]
    def predict(w: Workload, candidates: Sequence[Candidate], p: Profile) -> Mapping[str, Prediction | None]:
        return {c.key: prediction(c, true_seconds(c) * error(c), spread) for c in candidates}

    return predict


def unknown(w: Workload, candidates: Sequence[Candidate], p: Profile) -> Mapping[str, Prediction | None]:
    return {c.key: None for c in candidates}


def workload(spec: str = "8q1s4k", page_size: int = 1) -> Workload:
    from costmodel import parse_batch_spec

    return Workload(GQA, parse_batch_spec(spec, page_size=page_size), spec)


def tools(measurer: FakeMeasurer, store: Store | None = None, **changes: object) -> Tools:
    made = Tools(
        measurer=measurer,
        profile=load_profile("h200"),
        store=store or open_store(None),
        owner=Owner.me(),
        cost=TrialCost("cuda", 7),
        record=lambda w, c, o: None,
        defaults=lambda phase: ("fa3",),
        predict=predictor(),
    )
    for name, value in changes.items():
        setattr(made, name, value)
    return made


def answer(w: Workload, run: Tools, share: Share | None = None) -> Row:
    """Search with a single worker, which never has to wait for others."""
    found = search(w, run, share or whole().share(1))
    assert found is not None
    return found


def whole(**limits: object) -> Budget:
    return Budget(**limits)  # type: ignore[arg-type]


def sqlite(folder: Path) -> str:
    return f"sqlite:///{folder / 'study.db'}"


def row(spec: str = "8q1s4k", *, version: str = "3.0.0", best: tuple[str, int] = ("fa3", 8), scale: float = 1.0) -> Row:
    """A measured row whose winner has SGLang's default beside it."""
    point = workload(spec).point
    default = choice("fa3", 0, version, scale)
    winner = choice(*best, version, scale)
    tried = {
        c.key: Tried(measured_us=1e6 * scale * true_seconds(c), predicted_us=1e6 * scale * true_seconds(c))
        for c in all_candidates()
    }
    return Row(
        phase=point.phase,
        batch_size=point.batch_size,
        q_len=point.q_len,
        kv_len=point.kv_len,
        max_kv_len=point.max_kv_len,
        spec=spec,
        best=winner,
        best_sglang=default,
        runner_up=choice("fa3", 4, version, scale),
        sglang_default=default,
        gain=(default.measured_us or 0) / (winner.measured_us or 1),
        noise=0.004,
        status="measured",
        counts=Counts(candidates=7, measured=4, skipped=3),
        tried=tried,
    )


def choice(backend: str, value: int, version: str = "3.0.0", scale: float = 1.0) -> Choice:
    c = candidate(backend, value)
    us = 1e6 * scale * true_seconds(c)
    name = {"fa3": "flash_attn_interface", "triton": "sglang"}[backend]
    reached = backend == "triton" or value == 0
    return Choice(
        backend=backend,
        implementation=name,
        implementation_version=version,
        knobs=dict(c.knobs),
        sglang=reached,
        predicted_us=us,
        measured_us=us,
        p10_us=0.998 * us,
        p90_us=1.002 * us,
        repeats=7,
    )


def configuration(rows: Sequence[Row], attention: Attention = GQA, page_size: int = 1) -> Configuration:
    empty = Configuration(
        device=ENVIRONMENT.recorded(),
        attention=attention_fields(attention),
        page_size=page_size,
        provenance=Provenance(tool="attnroof 0", created="2026-11-30T00:00:00Z", command="attnroof tune", layers=32),
    )
    return empty.with_rows(rows)
