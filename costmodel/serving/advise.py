"""`advise`: every pair of backends under a steady load, best first, beside what SGLang would take by itself."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from costmodel.errors import Incompatible
from costmodel.serving.architecture import read_architecture
from costmodel.serving.choices import Asked, Pair, default_pair, find_pairs
from costmodel.serving.layers import ORDER
from costmodel.serving.load import Load
from costmodel.serving.memory import DoesNotFit, memory_of
from costmodel.serving.service import Rates, Service, serve
from costmodel.serving.step import StepModel

Goal = Literal["ttft", "tpot", "throughput"]
WORTH_HAVING = 0.01
"""Smallest relative gain that is called one."""
MEASURE_FIRST = "measure before you use it"
MOST_NAMED = 4
"""Backends or pairs that are named one by one where they share a reason."""


@dataclass(frozen=True, slots=True)
class Slo:
    """What a request must see; None is no limit.

    Raises:
        ValueError: A limit is not positive.
    """

    ttft_seconds: float | None = None
    tpot_seconds: float | None = None

    def __post_init__(self) -> None:
        """Check both limits."""
        for name in ("ttft_seconds", "tpot_seconds"):
            value = getattr(self, name)
            if value is not None and not 0 < value < float("inf"):
                raise ValueError(f"SLO {name}={value} must be positive and finite")

    def missed(self, rates: Rates) -> tuple[str, ...]:
        """Say which limits are missed, and by how much."""
        found = []
        for name, limit, value in (
            ("TTFT", self.ttft_seconds, rates.ttft_seconds),
            ("TPOT", self.tpot_seconds, rates.tpot_seconds),
        ):
            if limit is not None and value > limit:
                found.append(f"{name} of {value * 1e3:.1f} ms is above the SLO of {limit * 1e3:g} ms")
        return tuple(found)


@dataclass(frozen=True, slots=True)
class Choice:
    """One pair and what it gives."""

    pair: Pair
    service: Service
    missed: tuple[str, ...]
    """Limits of the SLO that it misses."""
    kv_dtype: str
    """Dtype that KV is stored in."""

    @property
    def measured(self) -> bool:
        """Whether somebody measured the attention of both phases, here or on another device."""
        return self.service.evidence != "structure"

    @property
    def name(self) -> str:
        """Both backends, one name where they are the same."""
        same = self.pair.prefill == self.pair.decode
        return self.pair.prefill if same else f"{self.pair.prefill} + {self.pair.decode}"


@dataclass(frozen=True, slots=True)
class Advice:
    """All choices under one load."""

    asked: Asked
    goal: Goal
    load: Load
    choices: tuple[Choice, ...]
    """Best first; after those that keep the SLO as well but whose attention somebody measured, those of structure."""
    default: Choice | None
    """SGLang's own pair; None where it refuses, does not fit or cannot be predicted."""
    default_reason: str | None
    refused: Mapping[str, tuple[str, ...]]
    verdict: str
    recommended: Choice
    """The default unless another, whose attention somebody measured, is better beyond the intervals."""
    ahead: Choice
    """The best by prediction alone, whatever it rests on."""
    notes: tuple[str, ...]
    """What is approximate about the model's weights."""


def advise(
    asked: Asked,
    load: Load,
    goal: Goal = "throughput",
    slo: Slo | None = None,
    measured: Mapping[str, float] | None = None,
) -> Advice:
    """Rank the pairs of a device.

    Args:
        asked: Model, device, parallelism, page size and KV dtype.
        load: The load.
        goal: What counts: the time to the first token, per token, or tokens per second and device.
        slo: Pairs that miss it come after those that keep it.
        measured: As for `StepModel`.

    Raises:
        DoesNotFit: No pair holds the weights or the load.
        Incompatible: No pair runs at all; `reasons` says why.
        ConfigError: config.json lacks a size that weights depend on.
        MissingValue: The profile lacks a value that step times depend on.
        ValueError: Requests are longer than the model's context.
    """
    slo, pairs = slo or Slo(), find_pairs(asked)
    refused = dict(pairs.refused)
    choices: list[Choice] = []
    too_much: DoesNotFit | None = None
    for pair in pairs.run:
        try:
            choices.append(_choice(asked, pair, load, slo, measured))
        except Incompatible as error:
            refused[f"{pair.prefill} + {pair.decode}"] = error.reasons
        except DoesNotFit as error:
            too_much = too_much or error
            refused[f"{pair.prefill} + {pair.decode}"] = (str(error),)
    if not choices:
        raise too_much or Incompatible("every pair", by_reason(refused))
    choices.sort(key=lambda choice: (len(choice.missed), *order(goal, choice.service.rates)))
    default, reason = _default(asked, load, slo, measured)
    recommended, verdict = decide(goal, choices, default, reason)
    return Advice(
        asked=asked,
        goal=goal,
        load=load,
        choices=tuple(supported_first(choices)),
        default=default,
        default_reason=reason,
        refused=refused,
        verdict=verdict,
        recommended=recommended,
        ahead=choices[0],
        notes=read_architecture(asked.model).notes,
    )


def supported_first(choices: Sequence[Choice]) -> list[Choice]:
    """Put choices without any measurement behind their attention after those that miss as few limits of the SLO."""
    return sorted(choices, key=lambda choice: (len(choice.missed), not choice.measured))


def by_reason(refused: Mapping[str, tuple[str, ...]]) -> list[str]:
    """Say each reason once, with those that it refuses: pairs, which came furthest, before single backends."""
    named: dict[str, list[str]] = {}
    for name, reasons in sorted(refused.items(), key=lambda item: " + " not in item[0]):
        named.setdefault(reasons[0], []).append(name)
    return [
        f"{', '.join(names) if len(names) <= MOST_NAMED else f'{names[0]} and {len(names) - 1} others'}: {reason}"
        for reason, names in named.items()
    ]


