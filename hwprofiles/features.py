"""What the hardware can do, flag by flag."""

from pydantic import BaseModel, ConfigDict


class Features(BaseModel):
    """What the hardware can do; None means that sources conflict or say nothing."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    bf16_matrix: bool | None = None
    tf32_matrix: bool | None = None
    fp8_matrix: bool | None = None
    fp6_matrix: bool | None = None
    fp4_matrix: bool | None = None
    int8_matrix: bool | None = None
    int4_matrix: bool | None = None
    mma_sync: bool | None = None
    wgmma: bool | None = None
    tcgen05: bool | None = None
    tensor_memory: bool | None = None
    cp_async: bool | None = None
    tma: bool | None = None
    thread_block_clusters: bool | None = None
    distributed_shared_memory: bool | None = None
    programmatic_dependent_launch: bool | None = None
    mfma: bool | None = None
    wmma_rdna: bool | None = None
    xmx: bool | None = None
    amx_bf16: bool | None = None
    amx_fp16: bool | None = None
    avx512_bf16: bool | None = None
    bfmmla: bool | None = None

    @property
    def present(self) -> tuple[str, ...]:
        """Names of the flags that are set."""
        return tuple(name for name, value in self if value)
