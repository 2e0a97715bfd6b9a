"""`attnroof model show`: a model's attention as layer groups, per rank."""

from typing import TYPE_CHECKING, Annotated, Any

import typer

from cli.options import JsonOption, KvDtypeOption, TpOption
from cli.output import print_table, stdout_console, write_json

if TYPE_CHECKING:
    from costmodel import LayerGroup, Model

app = typer.Typer(no_args_is_help=True, help="Models: what a config.json says about attention.")


@app.callback()
def models() -> None:
    """Models: what a config.json says about attention."""


@app.command("show")
def show(
    config: Annotated[str, typer.Argument(help="A Hugging Face config.json or the folder that holds it.")],
    tp: TpOption = 1,
    attention_dp: Annotated[int, typer.Option("--attention-dp", min=1, help="Data-parallel size inside --tp.")] = 1,
    attention_cp: Annotated[int, typer.Option("--attention-cp", min=1, help="Context-parallel size inside --tp.")] = 1,
    pp: Annotated[int, typer.Option("--pp", min=1, help="Pipeline-parallel size: stages that divide the layers.")] = 1,
    kv_cache_dtype: KvDtypeOption = "auto",
    json: JsonOption = False,
) -> None:
    """Show a model's layer groups, their KV bytes per token, and what one rank holds."""
    from costmodel import load_model
    from costmodel.models import stage_bytes_per_token

    model, apart = load_model(config), attention_dp * attention_cp
    groups = ranked_groups(model, tp, kv_cache_dtype, apart)
    stages = [whole_number(held) for held in stage_bytes_per_token(groups, model.num_layers, pp)]
    if json:
        parallel = {"tp": tp, "attention_dp": attention_dp, "attention_cp": attention_cp, "pp": pp}
        write_json(model_json(model, groups, tp // apart) | parallel | {"kv_bytes_per_token_by_stage": stages})
        return
    print_model(model, groups, tp // apart)
    if pp > 1:
        stdout_console().print(f"by pipeline stage: {', '.join(f'{held:,}' for held in stages)} KV bytes per token")


def ranked_groups(model: "Model", tp: int, kv_cache_dtype: str, attention_dp: int = 1) -> "list[LayerGroup]":
    """Give the layer groups as one rank holds them."""
    from costmodel.models import group_per_rank

    return [group_per_rank(group, tp, kv_cache_dtype, attention_dp) for group in model.layer_groups]


def model_json(model: "Model", groups: "list[LayerGroup]", tp: int) -> dict[str, Any]:
    """The model as JSON."""
    return {
        "model": model.name,
        "architecture": model.architecture,
        "model_type": model.model_type,
        "layer_groups": [group_json(whole, rank, tp) for whole, rank in zip(model.layer_groups, groups, strict=True)],
        "num_layers": model.num_layers,
        "layers_without_kv": model.layers_without_kv,
        "mtp_layers": model.mtp_layers,
        "tp": tp,
        "kv_bytes_per_token": whole_number(sum(group.kv_bytes_per_token for group in groups)),
        "indexer_bytes_per_token": whole_number(sum(group.indexer_bytes_per_token for group in groups)),
        "kv_dtype": groups[0].attention.kv_dtype,
        "dtype": model.dtype,
        "context_length": model.context_length,
        "multimodal": model.multimodal,
        "hybrid_linear": model.hybrid_linear,
        "unread": list(model.unread),
        "notes": list(model.notes),
    }


def group_json(whole: "LayerGroup", group: "LayerGroup", tp: int) -> dict[str, Any]:
    """One layer group as JSON: heads and bytes per rank, the kind before tensor parallelism."""
    from costmodel.models import kv_replication

    a = group.attention
    return {
        "layers": group.layers,
        "kind": whole.attention.family,
        "num_qo_heads": a.num_qo_heads,
        "num_kv_heads": a.num_kv_heads,
        "head_dim": a.head_dim,
        "v_head_dim": a.value_dim,
        "kv_lora_rank": a.kv_lora_rank,
        "qk_rope_head_dim": a.qk_rope_head_dim,
        "sliding_window": a.sliding_window,
        "attention_chunk_size": a.chunk_size,
        "top_k": a.top_k,
        "block": a.block if a.top_k is not None else None,
        "sinks": a.sinks,
        "logit_soft_cap": a.logit_soft_cap,
        "cross_attention": group.cross_attention,
        "kv_bytes_per_token": whole_number(group.kv_bytes_per_token),
        "indexer_layers": group.indexer_layers,
        "indexer_bytes_per_token": whole_number(group.indexer_bytes_per_token),
        "kv_shared_layers": group.kv_shared_layers,
        "kv_compression": group.kv_compression,
        "kv_replication": kv_replication(whole.attention, tp),
        "layer_indices": list(group.layer_indices),
    }


def whole_number(value: float) -> float | int:
    """A whole number without a decimal point."""
    return int(value) if value == int(value) else value


def print_model(model: "Model", groups: "list[LayerGroup]", tp: int) -> None:
    """Print the layer groups as a table, then what a token costs and what was assumed."""
    from rich.table import Table

    table = Table(title=f"{model.name} ({model.architecture or model.model_type})", title_justify="left")
    for name in ("group", "layers", "kind", "q heads", "KV heads", "head dim", "sees", "extras", "KV bytes/token"):
        table.add_column(name, justify="left" if name in ("kind", "sees", "extras") else "right")
    for index, (whole, group) in enumerate(zip(model.layer_groups, groups, strict=True)):
        a = group.attention
        dims = str(a.head_dim) if a.head_dim == a.value_dim else f"{a.head_dim}/{a.value_dim}"
        table.add_row(
            str(index), str(group.layers), whole.attention.family, str(a.num_qo_heads), str(a.num_kv_heads), dims,
            sees(group), extras(group), f"{group.kv_bytes_per_token:,.0f}",
        )  # fmt: skip
    print_table(table)
    console = stdout_console()
    for line in summary(model, groups, tp):
        console.print(line, markup=False)


def sees(group: "LayerGroup") -> str:
    """How far a query of the group looks."""
    a = group.attention
    if a.sliding_window is not None:
        return f"window {a.sliding_window}"
    if a.chunk_size is not None:
        return f"chunk {a.chunk_size}"
    if a.top_k is not None:
        return f"top {a.top_k}" + (f" x {a.block} tokens" if a.block > 1 else "")
    return "everything"


def extras(group: "LayerGroup") -> str:
    """What else a backend has to support."""
    a = group.attention
    parts = [
        "sinks" if a.sinks else "",
        f"soft-cap {a.logit_soft_cap:g}" if a.logit_soft_cap is not None else "",
        "cross attention" if group.cross_attention else "",
        f"{group.indexer_layers} indexers" if group.indexer_layers else "",
        f"{group.kv_shared_layers} share KV" if group.kv_shared_layers else "",
        f"1 entry per {group.kv_compression} tokens" if group.kv_compression > 1 else "",
    ]
    return ", ".join(part for part in parts if part)


def summary(model: "Model", groups: "list[LayerGroup]", tp: int) -> list[str]:
    """What a token costs, what tensor parallelism does to it, and what was assumed or not read."""
    from costmodel.models import kv_replication

    rank = sum(group.kv_bytes_per_token for group in groups)
    whole = sum(
        group.kv_bytes_per_token * tp / kv_replication(original.attention, tp)
        for group, original in zip(groups, model.layer_groups, strict=True)
    )
    lines = [f"{rank:,.0f} KV bytes per token on each of {tp} ranks ({groups[0].attention.kv_dtype} KV cache)"]
    if tp > 1:
        lines.append(f"{whole:,.0f} KV bytes per token without copies; {rank * tp:,.0f} over these ranks")
    copies = max(kv_replication(group.attention, tp) for group in model.layer_groups)
    if copies > 1:
        latent = any(group.attention.is_latent for group in model.layer_groups)
        kind = "the MLA latent is one head, so TP does not shrink it" if latent else "TP exceeds the KV heads"
        lines.append(f"every KV head lies on {copies} ranks: {kind}; attention DP avoids the copies")
    indexer = sum(group.indexer_bytes_per_token for group in groups)
    if indexer:
        lines.append(f"{indexer:,.0f} further bytes per token for the indexers' keys")
    if model.layers_without_kv:
        lines.append(f"{model.layers_without_kv} of {model.num_layers} layers keep no KV cache")
    return lines + [f"note: {note}" for note in model.notes] + [f"not read: {line}" for line in model.unread]
