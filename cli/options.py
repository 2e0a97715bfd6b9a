"""Options that several commands share, with one spelling and one help text."""

from typing import Annotated

import typer

SPELLINGS = {"bfloat16": "bf16", "float16": "fp16", "float32": "fp32"}


def _kv_dtype(spelled: str) -> str:
    """Give a KV dtype as the cost model spells it."""
    from costmodel.attention import DTYPE_BYTES

    dtype = SPELLINGS.get(spelled, spelled)
    if dtype != "auto" and dtype not in DTYPE_BYTES:
        raise typer.BadParameter(f"{spelled!r} is not one of auto, {', '.join(DTYPE_BYTES)}")
    return dtype


ModelOption = Annotated[str, typer.Option("--model", help="A Hugging Face config.json or the folder that holds it.")]
GpuOption = Annotated[str, typer.Option("--gpu", help="Profile id, driver name, alias (h200) or a .toml file.")]
JsonOption = Annotated[bool, typer.Option("--json", help="One JSON document on stdout, nothing else.")]
TpOption = Annotated[int, typer.Option("--tp", min=1, max=1024, help="Tensor-parallel size.")]
PageSizeOption = Annotated[int, typer.Option("--page-size", min=1, max=1 << 16, help="Tokens in one KV page.")]
KvDtypeOption = Annotated[
    str, typer.Option("--kv-cache-dtype", callback=_kv_dtype, help="auto, bf16, fp16, fp8_e4m3, fp8_e5m2 or nvfp4.")
]
