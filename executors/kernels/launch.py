"""Binds the kernels to inputs: descriptors, work lists, partial results and the launch."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from executors.kernels.form import Form
from executors.kernels.schedule import Schedule, make_schedule
from executors.kernels.tiling import Tile

if TYPE_CHECKING:
    import torch

    from executors.inputs import Inputs

MERGE_PARTS = 16
"""Parts that one merging program loads at a time."""


@dataclass(frozen=True, slots=True)
class Call:
    """One kernel launch."""

    kernel: Any
    grid: tuple[int, ...]
    arguments: tuple[Any, ...]
    options: Mapping[str, Any]


@dataclass(slots=True)
class Launcher:
    """One planned workload; `plan` may be repeated each step, `run` each layer.

    Raises:
        ValueError: The KV cache is not laid out as `[pages, page_size, heads, dim]` without gaps.
    """

    inputs: "Inputs"
    tile: Tile
    num_splits: int
    """Parts of the longest row tile; 0 means the own choice."""
    num_sms: int
    pdl: bool
    """Programmatic dependent launch: the merge is launched while the attention kernel still runs."""
    schedule: Schedule = field(init=False)
    form: Form = field(init=False)
    work: "torch.Tensor" = field(init=False)
    merges: "torch.Tensor" = field(init=False)
    part_out: "torch.Tensor" = field(init=False)
    part_lse: "torch.Tensor" = field(init=False)
    tree_mask: "torch.Tensor | None" = field(init=False)
    tree_starts: "torch.Tensor | None" = field(init=False)
    descriptors: tuple[tuple[Any, ...], ...] = field(init=False)

    def __post_init__(self) -> None:
        """Plan, allocate the outputs and describe the caches."""
        inputs = self.inputs
        self.form = Form.of(inputs.attention, inputs.batch)
        for cache in inputs.k_cache[:1] + (() if self.form.latent else inputs.v_cache[:1]):
            if not cache.is_contiguous():
                raise ValueError(f"KV cache with strides {cache.stride()} must be contiguous")
        self._allocate()
        self.tree_mask = self.tree_starts = None
        if self.form.tree:
            self.tree_mask, self.tree_starts = _tree(inputs)
        describe = self._describe_latent if self.tile.specialized else self._describe
        described = self.tile.tma or self.tile.specialized
        self.descriptors = tuple(describe(slot) for slot in range(inputs.slots)) if described else ()

    def plan(self) -> None:
        """Cut the batch into programs and refresh the work lists in place, as captured graphs need them."""
        import torch

        attention, batch = self.inputs.attention, self.inputs.batch
        schedule = make_schedule(attention, batch, self.tile, self.num_splits, self.num_sms)
        self.work.copy_(torch.from_numpy(schedule.work))
        self.merges.copy_(torch.from_numpy(schedule.merges))

    @property
    def workspace_bytes(self) -> int:
        """Bytes of partial results and work lists."""
        tensors = (self.part_out, self.part_lse, self.work, self.merges)
        return sum(t.numel() * t.element_size() for t in tensors)

    def run(self, slot: int) -> "torch.Tensor":
        """Attend over KV copy `slot`; returns `[total_q, num_qo_heads, value_dim]`."""
        import torch

        q = self.inputs.q
        shape = (q.shape[0], self.inputs.attention.num_qo_heads, self.form.value_dim)
        out = torch.empty(shape, dtype=q.dtype, device=q.device)
        for call in self.calls(slot, out):
            call.kernel[call.grid](*call.arguments, **call.options)
        return out

    def calls(self, slot: int, out: "torch.Tensor") -> "tuple[Call, ...]":
        """Name the kernel launches of one call that writes `out`: the attention, and the merge of split tiles."""
        attention = self._latent_call(slot, out) if self.tile.specialized else self._attend_call(slot, out)
        return (attention, self._merge_call(out)) if self.schedule.slots else (attention,)

    def _attend_call(self, slot: int, out: "torch.Tensor") -> "Call":
        from executors.kernels.attend import attend

        inputs, form, tile = self.inputs, self.form, self.tile
        num_items = len(self.schedule.work)
        arguments = (
            self.work,
            inputs.q,
            inputs.k_cache[slot],
            inputs.v_cache[slot],
            *(self.descriptors[slot] if tile.tma else (None, None, None)),
            inputs.page_table,
            inputs.page_table.stride(0),
            self.tree_mask,
            self.tree_starts,
            inputs.sinks,
            inputs.scale,
            out,
            self.part_out,
            self.part_lse,
            num_items,
            form,
            tile,
            self.pdl,
        )
        options = {"num_warps": tile.num_warps, "num_stages": tile.num_stages}
        return Call(attend, (num_items * form.kv_heads,), arguments, options)

    def _latent_call(self, slot: int, out: "torch.Tensor") -> "Call":
        from executors.kernels.latent import WARPS, attend_latent

        table = self.inputs.page_table
        arguments = (
            self.work,
            *self.descriptors[slot],
            self.inputs.k_cache[slot],
            table,
            table.stride(0),
            self.inputs.scale,
            out,
            self.part_out,
            self.part_lse,
            self.form,
        )
        return Call(attend_latent, (len(self.schedule.work),), arguments, {"num_warps": WARPS})

    def _merge_call(self, out: "torch.Tensor") -> "Call":
        from executors.kernels.merge import merge

        form, tile = self.form, self.tile
        rows = min(tile.block_m, max(self.inputs.batch.q_lens) * form.group)
        arguments = (
            self.merges,
            self.part_out,
            self.part_lse,
            self.inputs.sinks,
            out,
            tile.block_m,
            MERGE_PARTS,
            form,
            self.pdl,
        )
        options: dict[str, Any] = {"num_warps": 4 if form.value_block > 128 else 2}
        if self.pdl:
            options["launch_pdl"] = True
        return Call(merge, (len(self.schedule.merges) * form.kv_heads, rows), arguments, options)

    def _allocate(self) -> None:
        import torch

        attention, batch, device = self.inputs.attention, self.inputs.batch, self.inputs.device
        self.schedule = make_schedule(attention, batch, self.tile, self.num_splits, self.num_sms)
        self.work = torch.from_numpy(self.schedule.work).to(device)
        self.merges = torch.from_numpy(self.schedule.merges).to(device)
        shape = (max(1, self.schedule.slots), self.form.kv_heads, self.tile.block_m)
        self.part_out = torch.empty((*shape, self.form.value_dim), dtype=torch.float32, device=device)
        self.part_lse = torch.empty(shape, dtype=torch.float32, device=device)

    def _describe(self, slot: int) -> tuple[Any, Any, Any]:
        """Describe one copy of keys and values, or the new tokens', as matrices of tokens by columns."""
        from triton.tools.tensor_descriptor import TensorDescriptor

        inputs, form, tile = self.inputs, self.form, self.tile
        fresh = tile.source == "fresh"
        keys = (inputs.k_new if fresh else inputs.k_cache[slot]).reshape(-1, form.kv_heads * form.head_dim)
        values = (inputs.v_new if fresh else inputs.v_cache[slot]).reshape(-1, form.kv_heads * form.value_dim)
        k_main = TensorDescriptor.from_tensor(keys, [tile.block_n, form.main_dim])
        k_rest = TensorDescriptor.from_tensor(keys, [tile.block_n, form.rest_block]) if form.rest_dim else None
        return k_main, k_rest, TensorDescriptor.from_tensor(values, [tile.block_n, form.value_block])

    def _describe_latent(self, slot: int) -> tuple[Any, ...]:
        """Describe the queries and one copy of the keys as matrices of rows by columns, in halves and the rest."""
        from triton.experimental.gluon.nvidia.hopper import TensorDescriptor

        from executors.kernels.latent_memory import TILE_LAYOUT

        form, tile = self.form, self.tile
        halves = (form.main_dim // 2, form.rest_dim)
        queries = self.inputs.q.reshape(-1, form.head_dim)
        keys = self.inputs.k_cache[slot].reshape(-1, form.head_dim)
        return tuple(
            TensorDescriptor.from_tensor(matrix, [rows, width], TILE_LAYOUT.value)
            for matrix, rows in ((queries, tile.block_m), (keys, tile.block_n))
            for width in halves
        )


def _tree(inputs: "Inputs") -> tuple["torch.Tensor", "torch.Tensor"]:
    """Bring the tree mask into bytes, with the start of each request's rows."""
    import torch

    if inputs.tree_mask is None:
        raise ValueError(f"verify with topk={inputs.batch.topk} needs a tree mask")
    sizes = inputs.q_lens.to(torch.int64) * inputs.kv_lens.to(torch.int64)
    return inputs.tree_mask.view(torch.int8), torch.cumsum(sizes, 0) - sizes
