"""PyTorch's compiled FlexAttention with block masks; the default form is SGLang's, one call a request."""

import shutil
from typing import TYPE_CHECKING, ClassVar

from costmodel import Attention, Batch
from executors.backends.flex_forms import FORMS, Options
from executors.base import Backend, Knob, Knobs, KnobValue, Prepared
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
        return reasons

    def knobs(self, attention: Attention, batch: Batch, profile: Profile) -> tuple[Knob, ...]:
        """Name forms and block sizes (0: PyTorch's choice); threads are compiled in and not worth trying."""
        decoding = max(batch.q_lens) == 1
        forms: list[KnobValue] = ["per_request"] if decoding or _square(attention, batch) else []
        if not decoding:
            forms.append("packed")
        elif batch.size > 1:
            forms.append("padded")
        knobs = [Knob("form", tuple(forms)), Knob("block_n", (0, 512) if decoding else (0, 64, 256))]
        if not decoding:
            knobs.append(Knob("block_m", (0, 64)))
        return tuple(knobs)

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
