"""PyTorch's compiled FlexAttention with block masks; the default form is SGLang's, one call a request."""

import shutil
from typing import TYPE_CHECKING, ClassVar

from costmodel import Attention, Batch
from executors.backends.flex_forms import FORMS, Options
from executors.backends.flex_tiles import is_tiled, shared_bytes, tile
from executors.base import Backend, Knob, Knobs, Prepared
from executors.environment import installed_version
from hwprofiles import Profile

if TYPE_CHECKING:
    from executors.inputs import Inputs

COMPILERS = ("g++", "clang++", "c++")
BLOCKS = (16, 32, 64, 128, 256, 512)


class FlexAttention(Backend):
    """FlexAttention after a gather of the pages; the gather is in the latency, the compilation is not."""

    name = "flex_attention"
    phases = frozenset({"decode", "extend", "verify", "mixed"})
    devices = frozenset({"cpu", "cuda"})
    dtypes = frozenset({"bf16", "fp16", "fp32"})
    kv_dtypes = frozenset({"bf16", "fp16", "fp32"})
    install_hint: ClassVar[str] = "pip install torch, and a C++ compiler (apt-get install g++)"

    def implementation(self) -> tuple[str, str] | None:
        """PyTorch and its version, where a C++ compiler can build what it generates."""
        version = installed_version("torch")
        return None if version is None or not has_compiler() else ("torch", version)

    def reject(self, attention: Attention, batch: Batch, profile: Profile) -> list[str]:
        """Say what this adapter or FlexAttention lacks: another KV dtype, sinks, sparse selections, odd widths."""
        reasons = super().reject(attention, batch, profile)
        if attention.kv_dtype != attention.dtype:
            reasons.append(f"KV dtype {attention.kv_dtype} differs from dtype {attention.dtype}: it takes one dtype")
        if attention.sinks:
            reasons.append("no attention sinks in this adapter")
        if attention.top_k is not None:
            reasons.append("no sparse selection in this adapter")
        if profile.kind != "cpu" and attention.head_dim < 16:
            reasons.append(f"head_dim {attention.head_dim} is below 16")
        forms = _forms(attention, batch)
        if forms and not any(_fits(attention, rows, profile) for rows in forms.values()):
            rows, keys = tile(attention)
            reasons.append(
                f"PyTorch's tile of {rows} x {keys} takes {shared_bytes(attention, rows, keys)} bytes of shared memory "
                f"at head dims {attention.head_dim}/{attention.value_dim}, more than the "
                f"{profile.shared_memory_max_bytes_per_block} of {profile.name}"
            )
        return reasons

    def knobs(self, attention: Attention, batch: Batch, profile: Profile) -> tuple[Knob, ...]:
        """Name forms and block sizes (0: PyTorch's choice); threads are compiled in and not worth trying."""
        decoding = max(batch.q_lens) == 1
        forms = {form: rows for form, rows in _forms(attention, batch).items() if _fits(attention, rows, profile)}
        knobs = [Knob("form", tuple(forms) or ("packed",))]
        if decoding:
            return (*knobs, Knob("block_n", (0, 512 if profile.kind == "cpu" else 128)))
        rows = max(forms.values(), default=0)
        sizes = [n for n in (64, 256) if _fits(attention, rows, profile, block_n=n)]
        return (*knobs, Knob("block_n", (0, *sizes)), Knob("block_m", (0, 64)))

    def allows(self, attention: Attention, batch: Batch, knobs: Knobs) -> bool:
        """Change one block size at a time: each pair is compiled anew."""
        return not (knobs.get("block_m") and knobs.get("block_n"))

    def prepare(self, inputs: "Inputs", knobs: Knobs) -> Prepared:
        """Build block masks, compile, and leave the gather and the call to `run`."""
        options = _options(knobs)
        return FORMS[options.form](inputs, options)


def has_compiler() -> bool:
    """Whether a C++ compiler is on the path."""
    return any(shutil.which(name) for name in COMPILERS)


def _forms(attention: Attention, batch: Batch) -> dict[str, int]:
    """Forms that can run the batch, SGLang's first, with the most query rows of one call."""
    if max(batch.q_lens) == 1:
        return {"per_request": 1, "padded": 1} if batch.size > 1 else {"per_request": 1}
    square = {"per_request": max(batch.kv_lens)} if _square(attention, batch) else {}
    return {**square, "packed": batch.total_q}


def _fits(attention: Attention, rows: int, profile: Profile, block_n: int = 0) -> bool:
    """Whether a call's tile fits the shared memory; known for compute capability 9.0 only, so others are tried."""
    limit = profile.shared_memory_max_bytes_per_block
    if profile.compute_capability != "9.0" or limit is None or not is_tiled(attention, rows):
        return True
    block_m, keys = tile(attention)
    return shared_bytes(attention, block_m, block_n or keys) <= limit


def _square(attention: Attention, batch: Batch) -> bool:
    return attention.causal and batch.topk == 1 and batch.phase != "verify"


def _options(knobs: Knobs) -> Options:
    unknown = set(knobs) - {"form", "block_m", "block_n", "threads"}
    if unknown:
        raise ValueError(f"flex_attention has no knob {', '.join(sorted(unknown))}")
    options = Options(
        form=str(knobs.get("form", "per_request")),
        block_m=int(knobs.get("block_m") or 0),
        block_n=int(knobs.get("block_n") or 0),
        threads=int(knobs.get("threads") or 0),
    )
    if options.form not in FORMS:
        raise ValueError(f"flex_attention knob form={options.form!r} is not one of {', '.join(FORMS)}")
    for name in ("block_m", "block_n"):
        if getattr(options, name) not in (0, *BLOCKS):
            raise ValueError(f"flex_attention knob {name}={getattr(options, name)} is not 0 or one of {BLOCKS}")
    return options
