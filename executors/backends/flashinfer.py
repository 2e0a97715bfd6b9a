"""FlashInfer: paged decode on CUDA or tensor cores, paged prefill on its fa2 or fa3 kernels, and MLA."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

from costmodel import Attention, Batch
from executors.backends.flashinfer_modules import modules
from executors.backends.knob_values import knob_values
from executors.base import Backend, Knob, Knobs, KnobValue, Prepared
from executors.environment import installed_version
from hwprofiles import Profile

if TYPE_CHECKING:
    import torch

    from executors.inputs import Inputs

WORKSPACE_BYTES = 384 << 20
"""SGLang's default for the float workspace."""
CUDA_CORE_GROUPS = (1, 2, 3, 4, 8)
KERNELS = ("auto", "fa2", "fa3")


class FlashInfer(Backend):
    """FlashInfer's batch wrappers, planned with the batch's page size.

    Decode and MLA decode run in the library's CUDA-graph mode, extend and verify in its normal mode, where each plan
    replaces the buffers that a captured call reads: they are planned before the capture and not again. `auto` is
    SGLang's rule for decode (tensor cores for fp8 KV or at least 4 query heads a KV head) and the library's for
    `kernel` (fa3 on compute capability 9.0 unless a tree mask or fp8 KV forbids it).
    """

    name = "flashinfer"
    phases = frozenset({"decode", "extend", "verify", "mixed"})
    kv_dtypes = frozenset({"bf16", "fp16", "fp8_e4m3", "fp8_e5m2"})
    install_hint = "pip install flashinfer-python"

    def implementation(self) -> tuple[str, str] | None:
        """Name the library and its version."""
        found = installed_version("flashinfer-python")
        return ("flashinfer", found) if found else None

    def reject(self, attention: Attention, batch: Batch, profile: Profile) -> list[str]:
        """Say all reasons why this workload cannot run."""
        reasons = super().reject(attention, batch, profile)
        if attention.sinks:
            reasons.append("attention sinks need a kernel variant that this adapter does not compile")
        if attention.chunk_size is not None:
            reasons.append("chunked attention: the kernels have sliding windows only")
        if attention.top_k is not None:
            reasons.append("sparse attention")
        if attention.is_latent:
            if (attention.head_dim, attention.value_dim) != (576, 512):
                reasons.append(
                    f"absorbed MLA with dims {attention.head_dim}/{attention.value_dim}; kernels have 576/512"
                )
            if attention.kv_dtype != attention.dtype:
                reasons.append(f"absorbed MLA with KV dtype {attention.kv_dtype}, dtype {attention.dtype}")
            if attention.sliding_window is not None or attention.logit_soft_cap is not None:
                reasons.append("absorbed MLA with a window or soft-cap")
            if batch.topk > 1:
                reasons.append("absorbed MLA with a tree mask")
        elif attention.head_dim not in (64, 128, 256, 512) and (attention.head_dim, attention.value_dim) != (192, 128):
            reasons.append(f"head dims {attention.head_dim}/{attention.value_dim} not among 64, 128, 256, 512, 192/128")
        elif batch.phase == "decode" and attention.value_dim != attention.head_dim:
            reasons.append(f"decode with head dims {attention.head_dim}/{attention.value_dim}")
        return reasons

    def knobs(self, attention: Attention, batch: Batch, profile: Profile) -> tuple[Knob, ...]:
        """Name `kernel`, or `use_tensor_cores` for decode of stored heads."""
        fa3 = profile.compute_capability == "9.0" and attention.kv_dtype == attention.dtype and batch.topk == 1
        if attention.is_latent or batch.phase != "decode":
            return (Knob("kernel", KERNELS if fa3 else ("auto", "fa2")),)
        if attention.group_size in CUDA_CORE_GROUPS:
            return (Knob("use_tensor_cores", ("auto", True, False), via="sglang_env"),)
        return (Knob("use_tensor_cores", ("auto", True), via="sglang_env"),)

    def prepare(self, inputs: "Inputs", knobs: Knobs) -> Prepared:
        """Make a wrapper, plan once and bind one call per KV copy.

        Raises:
            Incompatible: The kernel is not compiled and must not be.
            ValueError: A knob is unknown or out of range.
        """
        attention = inputs.attention
        with modules(self.name):
            if inputs.batch.phase == "decode" and not attention.is_latent:
                return _decode(inputs, knob_values(self.name, knobs, {"use_tensor_cores": "auto"})["use_tensor_cores"])
            kernel = knob_values(self.name, knobs, {"kernel": "auto"})["kernel"]
            if kernel not in KERNELS:
                raise ValueError(f"flashinfer: kernel={kernel!r} is not one of {', '.join(KERNELS)}")
            return _mla(inputs, str(kernel)) if attention.is_latent else _prefill(inputs, str(kernel))


