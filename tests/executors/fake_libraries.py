"""Stand-ins for the kernel libraries: their real signatures over float64 attention that reads its arguments only."""

from types import ModuleType
from typing import Any

import torch


def attend(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    *,
    scale: float,
    causal: bool,
    window_left: int = -1,
    soft_cap: float = 0.0,
    mask: torch.Tensor | None = None,
    sinks: torch.Tensor | None = None,
) -> torch.Tensor:
    """One request: q [q_len, heads, d], k and v [kv, kv_heads, width]."""
    group = q.shape[1] // k.shape[1]
    logits = torch.einsum("qhd,khd->hqk", q.double(), k.double().repeat_interleave(group, 1)) * scale
    if soft_cap:
        logits = soft_cap * torch.tanh(logits / soft_cap)
    position = torch.arange(q.shape[0])[:, None] + k.shape[0] - q.shape[0]
    key = torch.arange(k.shape[0])[None]
    seen = torch.ones(q.shape[0], k.shape[0], dtype=torch.bool) if mask is None else mask.bool()
    if causal:
        seen &= key <= position
    if window_left >= 0:
        seen &= key >= position - window_left
    logits = logits.masked_fill(~seen, float("-inf"))
    if sinks is not None:
        extra = sinks.double()[:, None, None].expand(-1, q.shape[0], 1)
        weights = torch.cat([logits, extra], -1).softmax(-1)[..., :-1]
    else:
        weights = logits.softmax(-1)
    return torch.einsum("hqk,khd->qhd", weights, v.double().repeat_interleave(group, 1)).to(q.dtype)


