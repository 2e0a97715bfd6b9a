"""Reading models: a config.json becomes layer groups, before and after tensor parallelism."""

from costmodel.models.loader import load_model, read_model
from costmodel.models.parallel import group_per_rank, kv_replication, per_rank, stage_bytes_per_token

__all__ = ["group_per_rank", "kv_replication", "load_model", "per_rank", "read_model", "stage_bytes_per_token"]
