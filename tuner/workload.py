"""What one search is about: one attention shape and one batch, with the key that tells it from every other."""

import hashlib
import json
from dataclasses import asdict, dataclass

from costmodel import Attention, Batch
from costmodel.record import compact_lens
from tuner.point import Point


@dataclass(frozen=True, slots=True)
class Workload:
    """One attention call to choose a backend for."""

    attention: Attention
    batch: Batch
    spec: str
    """The batch as vLLM's grammar writes it."""
    layers: int = 1
    """Layers of the model that make this call."""

    @property
    def ragged(self) -> bool:
        """Whether the requests differ in length."""
        return not self.batch.uniform

    @property
    def point(self) -> Point:
        """The batch reduced to the numbers a table is keyed by."""
        return Point.of(self.batch)

    @property
    def key(self) -> str:
        """A short readable name with a hash over every field of attention and batch."""
        a, p = self.attention, self.point
        fields = {
            "attention": asdict(a),
            "batch": {
                **asdict(self.batch),
                "q_lens": compact_lens(self.batch.q_lens),
                "layers": 1,
                "kv_lens": compact_lens(self.batch.kv_lens),
            },
        }
        digest = hashlib.sha256(json.dumps(fields, sort_keys=True).encode()).hexdigest()[:8]
        shape = f"{a.family}-{a.num_qo_heads}-{a.num_kv_heads}-{a.head_dim}-{a.dtype}-{a.kv_dtype}"
        return f"{shape}/{self.batch.phase}/{p.key}-page{self.batch.page_size}-{digest}"
