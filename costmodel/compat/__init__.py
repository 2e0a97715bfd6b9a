"""Judging backends: which of SGLang's names run a model on a device, and why not."""

from costmodel.compat.device import contradiction
from costmodel.compat.facts import Options
from costmodel.compat.judge import PHASES, Judgement, Row, judge
from costmodel.compat.library import library_reasons
from costmodel.compat.pairs import PairVerdict, judge_pair
from costmodel.compat.tables import backend_names

__all__ = [
    "PHASES",
    "Judgement",
    "Options",
    "PairVerdict",
    "Row",
    "backend_names",
    "contradiction",
    "judge",
    "judge_pair",
    "library_reasons",
]
