"""PyTorch's scaled dot-product attention over gathered pages; the default form is SGLang's, one call a request."""

from collections.abc import Callable
from typing import TYPE_CHECKING, ClassVar

from costmodel import Attention, Batch, Incompatible
from executors.backends.sdpa_forms import FORMS, Options
from executors.backends.sdpa_kernels import kernels_taken
from executors.base import Backend, Knob, Knobs, KnobValue, Prepared
from executors.environment import cpu_cores, installed_version
from hwprofiles import Profile

if TYPE_CHECKING:
    from torch import Tensor

    from executors.inputs import Inputs

KERNELS = ("auto", "flash", "efficient", "cudnn", "math")
_NO_KERNEL = ("No available kernel", "No viable backend")
"""How PyTorch says so on a GPU and on a CPU."""
MAX_PADDING = 4
"""The padded form is offered while it reads at most this many times the tokens that there are."""


class TorchNative(Backend):
    """SDPA after a gather of each request's pages; the gather is in the latency."""

    name = "torch_native"
    phases = frozenset({"decode", "extend", "verify", "mixed"})
    devices = frozenset({"cpu", "cuda"})
    dtypes = frozenset({"bf16", "fp16", "fp32"})
    kv_dtypes = frozenset({"bf16", "fp16", "fp32"})
    install_hint: ClassVar[str] = "pip install torch"

    def implementation(self) -> tuple[str, str] | None:
        """PyTorch and its version."""
        version = installed_version("torch")
        return None if version is None else ("torch", version)

    def reject(self, attention: Attention, batch: Batch, profile: Profile) -> list[str]:
        """Say what SDPA lacks: another KV dtype, sinks, soft-capping, sparse selections."""
        reasons = super().reject(attention, batch, profile)
        if attention.kv_dtype != attention.dtype:
            reasons.append(f"KV dtype {attention.kv_dtype} differs from dtype {attention.dtype}: SDPA takes one dtype")
        if attention.sinks:
            reasons.append("SDPA has no attention sinks")
        if attention.logit_soft_cap is not None:
            reasons.append("SDPA has no logit soft-capping")
        if attention.top_k is not None:
            reasons.append("SDPA has no sparse selection")
        return reasons

    def knobs(self, attention: Attention, batch: Batch, profile: Profile) -> tuple[Knob, ...]:
        """Name forms, KV splits, GQA packing and, by device, threads or SDPA kernels."""
        on_cpu = profile.kind == "cpu"
        knobs = [Knob("form", _forms(attention, batch, on_cpu))]
        if attention.group_size > 1:
            knobs.append(Knob("pack_gqa", (False, True)))
        if on_cpu:
            if max(batch.q_lens) == 1 and _has_lse(attention):
                knobs.append(
                    Knob("num_splits", tuple(n for n in (1, 2, 4, 8) if n == 1 or n * 64 <= max(batch.kv_lens)))
                )
            knobs.append(Knob("threads", (0, *(n for n in (1, 2, 4, 8, 16, 32, 64) if n < cpu_cores()))))
        else:
            knobs.append(Knob("sdpa", KERNELS))
        return tuple(knobs)

    def allows(self, attention: Attention, batch: Batch, knobs: Knobs) -> bool:
        """Splits belong to the per-request form and are packed anyway; the causal square and cascade are not packed.

        On a GPU the efficient kernel takes equal head counts only, and cuDNN no sequence of one key.
        """
        decoding = max(batch.q_lens) == 1
        if knobs.get("sdpa") == "efficient" and attention.group_size > 1 and not knobs.get("pack_gqa"):
            return False
        if knobs.get("sdpa") == "cudnn" and knobs["form"] != "padded" and min(batch.kv_lens) == 1:
            return False
        if knobs.get("num_splits", 1) != 1:
            return knobs["form"] == "per_request" and not knobs.get("pack_gqa")
        return not knobs.get("pack_gqa") or knobs["form"] in ("trimmed", "padded") or decoding

    def prepare(self, inputs: "Inputs", knobs: Knobs) -> Prepared:
        """Build index tensors and masks; the gather and SDPA are left to `run`."""
        options = _options(knobs)
        run = FORMS[options.form](inputs, options)
        return Prepared(run=run, path=f"sdpa:{_kernel_taken(run, options.sdpa)}", threads=options.threads or None)


def _kernel_taken(run: Callable[[int], "Tensor"], name: str) -> str:
    """Run once and name the kernel.

    Raises:
        Incompatible: PyTorch has no such kernel for this call.
    """
    try:
        return kernels_taken(run)
    except RuntimeError as error:
        if not any(text in str(error) for text in _NO_KERNEL):
            raise
        raise Incompatible("torch_native", [f"SDPA has no {name} kernel for this call"]) from None


def _forms(attention: Attention, batch: Batch, on_cpu: bool) -> tuple[KnobValue, ...]:
    decoding = max(batch.q_lens) == 1
    plain = attention.causal and attention.sliding_window is None and attention.chunk_size is None and batch.topk == 1
    forms: list[KnobValue] = []
    if decoding or (plain and batch.phase != "verify"):
        forms.append("per_request")
    if not decoding:
        forms.append("trimmed")
        if (
            on_cpu
            and plain
            and _has_lse(attention)
            and any(q < kv for q, kv in zip(batch.q_lens, batch.kv_lens, strict=True))
        ):
            forms.append("cascade")
    if batch.size > 1 and batch.size * max(batch.kv_lens) <= MAX_PADDING * batch.total_kv:
        forms.append("padded")
    return tuple(forms)


def _has_lse(attention: Attention) -> bool:
    """PyTorch's CPU flash kernel, the one that returns log-sum-exps, wants equal widths."""
    return attention.value_dim == attention.head_dim


def _options(knobs: Knobs) -> Options:
    unknown = set(knobs) - {"form", "pack_gqa", "num_splits", "threads", "sdpa"}
    if unknown:
        raise ValueError(f"torch_native has no knob {', '.join(sorted(unknown))}")
    options = Options(
        form=str(knobs.get("form", "per_request")),
        pack_gqa=bool(knobs.get("pack_gqa", False)),
        num_splits=int(knobs.get("num_splits") or 1),
        threads=int(knobs.get("threads") or 0),
        sdpa=str(knobs.get("sdpa", "auto")),
    )
    if options.form not in FORMS:
        raise ValueError(f"torch_native knob form={options.form!r} is not one of {', '.join(FORMS)}")
    if options.sdpa not in KERNELS:
        raise ValueError(f"torch_native knob sdpa={options.sdpa!r} is not one of {', '.join(KERNELS)}")
    if not 1 <= options.num_splits <= 128 or options.threads < 0:
        raise ValueError(f"torch_native knobs num_splits={options.num_splits}, threads={options.threads} out of range")
    return options
