"""Compile what a sweep will launch, in parallel processes, before any time is taken."""

import multiprocessing
import time
from collections.abc import Iterable, Sequence

from costmodel import Attention, Batch
from executors.outcome import Candidate
from executors.sweeps.runner import Task

COMPILED = frozenset({"triton", "attnroof_triton", "flex_attention", "fa4"})
"""Backends whose kernels are compiled at first use and cached on disk (FlashAttention-4's where its variable asks)."""
_BY_BATCH = frozenset({"attnroof_triton", "flex_attention"})
"""Of these the kernel depends on the whole batch: tiles, and how many parts are merged."""
_Job = tuple[Attention, Batch, tuple[Candidate, ...]]


def jobs(tasks: Iterable[Task]) -> list[_Job]:
    """Keep one workload for each kernel, as far as layer, page size, phase and knobs tell them apart."""
    seen: set[tuple[object, ...]] = set()
    found = []
    for workload, candidates in tasks:
        attention, batch = workload.attention, workload.batch
        shape = (attention, batch.phase, batch.page_size, batch.size == 1, batch.topk, batch.q_lens == batch.kv_lens)
        fresh = []
        for candidate in candidates:
            detail = batch if candidate.backend in _BY_BATCH else max(batch.q_lens) if batch.phase == "verify" else 0
            key = (*shape, detail, candidate.key)
            if candidate.backend in COMPILED and key not in seen:
                seen.add(key)
                fresh.append(candidate)
        if fresh:
            found.append((attention, batch, tuple(fresh)))
    return found


def warm(tasks: Iterable[Task], device: str, *, workers: int, seconds: float) -> str:
    """Run each job once in a pool; failures are left for the sweep to meet and record.

    Args:
        tasks: What will be measured.
        device: Where.
        workers: Processes.
        seconds: Time after which jobs not begun are dropped.

    Returns:
        One line about it.
    """
    work, started = jobs(tasks), time.monotonic()
    workers = min(workers, len(work))
    if not workers:
        return "nothing to compile beforehand"
    chunks = [(work[i::workers], device, time.time() + seconds) for i in range(workers)]
    with multiprocessing.get_context("spawn").Pool(workers) as pool:
        done = sum(pool.starmap(_compile, chunks))
    candidates = sum(len(found) for _, _, found in work)
    return f"warmed {done} of {candidates} candidates in {time.monotonic() - started:.0f} s with {workers} processes"


def _compile(work: Sequence[_Job], device: str, until: float) -> int:
    from executors.inputs import make_inputs
    from executors.registry import get_backend

    done = 0
    for attention, batch, candidates in work:
        try:
            inputs = make_inputs(attention, batch, device, seed=0, slots=1)
        except Exception:
            continue
        for candidate in candidates:
            if time.time() > until:
                return done
            try:
                get_backend(candidate.backend).prepare(inputs, candidate.knobs).run(0)
                done += 1
            except Exception:
                continue
    return done
