"""Which candidates SGLang itself can run: by its flags and environment variables, as it calls the library."""

from collections.abc import Sequence

from costmodel import Batch
from costmodel.knobs import KNOBS
from executors.outcome import Candidate
from tuner.workload import Workload

OWN_BACKENDS = frozenset({"attnroof_triton"})
"""Backends of this project, which no serving engine knows."""


def sglang_reaches(candidate: Candidate, batch: Batch, *, latent: bool = False) -> bool:
    """Say whether an SGLang server can be told to make this call.

    Every knob that SGLang has no flag for has to be at the value SGLang passes. FlashInfer is always planned at
    page 1 there, and its paged extend and verify wrappers are pinned to the fa2 kernels.
    """
    if candidate.backend in OWN_BACKENDS:
        return False
    if candidate.backend == "flashinfer" and batch.page_size != 1:
        return False
    specs = {spec.name: spec for spec in KNOBS.get(candidate.backend, ())}
    for name, value in candidate.knobs.items():
        spec = specs.get(name)
        if spec is None:
            return False
        pinned = "fa2" if name == "kernel" and not latent and batch.phase != "decode" else spec.default
        if spec.via == "library" and value != pinned and not _unused(name, batch):
            return False
    return True


def reachable_keys(workload: Workload, candidates: Sequence[Candidate]) -> frozenset[str]:
    """Keys of the candidates that an SGLang server can be told to run."""
    latent = workload.attention.is_latent
    return frozenset(c.key for c in candidates if sglang_reaches(c, workload.batch, latent=latent))


def _unused(name: str, batch: Batch) -> bool:
    return name == "scheduler_metadata" and batch.phase != "decode"