@dataclass(frozen=True, slots=True)
class _Pages:
    """A batch's pages as the wrappers plan them; lengths on the host, indices on the device."""

    indptr: "torch.Tensor"
    """int32 `[requests + 1]`."""
    indices: "torch.Tensor"
    """int32 `[pages]`."""
    last_page_len: "torch.Tensor"
    """int32 `[requests]`."""
    qo_indptr: "torch.Tensor"
    """int32 `[requests + 1]`."""
    kv_lens: "torch.Tensor"
    """int32 `[requests]`."""

    def on(self, device: str) -> "_Pages":
        """Move the lengths too: packing a tree mask needs them on the device."""
        moved = (self.indptr, self.indices, self.last_page_len, self.qo_indptr, self.kv_lens)
        return _Pages(*(tensor.to(device) for tensor in moved))


def _pages(inputs: "Inputs") -> _Pages:
    import torch

    size = inputs.batch.page_size
    kv = torch.tensor(inputs.batch.kv_lens, dtype=torch.int32)
    counts = (kv + size - 1) // size
    owned = torch.arange(inputs.page_table.shape[1], device=inputs.device) < counts.to(inputs.device)[:, None]
    q = torch.tensor(inputs.batch.q_lens, dtype=torch.int32)
    return _Pages(
        torch.nn.functional.pad(counts.cumsum(0, dtype=torch.int32), (1, 0)),
        inputs.page_table[owned],
        (kv - 1) % size + 1,
        torch.nn.functional.pad(q.cumsum(0, dtype=torch.int32), (1, 0)),
        kv,
    )


@cache
def _workspace(device: str) -> "torch.Tensor":
    """One zeroed float workspace a device, shared by all wrappers as in a server."""
    import torch

    return torch.zeros(WORKSPACE_BYTES, dtype=torch.uint8, device=device)


def _bound(
    inputs: "Inputs", plan: Callable[[], Any], call: Callable[..., Any], path: str, keep: tuple[Any, ...]
) -> Prepared:
    """Plan once, then bind the wrapper's run to each KV copy with an output of its own."""
    import torch

    plan()
    q = inputs.q

    def run(slot: int) -> "torch.Tensor":
        out = torch.empty(*q.shape[:-1], inputs.attention.value_dim, dtype=q.dtype, device=q.device)
        call(q, (inputs.k_cache[slot], inputs.v_cache[slot]), out=out)
        return out

    return Prepared(run, plan, path=path, workspace_bytes=WORKSPACE_BYTES, keep=keep)


def _mask_arguments(attention: Attention, scale: float) -> dict[str, Any]:
    return {
        "window_left": -1 if attention.sliding_window is None else attention.sliding_window - 1,
        "logits_soft_cap": attention.logit_soft_cap,
        "sm_scale": scale,
    }


