"""The rules against decisions that SGLang 0.5.23's own code took."""

import json
import lzma
from collections import Counter

from sglang_cases import DATA, device, published

from costmodel.sglang import sglang_resolve

FIELDS = ("prefill", "decode", "page_size", "kv_cache_dtype", "kv_pool_dtype")
REQUIRED_AGREEMENT = 0.97


def recorded():
    with lzma.open(DATA / "sglang" / "decisions.jsonl.xz", "rt", encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


def test_the_rules_agree_with_recorded_decisions():
    rows = recorded()
    kinds: Counter[str] = Counter()
    disagreements = []
    for row in rows:
        decision = sglang_resolve(published(row["model"]), device(row["gpu"]), row["args"], sglang="0.5.23")
        wrong = [name for name in FIELDS if getattr(decision, name) != row.get(name)]
        wrong += ["refused"] if decision.stage != row["refused"] else []
        if wrong:
            kinds[" ".join(wrong)] += 1
            disagreements.append(f"{row['gpu']} {row['model']} {' '.join(row['args'])}: {wrong}")
    report = f"{len(disagreements)} of {len(rows)} differ, by kind {dict(kinds)}:\n" + "\n".join(disagreements[:20])
    assert 1 - len(disagreements) / len(rows) >= REQUIRED_AGREEMENT, report
    assert not disagreements, report


def test_every_refusal_tells_stage_and_reason():
    for row in recorded()[::7]:
        decision = sglang_resolve(published(row["model"]), device(row["gpu"]), row["args"])
        assert (decision.refused is None) == (decision.stage is None)
        if decision.refused is not None:
            stage, _, reason = decision.refused.partition(": ")
            assert stage == decision.stage
            assert len(reason) > 10
            assert "{" not in reason
