"""`advise`: every pair of backends under a steady load, best first, beside what SGLang would take by itself."""

from collections.abc import Mapping
from dataclasses import dataclass

from costmodel.errors import Incompatible
from costmodel.serving.architecture import read_architecture
from costmodel.serving.choice import Choice, Slo
from costmodel.serving.choices import Asked, Pair, default_pair, find_pairs
from costmodel.serving.load import Load
from costmodel.serving.memory import DoesNotFit, memory_of
from costmodel.serving.service import serve
from costmodel.serving.step import StepModel
from costmodel.serving.verdict import Goal, Missing, decide, order, supported_first

ONE_SERVER = 8
"""Devices that one server usually holds."""
MOST_NAMED = 4
"""Backends or pairs that are named one by one where they share a reason."""


@dataclass(frozen=True, slots=True)
class Advice:
    """All choices under one load."""

    asked: Asked
    goal: Goal
    load: Load
    slo: Slo
    choices: tuple[Choice, ...]
    """Best first; after those that keep the SLO as well but whose attention somebody measured, those of structure."""
    default: Choice | None
    """SGLang's own pair; None where it refuses, does not fit or cannot be predicted."""
    missing: Missing | None
    """What is known about the default where there is none."""
    refused: Mapping[str, tuple[str, ...]]
    verdict: str
    recommended: Choice
    """The default unless another, whose attention somebody measured, is better beyond the intervals; where the default
    cannot be predicted the best of those that can."""
    ahead: Choice
    """The best by prediction alone, whatever it rests on."""
    notes: tuple[str, ...]
    """What is approximate about the model's weights and its links."""

    @property
    def pair(self) -> Pair:
        """What to launch: the recommended pair, or SGLang's own where that cannot be predicted and so not be beaten."""
        own = self.missing.own if self.missing else None
        return own if isinstance(own, Pair) else self.recommended.pair


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
    default, missing = _default(asked, load, slo, measured)
    recommended, verdict = decide(goal, choices, default, missing)
    return Advice(
        asked=asked,
        goal=goal,
        load=load,
        slo=slo,
        choices=tuple(supported_first(choices)),
        default=default,
        missing=missing,
        refused=refused,
        verdict=verdict,
        recommended=recommended,
        ahead=choices[0],
        notes=(*read_architecture(asked.model).notes, *_spread(asked)),
    )


def _spread(asked: Asked) -> tuple[str, ...]:
    if asked.parallel.tp <= ONE_SERVER:
        return ()
    return (f"tp={asked.parallel.tp} usually spans servers; all-reduces are timed on the link inside one",)


def by_reason(refused: Mapping[str, tuple[str, ...]]) -> list[str]:
    """Say each reason once, with those that it refuses: pairs, which came furthest, before single backends."""
    named: dict[str, list[str]] = {}
    for name, reasons in sorted(refused.items(), key=lambda item: " + " not in item[0]):
        named.setdefault(reasons[0], []).append(name)
    return [
        f"{', '.join(names) if len(names) <= MOST_NAMED else f'{names[0]} and {len(names) - 1} others'}: {reason}"
        for reason, names in named.items()
    ]


def _choice(asked: Asked, pair: Pair, load: Load, slo: Slo, measured: Mapping[str, float] | None) -> Choice:
    steps = StepModel(asked.deployment(pair.prefill, pair.decode, pair.page_size), measured)
    service = serve(steps, load, memory_of(steps.deployment, steps.weights))
    return Choice(pair, service, slo.missed(service.rates), steps.deployment.stored_kv_dtype)


def _default(
    asked: Asked, load: Load, slo: Slo, measured: Mapping[str, float] | None
) -> tuple[Choice | None, Missing | None]:
    own = default_pair(asked)
    if isinstance(own, str):
        return None, Missing(own, own)
    try:
        return _choice(asked, own, load, slo, measured), None
    except DoesNotFit as error:
        return None, Missing(f"{own.name}: {error}", str(error))
    except (Incompatible, ValueError) as error:
        return None, Missing(own, str(error))


def to_be_sure(advice: Advice, model: str) -> tuple[str, ...]:
    """Name the measurements that would settle the choice, as commands."""
    load, page = advice.load, advice.choices[0].pair.page_size
    batch = max(1, round(advice.choices[0].service.running))
    decode, prompt = f"{batch}q1s{load.mean_kv_len}", f"q{load.isl - load.cached}s{load.isl}"
    specs = {"ttft": [prompt], "tpot": [decode], "throughput": [decode, prompt]}[advice.goal]
    line = " ".join(f"--batch-spec {spec}" for spec in specs)
    return (f"attnroof tune --model {model} --device cuda:0 --page-size {page} {line}",)
