"""From kernels to requests: what attention backends mean for TTFT, TPOT, throughput and memory of a server."""

from costmodel.serving.advise import Advice, advise, to_be_sure
from costmodel.serving.architecture import Architecture, read_architecture
from costmodel.serving.choice import Choice, Slo
from costmodel.serving.choices import Asked, Pair, default_pair, find_pairs
from costmodel.serving.deployment import Deployment, Parallel
from costmodel.serving.layers import measured_key
from costmodel.serving.load import Load
from costmodel.serving.memory import DoesNotFit, Memory, memory_of
from costmodel.serving.pareto import Disaggregated, Point, best_within, disaggregate, front, points
from costmodel.serving.service import Rates, Service, serve
from costmodel.serving.step import Step, StepModel
from costmodel.serving.verdict import Goal
from costmodel.serving.weights import RankWeights, rank_weights

__all__ = [
    "Advice",
    "Architecture",
    "Asked",
    "Choice",
    "Deployment",
    "Disaggregated",
    "DoesNotFit",
    "Goal",
    "Load",
    "Memory",
    "Pair",
    "Parallel",
    "Point",
    "RankWeights",
    "Rates",
    "Service",
    "Slo",
    "Step",
    "StepModel",
    "advise",
    "best_within",
    "default_pair",
    "disaggregate",
    "find_pairs",
    "front",
    "measured_key",
    "memory_of",
    "points",
    "rank_weights",
    "read_architecture",
    "serve",
    "to_be_sure",
]
