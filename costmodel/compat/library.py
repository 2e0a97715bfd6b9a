"""Whether a backend's bare library call can run a workload, from the same rule tables as the server's verdicts."""

from functools import lru_cache

from costmodel.attention import Attention
from costmodel.batch import Batch
from costmodel.compat.device import Device, describe
from costmodel.compat.facts import attention_facts
from costmodel.compat.rules import Rule
from costmodel.compat.tables import backend_names, load_backend
from hwprofiles import Profile


def library_reasons(backend: str, attention: Attention, batch: Batch, profile: Profile) -> tuple[str, ...]:
    """Say all reasons why the library call cannot run this workload; empty where it can.

    Args:
        backend: One of SGLang's names; others have no rules and give no reasons.
        attention: The attention on one rank.
        batch: The batch; its phase, page size and tree width matter.
        profile: The device.
    """
    uniform = batch.phase == "decode" or batch.q_lens.count(batch.q_lens[0]) == len(batch.q_lens)
    return _reasons(backend, attention, (batch.phase, batch.page_size, batch.topk, uniform), describe(profile))


@lru_cache(maxsize=16384)
def _reasons(backend: str, attention: Attention, call: tuple[str, int, int, bool], device: Device) -> tuple[str, ...]:
    phase, page_size, topk, uniform = call
    facts = {
        **attention_facts(attention),
        "platform": device.platform,
        "arch": device.arch,
        "device": device.name,
        "backend": backend,
        "phase": phase,
        "page": page_size,
        "page_given": True,
        "topk": topk,
        "tree": topk > 1,
        "speculative": False,
        "uniform_q": uniform,
        "cross": False,
        "cross_model": False,
        "windowed_model": attention.sliding_window is not None,
        "sparse": _sparse(attention, backend),
    }
    fired = (rule for rule in _rules(backend) if rule.holds(facts))
    return tuple(dict.fromkeys(rule.text(facts) for rule in fired))


BLOCK_SPARSE = {"qsa": "qsa", "minicpm_flashattn": "minicpm", "minicpm_flashinfer": "minicpm"}
"""Backends of block-sparse layers with keys and values: a library call has no model, only a layer of their kind."""


@lru_cache(maxsize=64)
def _rules(backend: str) -> tuple[Rule, ...]:
    if backend not in backend_names():
        return ()
    rules = load_backend(backend).rules
    return tuple(rule for rule in rules if rule.effect == "incompatible" and rule.scope != "server")


def _sparse(attention: Attention, backend: str) -> str:
    if attention.top_k is None:
        return "none"
    if not attention.is_latent:
        return BLOCK_SPARSE.get(backend, "blocks")
    return "dsv4" if attention.head_dim == attention.value_dim else "dsa"