def _decode(inputs: "Inputs", use_tensor_cores: KnobValue) -> Prepared:
    from flashinfer import BatchDecodeWithPagedKVCacheWrapper

    attention, batch = inputs.attention, inputs.batch
    if use_tensor_cores not in ("auto", True, False):
        raise ValueError(f"flashinfer: use_tensor_cores={use_tensor_cores!r} is not 'auto', True or False")
    fp8 = attention.kv_dtype.startswith("fp8")
    tensor_cores = fp8 or attention.group_size >= 4 if use_tensor_cores == "auto" else bool(use_tensor_cores)
    if not tensor_cores and attention.group_size not in CUDA_CORE_GROUPS:
        raise ValueError(
            f"flashinfer: CUDA-core decode knows group sizes {CUDA_CORE_GROUPS}, not {attention.group_size}"
        )
    pages = _pages(inputs)
    buffers = (inputs.cu_q.clone(), pages.indices.clone(), inputs.kv_lens.clone())
    wrapper = BatchDecodeWithPagedKVCacheWrapper(
        _workspace(inputs.device),
        "NHD",
        use_cuda_graph=True,
        use_tensor_cores=tensor_cores,
        paged_kv_indptr_buffer=buffers[0],
        paged_kv_indices_buffer=buffers[1],
        paged_kv_last_page_len_buffer=buffers[2],
        backend="fa2",
    )

    def plan() -> None:
        wrapper.plan(
            pages.indptr,
            pages.indices,
            pages.last_page_len,
            attention.num_qo_heads,
            attention.num_kv_heads,
            attention.head_dim,
            batch.page_size,
            q_data_type=inputs.q.dtype,
            kv_data_type=inputs.k_cache[0].dtype,
            **_mask_arguments(attention, inputs.scale),
        )

    path = "decode, tensor cores (fa2)" if tensor_cores else "decode, CUDA cores"
    return _bound(inputs, plan, wrapper.run, path, (wrapper, buffers))


def _prefill(inputs: "Inputs", kernel: str) -> Prepared:
    from flashinfer import BatchPrefillWithPagedKVCacheWrapper

    attention, batch = inputs.attention, inputs.batch
    if kernel == "auto" and (inputs.tree_mask is not None or attention.kv_dtype != attention.dtype):
        kernel = "fa2"
    pages = _pages(inputs) if inputs.tree_mask is None else _pages(inputs).on(inputs.device)
    wrapper = BatchPrefillWithPagedKVCacheWrapper(_workspace(inputs.device), "NHD", backend=kernel)
    mask = {"causal": attention.causal} if inputs.tree_mask is None else {"custom_mask": inputs.tree_mask}

    def plan() -> None:
        wrapper.plan(
            pages.qo_indptr,
            pages.indptr,
            pages.indices,
            pages.last_page_len,
            attention.num_qo_heads,
            attention.num_kv_heads,
            attention.head_dim,
            batch.page_size,
            head_dim_vo=attention.value_dim,
            q_data_type=inputs.q.dtype,
            kv_data_type=inputs.k_cache[0].dtype,
            **mask,
            **_mask_arguments(attention, inputs.scale),
        )

    prepared = _bound(inputs, plan, wrapper.run, "", (wrapper,))
    prepared.replannable = False
    prepared.path = f"paged prefill {wrapper._backend}" + (", tree mask" if inputs.tree_mask is not None else "")
    return prepared


def _mla(inputs: "Inputs", kernel: str) -> Prepared:
    import torch
    from flashinfer.mla import BatchMLAPagedAttentionWrapper

    attention, batch = inputs.attention, inputs.batch
    pages, rank = _pages(inputs), attention.value_dim
    graph = batch.phase == "decode"
    buffers: dict[str, torch.Tensor] = {}
    if graph:
        buffers = {
            "qo_indptr": inputs.cu_q.clone(),
            "kv_indptr": inputs.cu_q.clone(),
            "kv_indices": pages.indices.clone(),
            "kv_len_arr": inputs.kv_lens.clone(),
        }
    wrapper = BatchMLAPagedAttentionWrapper(_workspace(inputs.device), use_cuda_graph=graph, backend=kernel, **buffers)

    def plan() -> None:
        wrapper.plan(
            pages.qo_indptr,
            pages.indptr,
            pages.indices,
            pages.kv_lens,
            attention.num_qo_heads,
            rank,
            attention.head_dim - rank,
            batch.page_size,
            attention.causal and not graph,
            inputs.scale,
            inputs.q.dtype,
            inputs.k_cache[0].dtype,
        )

    plan()
    q_nope, q_rope = inputs.q[..., :rank], inputs.q[..., rank:]

    def run(slot: int) -> "torch.Tensor":
        out = torch.empty(*q_nope.shape, dtype=q_nope.dtype, device=q_nope.device)
        kv = inputs.k_cache[slot][:, :, 0]
        wrapper.run(q_nope, q_rope, kv[..., :rank], kv[..., rank:], out=out)
        return out

    path = f"MLA {wrapper._backend}"
    return Prepared(run, plan, path=path, replannable=graph, workspace_bytes=WORKSPACE_BYTES, keep=(wrapper, buffers))
