"""The Pareto front of TTFT against throughput, and prefill and decode on devices of their own."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from costmodel.errors import Incompatible
from costmodel.prediction import Evidence
from costmodel.serving.choice import Choice, Slo
from costmodel.serving.choices import Asked, Pair
from costmodel.serving.layers import ORDER
from costmodel.serving.load import Load
from costmodel.serving.memory import DoesNotFit, memory_of
from costmodel.serving.service import prefill_of, serve
from costmodel.serving.step import Step, StepModel
from hwprofiles import MissingValue

CONCURRENCIES = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512)


@dataclass(frozen=True, slots=True)
class Point:
    """One pair at one concurrency."""

    choice: Choice
    concurrency: int

    @property
    def ttft_seconds(self) -> float:
        """Time to the first token."""
        return self.choice.service.rates.ttft_seconds

    @property
    def tokens_per_s(self) -> float:
        """Output tokens a second and device."""
        return self.choice.service.rates.tokens_per_s


@dataclass(frozen=True, slots=True)
class Disaggregated:
    """Prefill and decode on servers of their own, so many of each that neither waits."""

    prefill_backend: str
    decode_backend: str
    prefill_servers: float
    """Prefill servers for one decode server."""
    ttft_seconds: float
    """Prefill and the transfer of the prompt's KV."""
    tpot_seconds: float
    transfer_seconds: float
    kv_bytes: float
    """KV of one prompt on all ranks of a server."""
    tokens_per_s: float
    """Output tokens a second and device, over both kinds."""
    evidence: Evidence
    """The weaker of both attention calls."""


def points(asked: Asked, pairs: Sequence[Pair], load: Load, measured: Mapping[str, float] | None = None) -> list[Point]:
    """Evaluate pairs over concurrencies; those that do not fit or run are left out."""
    found = []
    for pair in pairs:
        steps = StepModel(asked.deployment(pair.prefill, pair.decode, pair.page_size), measured)
        memory = memory_of(steps.deployment, steps.weights)
        for concurrency in CONCURRENCIES:
            try:
                service = serve(steps, replace(load, concurrency=concurrency, rate=None), memory)
            except (Incompatible, DoesNotFit):
                continue
            found.append(Point(Choice(pair, service, (), steps.deployment.stored_kv_dtype), concurrency))
    return found


def front(candidates: Iterable[Point]) -> list[Point]:
    """Keep the points that no other beats in both TTFT and throughput, fastest first token first.

    Points whose attention nobody measured count only where there are no others.
    """
    found = list(candidates)
    kept: list[Point] = []
    supported = [point for point in found if point.choice.measured]
    for point in sorted(supported or found, key=lambda p: (p.ttft_seconds, -p.tokens_per_s)):
        if not kept or point.tokens_per_s > kept[-1].tokens_per_s:
            kept.append(point)
    return kept


def best_within(candidates: Iterable[Point], slo: Slo) -> Point | None:
    """Give the point of most throughput that keeps the SLO; one that somebody measured, unless there is none."""
    keeping = [point for point in candidates if not slo.missed(point.choice.service.rates)]
    return max(keeping, key=lambda p: (p.choice.measured, p.tokens_per_s), default=None)


def disaggregate(
    asked: Asked, pairs: Sequence[Pair], load: Load, measured: Mapping[str, float] | None = None
) -> Disaggregated | None:
    """Choose each phase's backend by itself; None where the profile says nothing about links.

    What only structure supports is chosen where nothing else runs.
    One decode server runs the load's concurrency; prompts arrive as fast as it finishes requests.

    Args:
        asked: Model, device, parallelism, page size and KV dtype.
        pairs: Pairs that run on one server; their members may be combined freely here.
        load: A load with a concurrency.
        measured: As for `StepModel`.
    """
    link = asked.profile.interconnect_bytes_per_s
    concurrency = load.concurrency
    if link is None or concurrency is None or load.osl < 2:
        return None
    prefills = {pair.prefill: pair for pair in pairs}
    decodes = {pair.decode: pair for pair in pairs}
    first = min(_prefill(asked, pair, load, measured) for pair in prefills.values())
    each = min(_decode(asked, pair, load, measured) for pair in decodes.values())
    deployment = asked.deployment(first.backend, each.backend, decodes[each.backend].page_size)
    per_rank = sum(group.kv_bytes_per_token for group in deployment.groups) * load.isl
    transfer = per_rank / link
    finished = concurrency / ((load.osl - 1) * each.seconds)
    servers = finished * first.seconds
    tp = asked.parallel.tp
    return Disaggregated(
        prefill_backend=first.backend,
        decode_backend=each.backend,
        prefill_servers=servers,
        ttft_seconds=first.seconds + transfer,
        tpot_seconds=each.seconds,
        transfer_seconds=transfer,
        kv_bytes=per_rank * tp,
        tokens_per_s=finished * load.osl / (tp * (1.0 + servers)),
        evidence=max(first.evidence, each.evidence, key=ORDER.index),
    )


@dataclass(frozen=True, slots=True, order=True)
class _Phase:
    """One backend in one phase; the best comes first."""

    unmeasured: bool
    seconds: float
    backend: str
    evidence: Evidence


def _prefill(asked: Asked, pair: Pair, load: Load, measured: Mapping[str, float] | None) -> _Phase:
    steps = StepModel(asked.deployment(pair.prefill, pair.decode, pair.page_size), measured)
    try:
        step = prefill_of(steps, load, 1, memory_of(steps.deployment, steps.weights))
    except (Incompatible, MissingValue):
        return _Phase(True, float("inf"), pair.prefill, "structure")
    return _phase(pair.prefill, step)


def _decode(asked: Asked, pair: Pair, load: Load, measured: Mapping[str, float] | None) -> _Phase:
    steps = StepModel(asked.deployment(pair.prefill, pair.decode, pair.page_size), measured)
    try:
        step = steps.decode(load.concurrency or 1, load.mean_kv_len)
    except Incompatible:
        return _Phase(True, float("inf"), pair.decode, "structure")
    return _phase(pair.decode, step)


def _phase(backend: str, step: Step) -> _Phase:
    evidence = step.attention.evidence
    return _Phase(evidence == "structure", step.seconds, backend, evidence)
