"""vLLM's batch grammar: `(<n>)q<len>[k][s<len>[k]]` joined by `_`, for example `2q2k_32q1s1k`."""

import re
from dataclasses import dataclass

from costmodel.batch import PHASES, Batch, Phase

_PART = re.compile(r"(?P<n>\d+)?q(?P<q>\d+)(?P<qk>k)?(?:s(?P<s>\d+)(?P<sk>k)?)?", re.ASCII)
MAX_SPEC_REQUESTS = 100_000


@dataclass(frozen=True, slots=True)
class _Part:
    count: int
    q: int
    kv: int

    @property
    def phase(self) -> Phase:
        if self.q == 1:
            return "decode"
        return "verify" if 2 <= self.q <= 16 and self.kv > self.q else "extend"


def parse_batch_spec(spec: str, *, page_size: int = 1, phase: str | None = None, layers: int = 1) -> Batch:
    """Read one batch specification.

    Args:
        spec: Parts joined by `_`; `k` is 1,024; `s` counts all visible tokens and includes q.
        page_size: Tokens in one page of the KV cache.
        phase: Overrides the phase that the lengths imply.
        layers: Layers that share one plan.

    Raises:
        ValueError: The text does not follow the grammar, or lengths do not fit together.
    """
    parts = [_parse_part(text, spec) for text in spec.split("_")]
    if sum(p.count for p in parts) > MAX_SPEC_REQUESTS:
        raise ValueError(f"batch spec {spec!r} asks for more than {MAX_SPEC_REQUESTS} requests")
    phases = {p.phase for p in parts}
    if phase is not None and phase not in PHASES:
        raise ValueError(f"phase={phase!r} is not one of {', '.join(PHASES)}")
    chosen: Phase = next(p for p in PHASES if p == phase) if phase else phases.pop() if len(phases) == 1 else "mixed"
    q_lens = tuple(p.q for p in parts for _ in range(p.count))
    kv_lens = tuple(p.kv for p in parts for _ in range(p.count))
    return Batch(chosen, q_lens, kv_lens, page_size, 1, layers)


def _parse_part(text: str, spec: str) -> _Part:
    match = _PART.fullmatch(text)
    if match is None:
        raise ValueError(f"batch spec {spec!r}: cannot read {text!r}; expected (<n>)q<len>[k][s<len>[k]], e.g. 8q1s4k")
    count = int(match["n"] or 1)
    q = int(match["q"]) * (1024 if match["qk"] else 1)
    kv = int(match["s"]) * (1024 if match["sk"] else 1) if match["s"] else q
    if count < 1 or q < 1:
        raise ValueError(f"batch spec {spec!r}: {text!r} needs at least one request and one query token")
    if kv < q:
        raise ValueError(f"batch spec {spec!r}: {text!r} has s={kv} below q={q}; s counts all visible tokens")
    return _Part(count, q, kv)
