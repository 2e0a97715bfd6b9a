"""SGLang's own Triton kernels, called as its `triton` backend calls them."""

from collections.abc import Callable, Mapping
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from costmodel import Attention, Batch
from executors.backends import sglang_kernels
from executors.backends.knob_values import knob_values, split_ladder, whole
from executors.base import Backend, Knob, Knobs, KnobValue, Prepared
from hwprofiles import Profile

if TYPE_CHECKING:
    import torch

    from executors.inputs import Inputs

DEFAULT_SPLITS = 8
MAX_SPLITS = 256
MIN_SPLIT_KEYS = 32
_SCHEDULE = 256


class Triton(Backend):
    """SGLang's Triton attention.

    Decode splits KV by SGLang's rule up to `max_kv_splits` (`split_mode` "auto") or always into that many ("fixed",
    SGLANG_TRITON_DECODE_ATTN_STATIC_KV_SPLITS). For MLA a server raises the limit to fill the SMs, and so does this;
    the longest request stands for the context length. Extend and verify have no split. KV indices are int64, as
    SGLang passes them.
    """

    name = "triton"
    phases = frozenset({"decode", "extend", "verify", "mixed"})
    kv_dtypes = frozenset({"bf16", "fp16", "fp8_e4m3", "fp8_e5m2"})
    install_hint = "pip install --no-deps sglang"

    def implementation(self) -> tuple[str, str] | None:
        """Name SGLang and its version."""
        found = sglang_kernels.version()
        return ("sglang", found) if found else None

    def reject(self, attention: Attention, batch: Batch, profile: Profile) -> list[str]:
        """Say all reasons why this workload cannot run."""
        reasons = super().reject(attention, batch, profile)
        if attention.top_k is not None:
            reasons.append("sparse attention")
        if attention.chunk_size is not None:
            reasons.append("chunked attention: the kernels have sliding windows only")
        if attention.sliding_window is not None and batch.topk > 1:
            reasons.append("a tree mask under a sliding window")
        if not attention.causal and batch.phase == "mixed":
            reasons.append("a mixed batch without causality")
        return reasons

    def knobs(self, attention: Attention, batch: Batch, profile: Profile) -> tuple[Knob, ...]:
        """Name the split knobs of decode."""
        if batch.phase != "decode":
            return ()
        raised = split_limit(attention, batch, 1, profile.num_sms or 0)
        useful = (*split_ladder(-(-max(batch.kv_lens) // MIN_SPLIT_KEYS)), MAX_SPLITS)
        counts = [s for s in useful if s != DEFAULT_SPLITS and (s > raised or raised == 1)]
        return (
            Knob("max_kv_splits", (DEFAULT_SPLITS, *counts), via="sglang_flag"),
            Knob("split_mode", ("auto", "fixed"), via="sglang_env"),
        )

    def prepare(self, inputs: "Inputs", knobs: Knobs) -> Prepared:
        """Build the index lists and bind one call per KV copy."""
        kernels = sglang_kernels.load()
        if inputs.batch.phase != "decode":
            knob_values(self.name, knobs, {})
            return _prepare_extend(kernels, inputs)
        defaults: Mapping[str, KnobValue] = {"max_kv_splits": DEFAULT_SPLITS, "split_mode": "auto"}
        chosen = knob_values(self.name, knobs, defaults)
        flag = whole(self.name, "max_kv_splits", chosen["max_kv_splits"], 1, MAX_SPLITS)
        limit = split_limit(inputs.attention, inputs.batch, flag, _sms(inputs.device))
        if chosen["split_mode"] not in ("auto", "fixed"):
            raise ValueError(f"triton: split_mode={chosen['split_mode']!r} is not 'auto' or 'fixed'")
        return _prepare_decode(kernels, inputs, limit, chosen["split_mode"] == "fixed")


def split_limit(attention: Attention, batch: Batch, flag: int, sms: int) -> int:
    """The limit that a server runs with: its flag, raised for MLA to what fills the SMs or the context."""
    if not attention.is_latent or sms < 1:
        return flag
    steps = -(-max(batch.kv_lens) // MIN_SPLIT_KEYS)
    return max(flag, min(_power_of_two(sms), _power_of_two(steps)))


def _power_of_two(value: int) -> int:
    return 1 << (value - 1).bit_length()


def _sms(device: str) -> int:
    import torch

    return int(torch.cuda.get_device_properties(device).multi_processor_count) if device.startswith("cuda") else 1


def _kept(inputs: "Inputs", skip_new: bool, reach: int | None) -> "tuple[torch.Tensor, torch.Tensor]":
    """Give indptr (int32) and flat rows (int64) of the keys a call reads from the cache.

    Args:
        inputs: The workload.
        skip_new: Leave out the new tokens: extend reads those from its own arguments.
        reach: Keep the last `reach` of them only; None keeps all.
    """
    import torch

    kv = inputs.kv_lens.long()
    end = kv - inputs.q_lens.long() if skip_new else kv
    start = torch.zeros_like(end) if reach is None else (end - reach).clamp_min(0)
    lens = end - start
    indptr = torch.nn.functional.pad(lens.cumsum(0), (1, 0))
    first = torch.repeat_interleave(inputs.cu_kv[:-1].long() + start - indptr[:-1], lens)
    rows = inputs.token_slots[torch.arange(len(first), device=first.device) + first]
    return indptr.to(torch.int32), rows


def _flat(cache: "torch.Tensor") -> "torch.Tensor":
    """View `[pages, page_size, heads, dim]` as SGLang's `[tokens, heads, dim]`."""
    return cache.flatten(0, 1)


def _prepare_decode(kernels: SimpleNamespace, inputs: "Inputs", limit: int, fixed: bool) -> Prepared:
    import torch

    attention, batch, q = inputs.attention, inputs.batch, inputs.q
    indptr, indices = _kept(inputs, skip_new=False, reach=attention.sliding_window)
    lens = indptr.diff().to(torch.int32)
    shape = (batch.size, attention.num_qo_heads, limit)
    logits = torch.empty(*shape, attention.value_dim, dtype=torch.float32, device=inputs.device)
    lse = torch.empty(shape, dtype=torch.float32, device=inputs.device)
    splits = torch.full((batch.size,), limit, dtype=torch.int32, device=inputs.device)
    plan = _decode_plan(kernels, inputs, (indptr, indices, lens, splits), limit, fixed)  # fills `splits`
    plan()
    pdl = inputs.device.startswith("cuda") and torch.cuda.get_device_capability(inputs.device)[0] >= 9

    def run(slot: int) -> "torch.Tensor":
        out = torch.empty(batch.size, attention.num_qo_heads, attention.value_dim, dtype=q.dtype, device=q.device)
        kernels.decode_attention.decode_attention_fwd(
            q,
            _flat(inputs.k_cache[slot]),
            _flat(inputs.v_cache[slot]),
            out,
            indptr,
            indices,
            logits,
            lse,
            splits,
            limit,
            inputs.scale,
            1.0,
            1.0,
            logit_cap=attention.logit_soft_cap or 0.0,
            sinks=inputs.sinks,
            has_mla=attention.is_latent,
            use_pdl=pdl,
            page_size=batch.page_size,
        )
        return out

    size = logits.numel() * 4 + lse.numel() * 4
    path = f"decode, {'fixed' if fixed else 'at most'} {limit} splits"
    return Prepared(run, plan, path=path, workspace_bytes=size, keep=(logits, lse, splits, indptr, indices))


def _decode_plan(
    kernels: SimpleNamespace, inputs: "Inputs", lists: "tuple[torch.Tensor, ...]", limit: int, fixed: bool
) -> Callable[[], None]:
    """Launch what a server launches once a step: the index list and the split counts."""
    attention, batch = inputs.attention, inputs.batch
    indptr, indices, lens, splits = lists
    sms = _sms(inputs.device)
    step: dict[str, Any] = {}

    def plan() -> None:
        if step:
            kernels.kv_indices.create_flashinfer_kv_indices_triton[(batch.size,)](
                step["table"], step["requests"], lens, indptr, step["start"], indices, step["table"].stride(0)
            )
        else:
            step.update(_token_table(inputs, lens))
        if fixed:
            splits.fill_(limit)
            return
        kernels.metadata.get_num_kv_splits_triton[(1,)](
            splits,
            inputs.kv_lens,  # a server counts the whole length for windowed layers too
            batch.size,
            1,
            attention.num_qo_heads,
            attention.num_kv_heads,
            limit,
            sms,
            MAX_NUM_SEQ=max(_SCHEDULE, 1 << (batch.size - 1).bit_length()),
        )

    return plan


def _token_table(inputs: "Inputs", lens: "torch.Tensor") -> dict[str, Any]:
    """SGLang's request-to-token table, which its index kernel reads."""
    import torch

    batch, device = inputs.batch, inputs.device
    longest = max(batch.kv_lens)
    table = torch.zeros(batch.size, longest, dtype=torch.int32, device=device)
    held = torch.arange(longest, device=device) < inputs.kv_lens[:, None]
    table[held] = inputs.token_slots.to(torch.int32)
    requests = torch.arange(batch.size, device=device)
    return {"table": table, "requests": requests, "start": inputs.kv_lens - lens}


def _prepare_extend(kernels: SimpleNamespace, inputs: "Inputs") -> Prepared:
    import torch

    attention, batch, q = inputs.attention, inputs.batch, inputs.q
    window = attention.sliding_window
    indptr, indices = _kept(inputs, skip_new=True, reach=None if window is None else window - 1)
    k_new, v_new = (new.to(q.dtype).contiguous() for new in (inputs.k_new, inputs.v_new))
    qo_indptr = inputs.cu_q.long()
    mask_indptr = None
    if inputs.tree_mask is not None:
        mask_indptr = torch.nn.functional.pad((inputs.q_lens.long() * inputs.kv_lens.long()).cumsum(0), (1, 0))

    def run(slot: int) -> "torch.Tensor":
        out = torch.empty(batch.total_q, attention.num_qo_heads, attention.value_dim, dtype=q.dtype, device=q.device)
        kernels.extend_attention.extend_attention_fwd(
            q,
            k_new,
            v_new,
            out,
            _flat(inputs.k_cache[slot]),
            _flat(inputs.v_cache[slot]),
            qo_indptr,
            indptr,
            indices,
            inputs.tree_mask,
            attention.causal,
            mask_indptr,
            max(batch.q_lens),
            1.0,
            1.0,
            sm_scale=inputs.scale,
            logit_cap=attention.logit_soft_cap or 0.0,
            sliding_window_size=-1 if window is None else window - 1,
            sinks=inputs.sinks,
            page_size=batch.page_size,
        )
        return out

    path = "extend" + (", tree mask" if inputs.tree_mask is not None else "")
    return Prepared(run, path=path, keep=(k_new, v_new, indptr, indices, qo_indptr, mask_indptr))
