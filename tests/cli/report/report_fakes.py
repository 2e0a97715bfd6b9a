"""A small set of records: two shapes, three backends, a swept split count, and runs that failed."""

from collections.abc import Mapping

from costmodel import Attention, Batch, KnobValue, Record, predict
from costmodel.record import RecordedBatch, RecordedDevice
from hwprofiles import load_profile

PROFILE = load_profile("NVIDIA H200")
DEVICE = RecordedDevice(name="NVIDIA H200", cc="9.0", sms=132, memory_mib=143771, driver="580.159")
GQA = Attention(num_qo_heads=32, num_kv_heads=8, head_dim=128)
NARROW = Attention(num_qo_heads=8, num_kv_heads=1, head_dim=128)
SPLITS = (1, 2, 3, 4, 6)


def record(
    attention: Attention, batch: Batch, backend: str, knobs: Mapping[str, KnobValue] | None = None, factor: float = 1.0
) -> Record:
    """One measurement: the prediction times a factor, so that nothing here depends on the calibration."""
    seconds = factor * predict(attention, batch, backend=backend, profile=PROFILE, knobs=knobs).seconds
    fields = {
        name: getattr(attention, name) for name in ("num_qo_heads", "num_kv_heads", "head_dim", "dtype", "kv_dtype")
    }
    return Record(
        schema=1,
        attention=fields,
        batch=RecordedBatch(phase=batch.phase, q_lens=batch.q_lens, kv_lens=batch.kv_lens, page_size=batch.page_size),
        backend=backend,
        implementation="library",
        implementation_version="1.0",
        knobs=dict(knobs or {}),
        outcome="measured",
        latency_us=seconds * 1e6,
        p10_us=seconds * 0.99e6,
        p90_us=seconds * 1.01e6,
        repeats=7,
        sm_clock_mhz=1980,
        power_w=400,
        device=DEVICE,
        torch="2.11.0",
        cuda="13.0",
        time="2026-11-30T14:05:09Z",
    )


def records() -> list[Record]:
    """All of them."""
    found = []
    for attention in (GQA, NARROW):
        for kv in (1024, 8192, 32768):
            batch = Batch.decode([kv] * 4, page_size=64)
            found += [record(attention, batch, name) for name in ("fa3", "triton")]
            found.append(record(attention, batch, "flashinfer", factor=0.5))
        prompt = Batch.extend([2048], [2048], page_size=64)
        found += [record(attention, prompt, "fa3", factor=0.7), record(attention, prompt, "flashinfer")]
    long = Batch.decode([32768], page_size=64)
    found.append(record(GQA, long, "fa3", factor=3.0))
    found += [record(GQA, long, "fa3", {"num_splits": n}) for n in SPLITS]
    failed = record(GQA, long, "triton")
    return [*found, failed.model_copy(update={"outcome": "crashed", "reason": "illegal address", "latency_us": None})]


def write_records(path) -> None:  # type: ignore[no-untyped-def]
    """Write them as JSON lines, with one damaged line."""
    lines = [r.to_line() for r in records()]
    path.write_text("\n".join([*lines, lines[0][:50]]) + "\n", encoding="utf-8")