def read_pages(cache: torch.Tensor, pages: torch.Tensor, length: int) -> torch.Tensor:
    """Give one request's tokens, `[length, heads, width]`."""
    used = -(-length // cache.shape[1])
    return cache[pages[:used].long()].flatten(0, 1)[:length]


def fake_fa3() -> ModuleType:
    """`flash_attn_interface` with paged KV."""
    library: Any = ModuleType("flash_attn_interface")
    library.metadata_calls = []

    def flash_attn_with_kvcache(
        q, k_cache, v_cache, k=None, v=None, qv=None, *, cache_seqlens, page_table, cu_seqlens_q, max_seqlen_q,
        q_descale=None, k_descale=None, v_descale=None, softmax_scale=None, causal=False, window_size=(-1, -1),
        attention_chunk=0, softcap=0.0, scheduler_metadata=None, num_splits=0, pack_gqa=None, sinks=None,
    ):  # fmt: skip
        assert softcap == 0.0
        assert (q_descale is None) == (k_cache.dtype.itemsize == 2)
        assert q.dtype == k_cache.dtype
        library.last = {"metadata": scheduler_metadata, "num_splits": num_splits, "pack_gqa": pack_gqa}
        outs = []
        for i, length in enumerate(cache_seqlens.tolist()):
            low, high = cu_seqlens_q[i : i + 2].tolist()
            assert high - low <= max_seqlen_q
            keys, values = (read_pages(c, page_table[i], length) for c in (k_cache, v_cache))
            queries = q[low:high]
            if qv is not None:
                keys, queries = torch.cat([keys, values], -1), torch.cat([queries, qv[low:high]], -1)
            options = {"scale": softmax_scale, "causal": causal, "window_left": window_size[0], "sinks": sinks}
            outs.append(attend(queries.to(torch.bfloat16), keys, values, **options))
        return torch.cat(outs)

    def get_scheduler_metadata(
        batch_size, max_seqlen_q, max_seqlen_k, num_heads_q, num_heads_kv, headdim, cache_seqlens, qkv_dtype,
        headdim_v=None, cu_seqlens_q=None, page_size=None, causal=False, num_splits=0, pack_gqa=None,
    ):  # fmt: skip
        library.metadata_calls.append((batch_size, max_seqlen_k, num_splits))
        return torch.tensor([batch_size, max_seqlen_k, num_splits], dtype=torch.int32)

    library.flash_attn_with_kvcache = flash_attn_with_kvcache
    library.get_scheduler_metadata = get_scheduler_metadata
    return library


def fake_fa3_fwd() -> ModuleType:
    """`fa3_fwd_interface` with contiguous KV."""
    library: Any = ModuleType("fa3_fwd_interface")

    def flash_attn_varlen_func(
        q, k, v, cu_seqlens_q, cu_seqlens_k, max_seqlen_q, max_seqlen_k, seqused_q=None, seqused_k=None,
        softmax_scale=None, causal=False, qv=None, window_size=(-1, -1), attention_chunk=0, softcap=0.0,
        num_splits=1, pack_gqa=None,
    ):  # fmt: skip
        outs = []
        for i in range(len(cu_seqlens_q) - 1):
            low, high = cu_seqlens_q[i : i + 2].tolist()
            first, last = cu_seqlens_k[i : i + 2].tolist()
            keys, values, queries = k[first:last], v[first:last], q[low:high]
            if qv is not None:
                keys, queries = torch.cat([keys, values], -1), torch.cat([queries, qv[low:high]], -1)
            outs.append(attend(queries, keys, values, scale=softmax_scale, causal=causal, soft_cap=softcap))
        return torch.cat(outs)

    library.flash_attn_varlen_func = flash_attn_varlen_func
    return library


def fake_fa4() -> dict[str, ModuleType]:
    """`flash_attn.cute` on Hopper: paged KV, one dtype, KV never split."""
    library: Any = ModuleType("flash_attn.cute")

    def flash_attn_varlen_func(
        q, k, v, qv=None, cu_seqlens_q=None, cu_seqlens_k=None, max_seqlen_q=None, max_seqlen_k=None,
        min_seqlen_k=None, seqused_q=None, seqused_k=None, gather_kv_indices=None, page_table=None,
        softmax_scale=None, causal=False, window_size=(None, None), learnable_sink=None, softcap=0.0, num_splits=1,
        pack_gqa=None,
    ):  # fmt: skip
        assert q.dtype == k.dtype == v.dtype, "q, k, v, and qv must have the same dtype"
        assert num_splits == 1, "SplitKV not supported on SM 9.0"
        assert page_table.dtype == seqused_k.dtype == cu_seqlens_q.dtype == torch.int32
        outs = []
        for i, length in enumerate(seqused_k.tolist()):
            low, high = cu_seqlens_q[i : i + 2].tolist()
            assert high - low <= max_seqlen_q
            assert length <= max_seqlen_k
            keys, values = (read_pages(c, page_table[i], length) for c in (k, v))
            left, right = window_size
            assert right in (None, 0)
            window = -1 if left is None else left
            options = {"scale": softmax_scale, "causal": causal, "window_left": window, "sinks": learnable_sink}
            outs.append(attend(q[low:high], keys, values, soft_cap=softcap, **options))
        return torch.cat(outs), None

    library.flash_attn_varlen_func = flash_attn_varlen_func
    return {"flash_attn": ModuleType("flash_attn"), "flash_attn.cute": library}


def fake_flash_mla() -> ModuleType:
    """`flash_mla` in SGLang's build: dense decode in bf16 and fp8, sparse decode over tokens of 656 bytes."""
    library: Any = ModuleType("flash_mla")
    library.metadata_calls = 0

    class Schedule:
        tile_scheduler_metadata: torch.Tensor | None = None
        num_splits: torch.Tensor | None = None

    def get_mla_metadata():
        return Schedule(), None

    def get_mla_decoding_metadata(
        seqlens_k, num_q_tokens_per_head_k, h_k, h_q=None, is_fp8_kvcache=False, topk=None, use_legacy=False
    ):
        assert (h_k, is_fp8_kvcache, use_legacy) == (1, True, True)
        library.metadata_calls += 1
        return torch.full((2, 8), num_q_tokens_per_head_k), torch.zeros(len(seqlens_k) + 1)

    def flash_mla_with_kvcache(
        q, k_cache, block_table, cache_seqlens, head_dim_v, tile_scheduler_metadata, num_splits=None,
        softmax_scale=None, causal=False, is_fp8_kvcache=None, indices=None, use_legacy=False, descale_q=None,
        descale_k=None,
    ):  # fmt: skip
        assert isinstance(tile_scheduler_metadata, Schedule)
        assert use_legacy, "pass use_legacy=True to reach the kernels for compute capability 9.0"
        outs = []
        if indices is not None:
            assert (causal, is_fp8_kvcache, k_cache.shape[-1]) == (False, True, 656)
            raw = k_cache.view(torch.uint8).flatten(0, 2)
            latent = raw[:, :512].view(torch.float8_e4m3fn).float().view(-1, 4, 128)
            scales = raw[:, 512:528].contiguous().view(torch.float32)
            rope = raw[:, 528:].contiguous().view(torch.bfloat16).float()
            tokens = torch.cat([(latent * scales[:, :, None]).flatten(1), rope], -1)
            for i, rows in enumerate(indices):
                for j, chosen in enumerate(rows):
                    keys = tokens[chosen[chosen >= 0].long()][:, None].to(q.dtype)
                    values = keys[..., :head_dim_v]
                    outs.append(attend(q[i, j : j + 1], keys, values, scale=softmax_scale, causal=False))
            return torch.stack(outs).view(*q.shape[:3], head_dim_v), None
        if is_fp8_kvcache:
            assert q.dtype == k_cache.dtype == torch.float8_e4m3fn
            assert tile_scheduler_metadata.tile_scheduler_metadata[0, 0] == q.shape[1] * q.shape[2]
            assert descale_q == descale_k == 1
            q = q.to(torch.bfloat16)
        for i, length in enumerate(cache_seqlens.tolist()):
            keys = read_pages(k_cache, block_table[i], length)
            outs.append(attend(q[i], keys, keys[..., :head_dim_v], scale=softmax_scale, causal=causal))
        return torch.stack(outs), None

    library.get_mla_metadata = get_mla_metadata
    library.get_mla_decoding_metadata = get_mla_decoding_metadata
    library.flash_mla_with_kvcache = flash_mla_with_kvcache
    return library


class _Wrapper:
    """What FlashInfer's paged wrappers share: pages of the last plan."""

    def __init__(self, workspace, kv_layout="NHD", **options):
        assert kv_layout == "NHD"
        assert int(workspace.max()) == 0
        self.options = options
        self._backend = options.get("backend", "auto")

    def pages(self, i):
        low, high = self.indptr[i : i + 2].tolist()
        return self.indices[low:high], (high - low - 1) * self.page_size + int(self.last[i])


class FakeDecode(_Wrapper):
    """`BatchDecodeWithPagedKVCacheWrapper` in graph mode."""

    def plan(
        self, indptr, indices, last_page_len, num_qo_heads, num_kv_heads, head_dim, page_size, window_left=-1,
        logits_soft_cap=None, q_data_type="float16", kv_data_type=None, sm_scale=None,
    ):  # fmt: skip
        assert self.options["use_cuda_graph"]
        assert len(self.options["paged_kv_indptr_buffer"]) == len(indptr)
        assert len(self.options["paged_kv_last_page_len_buffer"]) == len(last_page_len)
        assert len(self.options["paged_kv_indices_buffer"]) >= len(indices)
        self.indptr, self.indices, self.last, self.page_size = indptr, indices, last_page_len, page_size
        self.mask = {"scale": sm_scale, "window_left": window_left, "soft_cap": logits_soft_cap or 0.0}

    def run(self, q, kv, *, out):
        for i in range(len(q)):
            keys, values = (read_pages(c, *self.pages(i)) for c in kv)
            out[i] = attend(q[i : i + 1], keys, values, causal=True, **self.mask)[0]


class FakePrefill(_Wrapper):
    """`BatchPrefillWithPagedKVCacheWrapper` in normal mode."""

    def plan(
        self, qo_indptr, paged_kv_indptr, paged_kv_indices, paged_kv_last_page_len, num_qo_heads, num_kv_heads,
        head_dim_qk, page_size, head_dim_vo=None, custom_mask=None, causal=False, sm_scale=None, window_left=-1,
        logits_soft_cap=None, q_data_type="float16", kv_data_type=None,
    ):  # fmt: skip
        self.qo, self.indptr, self.indices, self.last = (
            qo_indptr, paged_kv_indptr, paged_kv_indices, paged_kv_last_page_len,
        )  # fmt: skip
        self.page_size, self.custom = page_size, custom_mask
        self.mask = {
            "causal": causal, "scale": sm_scale, "window_left": window_left, "soft_cap": logits_soft_cap or 0.0,
        }  # fmt: skip

    def run(self, q, kv, *, out):
        at = 0
        for i in range(len(self.qo) - 1):
            low, high = self.qo[i : i + 2].tolist()
            pages, length = self.pages(i)
            mask = None
            if self.custom is not None:
                size = (high - low) * length
                mask, at = self.custom[at : at + size].view(high - low, length), at + size
            keys, values = (read_pages(c, pages, length) for c in kv)
            out[low:high] = attend(q[low:high], keys, values, mask=mask, **self.mask)


class FakeMla:
    """`BatchMLAPagedAttentionWrapper`."""

    def __init__(self, workspace, use_cuda_graph=False, backend="auto", **buffers):
        assert bool(buffers) == use_cuda_graph
        self._backend = "fa3" if backend == "auto" else backend

    def plan(
        self, qo_indptr, kv_indptr, kv_indices, kv_len_arr, num_heads, head_dim_ckv, head_dim_kpe, page_size, causal,
        sm_scale, q_data_type, kv_data_type,
    ):  # fmt: skip
        self.qo, self.indptr, self.indices, self.lens = qo_indptr, kv_indptr, kv_indices, kv_len_arr
        self.causal, self.scale = causal, sm_scale

    def run(self, q_nope, q_pe, ckv, kpe, *, out):
        q = torch.cat([q_nope, q_pe], -1)
        for i, length in enumerate(self.lens.tolist()):
            low, high = self.qo[i : i + 2].tolist()
            pages = self.indices[self.indptr[i] : self.indptr[i + 1]]
            latent, rope = (read_pages(c[:, :, None], pages, length) for c in (ckv, kpe))
            keys = torch.cat([latent, rope], -1)
            out[low:high] = attend(q[low:high], keys, latent, scale=self.scale, causal=self.causal)


def fake_flashinfer() -> dict[str, ModuleType]:
    """`flashinfer` and `flashinfer.mla`."""
    library: Any = ModuleType("flashinfer")
    library.BatchDecodeWithPagedKVCacheWrapper = FakeDecode
    library.BatchPrefillWithPagedKVCacheWrapper = FakePrefill
    mla: Any = ModuleType("flashinfer.mla")
    mla.BatchMLAPagedAttentionWrapper = FakeMla
    return {"flashinfer": library, "flashinfer.mla": mla}