def metric(goal: Goal) -> Callable[[Rates], float]:
    """Give what a goal minimizes."""
    return {
        "ttft": lambda rates: rates.ttft_seconds,
        "tpot": lambda rates: rates.tpot_seconds,
        "throughput": lambda rates: 1.0 / rates.tokens_per_s,
    }[goal]


def order(goal: Goal, rates: Rates) -> tuple[float, float]:
    """Give what choices are sorted by: the goal to nine digits, then the time per token, as a fixed rate ties them."""
    return float(f"{metric(goal)(rates):.9g}"), rates.tpot_seconds


def better_by(goal: Goal, ours: Service, theirs: Service) -> tuple[float, bool]:
    """Give the relative gain of one service over another, and whether it is beyond the intervals of attention."""
    value = metric(goal)
    gain = value(theirs.rates) / value(ours.rates) - 1.0
    certain = value(ours.slow_attention) < value(theirs.fast_attention)
    return gain, certain and gain >= WORTH_HAVING


def _choice(asked: Asked, pair: Pair, load: Load, slo: Slo, measured: Mapping[str, float] | None) -> Choice:
    steps = StepModel(asked.deployment(pair.prefill, pair.decode, pair.page_size), measured)
    service = serve(steps, load, memory_of(steps.deployment, steps.weights))
    return Choice(pair, service, slo.missed(service.rates), steps.deployment.stored_kv_dtype)


def _default(
    asked: Asked, load: Load, slo: Slo, measured: Mapping[str, float] | None
) -> tuple[Choice | None, str | None]:
    pair = default_pair(asked)
    if isinstance(pair, str):
        return None, pair
    try:
        return _choice(asked, pair, load, slo, measured), None
    except (Incompatible, ValueError) as error:
        return None, str(error)


def decide(
    goal: Goal, choices: Sequence[Choice], default: Choice | None, why_not: str | None = None
) -> tuple[Choice, str]:
    """Say which choice to take and why: the default, unless a measured one is better beyond the intervals.

    Args:
        goal: What counts.
        choices: Best first, whatever the evidence; at least one.
        default: SGLang's own.
        why_not: Why there is no default.
    """
    first, supported = choices[0], supported_first(choices)[0]
    if default is None:
        text = f"SGLang's own choice is no measure here ({why_not}); {supported.name} is predicted to be best"
        return supported, text if supported.measured else f"{text}, which rests on structure alone: {MEASURE_FIRST}"
    name = f"SGLang's default {default.name}"
    if default.missed and not supported.missed:
        misses = f"{name} misses the SLO ({'; '.join(default.missed)}); {supported.name} is predicted to keep it"
        if supported.measured:
            return supported, misses
        return default, f"{misses}, but nobody measured its attention: keep the default or {MEASURE_FIRST}"
    keeping = [c for c in choices if len(c.missed) <= len(default.missed)]
    known = [c for c in keeping if c.measured] if default.measured else []
    certain = [c for c in known if better_by(goal, c.service, default.service)[1]]
    if certain:
        winner = min(_as_good(goal, certain), key=lambda choice: _doubt(choice, default))
        gain = better_by(goal, winner.service, default.service)[0]
        return winner, f"{winner.name} beats {name} by {100 * gain:.1f} %, beyond the intervals{_ahead(first, winner)}"
    gain = better_by(goal, first.service, default.service)[0]
    if gain < WORTH_HAVING:
        return default, f"keep {name}: no pair is predicted to be worth having over it"
    predicted = (
        f"no difference worth having is certain: {first.name} is predicted {100 * gain:.1f} % better than {name}"
    )
    if first.measured and default.measured:
        return default, f"{predicted}, within the intervals; keep the default or measure"
    whose = "its" if default.measured else "the default's" if first.measured else "either's"
    return default, f"{predicted}, but nobody measured {whose} attention; keep the default or measure"


def _ahead(first: Choice, winner: Choice) -> str:
    """Mention a pair in front of the winner that only structure supports."""
    unmeasured = first.name != winner.name and not first.measured
    return f" ({first.name} is predicted faster still, but nobody measured its attention)" if unmeasured else ""


def _as_good(goal: Goal, choices: Sequence[Choice]) -> list[Choice]:
    """Keep the choices that the first one does not beat beyond the intervals."""
    return [choice for choice in choices if not better_by(goal, choices[0].service, choice.service)[1]]


def _doubt(choice: Choice, default: Choice) -> tuple[int, int]:
    """Give what speaks against a choice among equals: weak evidence, then every backend that differs from SGLang's."""
    changed = (choice.pair.prefill != default.pair.prefill) + (choice.pair.decode != default.pair.decode)
    return ORDER.index(choice.service.evidence), changed


def to_be_sure(advice: Advice, model: str) -> tuple[str, ...]:
    """Name the measurements that would settle the choice, as commands."""
    load, page = advice.load, advice.choices[0].pair.page_size
    batch = max(1, round(advice.choices[0].service.running))
    decode, prompt = f"{batch}q1s{load.mean_kv_len}", f"q{load.isl - load.cached}s{load.isl}"
    specs = {"ttft": [prompt], "tpot": [decode], "throughput": [decode, prompt]}[advice.goal]
    line = " ".join(f"--batch-spec {spec}" for spec in specs)
    return (f"attnroof tune --model {model} --device cuda:0 --page-size {page} {line}",)
