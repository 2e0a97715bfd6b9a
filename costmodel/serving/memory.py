"""What fits a device beside the weights: SGLang's static memory, its KV pages, and how many requests they hold."""

from dataclasses import dataclass

from costmodel.bound import bytes_text
from costmodel.serving.deployment import Deployment
from costmodel.serving.weights import RankWeights
from costmodel.sglang.device import MIB, device_facts
from hwprofiles import Profile

GRAPH_SIZES = ((20, 8, 8), (35, 48, 160), (60, 32, 160), (90, 256, 512), (160, 256, 512))
"""Below so many GiB: largest decode batch in CUDA graphs with TP below 4, and from 4 (memory_hook.py:90, 0.5.23)."""
GRAPH_SIZE_ABOVE = 512
FIXED_MIB, ACTIVATION_MIB_PER_TOKEN, PARALLEL_MIB, GRAPH_MIB_PER_REQUEST = 512, 1.5, 1024 / 8, 2
LARGE_DEVICE_MIB, LARGE_RESERVE_MIB = 60 * 1024, 10 * 1024
"""What SGLang sets aside for activations, parallelism and graphs (memory_hook.py:309, 0.5.23)."""
STATE_SHARE = 0.9 / 1.9
"""What recurrent states get of the memory after weights (`--mamba-full-memory-ratio` 0.9; schedule.py:220, 0.5.23)."""
STATES_PER_REQUEST = 3
"""States that SGLang keeps for each running request with its prefix cache, 4 or 5 with its extra buffer
(kv_cache_configurator.py:227, 0.5.23)."""
MAX_PREFILL_TOKENS = 16384
RUNNING_FLOOR, RUNNING_LIMIT, RUNNING_PER_CONTEXT = 2048, 4096, 512
"""SGLang lets 512 requests run for each whole context that fits, within these limits (pool_configurator.py:1571)."""


class DoesNotFit(ValueError):
    """Weights or load need more memory than the device has; the message says how much more."""


@dataclass(frozen=True, slots=True)
class Memory:
    """One rank's memory."""

    device_bytes: float
    static_fraction: float
    """Share of the device for weights and KV, SGLang's `--mem-fraction-static`."""
    weight_bytes: float
    kv_bytes_per_token: float
    """Windowed layers in full, an indexer's cache included."""
    page_size: int
    kv_tokens: int
    """Tokens that the KV pages hold."""
    chunked_prefill_size: int
    graph_batch: int
    """Largest decode batch in CUDA graphs."""
    max_running_requests: int
    """SGLang's limit when none is given."""
    state_bytes_per_request: float = 0.0
    """What the layers without a KV cache keep of one request."""

    def tokens_of(self, length: int) -> int:
        """Tokens that a request of `length` tokens takes, whole pages counted."""
        return -(-length // self.page_size) * self.page_size


def memory_of(deployment: Deployment, weights: RankWeights) -> Memory:
    """Work out what SGLang's defaults leave for KV on one rank.

    Raises:
        DoesNotFit: The weights leave no room for KV.
        MissingValue: The profile has no memory size.
    """
    profile, tp = deployment.profile, deployment.parallel.tp
    device = float(profile.memory_reported_bytes or profile.require("memory_bytes"))
    chunk = int(device_facts(profile)["chunked_prefill_default"])
    graphs = graph_batch(profile, tp)
    fraction = static_fraction(device, chunk, graphs, tp)
    per_token = sum(g.kv_bytes_per_token + g.indexer_bytes_per_token for g in deployment.groups)
    linear = weights.architecture.linear
    state = linear.layers * linear.state_bytes / tp if linear else 0.0
    free = device * fraction - weights.bytes
    left = free * (1 - STATE_SHARE) if state else free
    page = deployment.page_size
    tokens = int(left // (per_token * page)) * page if left > 0 else 0
    if tokens < 1:
        over = weights.bytes + per_token * page - device * fraction
        raise DoesNotFit(
            f"{deployment.model.name} takes {bytes_text(weights.bytes)} of weights on each of {tp} rank(s); SGLang "
            f"gives weights and KV {bytes_text(device * fraction)} of {profile.name}: {bytes_text(over)} too much; "
            "raise --tp"
        )
    running = running_limit(tokens, deployment.model.context_length)
    if state:
        running = max(1, min(running, int(free * STATE_SHARE / state) // STATES_PER_REQUEST))
    return Memory(device, fraction, weights.bytes, per_token, page, tokens, chunk, graphs, running, state)


def running_limit(kv_tokens: int, context: int | None) -> int:
    """Give SGLang's limit on running requests."""
    wanted = int(kv_tokens / context * RUNNING_PER_CONTEXT) if context else RUNNING_FLOOR
    return max(1, min(max(RUNNING_FLOOR, min(RUNNING_LIMIT, wanted)), kv_tokens // 2))


def static_fraction(device_bytes: float, chunk: int, graphs: int, tp: int) -> float:
    """Give SGLang's share for weights and KV; its reserve for prefill graphs, a few hundred MiB, is not in it."""
    device = device_bytes / MIB
    reserved = FIXED_MIB + max(chunk, 2048) * ACTIVATION_MIB_PER_TOKEN + tp * PARALLEL_MIB
    reserved += graphs * GRAPH_MIB_PER_REQUEST
    if device > LARGE_DEVICE_MIB:
        reserved = max(reserved, LARGE_RESERVE_MIB)
    return max(0.0, round((device - reserved) / device, 3))


def graph_batch(profile: Profile, tp: int) -> int:
    """Give the largest decode batch that SGLang captures."""
    gib = (profile.memory_reported_bytes or profile.memory_bytes or 0) / MIB / 1024
    for limit, few, many in GRAPH_SIZES:
        if gib < limit:
            return few if tp < 4 else many
    return GRAPH_SIZE_ABOVE


def captured_size(batch: int, largest: int) -> int:
    """Give the captured size that a decode batch is padded to; larger batches run as they are."""
    if batch > largest:
        return batch
    for size in (1, 2, 4, 8, 12):
        if batch <= size <= largest:
            return size
    step = 8 if batch <= 256 else 16 if batch < 512 else 32
    return min(largest, -(-batch // step) * step)
