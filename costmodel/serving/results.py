"""Result files of `sglang.bench_serving` (JSON lines) and `vllm bench serve` (JSON)."""

import json
import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from costmodel.serving.server_facts import ServerFacts, facts_of_info
from costmodel.serving.trace_fields import MAX_TOKENS, number

Engine = Literal["sglang", "vllm"]
NEEDED = ("completed", "duration", "total_input_tokens", "total_output_tokens")
WIDEST_SPREAD = 0.98
VLLM_ONLY = ("num_prompts", "burstiness", "total_token_throughput", "endpoint_type", "request_goodput")


class ResultError(ValueError):
    """A result file cannot be used; the message names file, line, field and rule."""


@dataclass(frozen=True, slots=True)
class BenchResult:
    """One benchmark run as its file tells it."""

    where: str
    engine: Engine
    completed: int
    seconds: float
    isl: float
    """Mean input tokens."""
    osl: float
    """Mean output tokens."""
    concurrency: int | None
    """Largest number of requests at a time; None without a limit."""
    rate: float | None
    """Requests a second; None where all are sent at once."""
    burstiness: float
    """vLLM's shape of the gamma gaps; 1 is Poisson."""
    mean_concurrency: float | None
    """Requests in the system on average, as measured."""
    ttft_seconds: float | None
    """Mean."""
    tpot_seconds: float | None
    """Mean."""
    tokens_per_s: float
    """Output tokens a second of the whole server."""
    server: ServerFacts | None
    """What the server said about itself."""
    spread: float = 0.0
    """Half-width of the lengths around their means, as a share, where no lengths are given."""
    lengths: tuple[tuple[int, int], ...] = ()
    """Input and output tokens of every request, where the file has them."""


def read_results(lines: Iterable[str], name: str) -> Iterator[BenchResult]:
    """Read every run of a file: one JSON object, or one a line.

    Args:
        lines: The file's lines.
        name: What messages call it.

    Raises:
        ResultError: It is neither, or a field is missing or no number.
    """
    numbered = [(n, line.removeprefix("\ufeff").strip()) for n, line in enumerate(lines, start=1)]
    filled = [(n, line) for n, line in numbered if line]
    if not filled:
        raise ResultError(f"{name} is empty; give a result file of sglang.bench_serving or vllm bench serve")
    whole = _load("\n".join(line for _, line in filled))
    if whole is not None:
        yield _result(whole, f"{name}")
        return
    for n, line in filled:
        found = _load(line)
        if found is None:
            raise ResultError(
                f"{name}, line {n}: no JSON object; give the file that sglang.bench_serving --output-file or "
                "vllm bench serve --save-result wrote"
            )
        yield _result(found, f"{name}, line {n}")


def _load(text: str) -> dict[str, Any] | None:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def _result(data: Mapping[str, Any], where: str) -> BenchResult:
    missing = [name for name in NEEDED if data.get(name) is None]
    if missing:
        raise ResultError(f"{where}: {missing[0]!r} is missing; is it a result of a serving benchmark?")
    completed = int(_number(data, "completed", where))
    if completed < 1:
        raise ResultError(f"{where}: completed=0: no request finished, there is nothing to compare")
    seconds = _number(data, "duration", where)
    if seconds <= 0:
        raise ResultError(f"{where}: duration={seconds:g} must be positive")
    outputs = _number(data, "total_output_tokens", where)
    inputs = _number(data, "total_input_tokens", where)
    if max(inputs, outputs) > completed * MAX_TOKENS:
        raise ResultError(f"{where}: {completed} requests with more than {MAX_TOKENS} tokens each on average")
    if min(inputs, outputs) < completed:
        raise ResultError(f"{where}: {completed} requests but {inputs:g} input and {outputs:g} output tokens")
    engine: Engine = "vllm" if any(name in data for name in VLLM_ONLY) else "sglang"
    limit = _optional(data, "max_concurrency", where)
    return BenchResult(
        where=where,
        engine=engine,
        completed=completed,
        seconds=seconds,
        isl=inputs / completed,
        osl=outputs / completed,
        concurrency=None if limit is None else int(limit),
        rate=_rate(data, where),
        burstiness=_optional(data, "burstiness", where) or 1.0,
        mean_concurrency=_optional(data, "concurrency", where),
        ttft_seconds=_milliseconds(data, "ttft", where),
        tpot_seconds=_milliseconds(data, "tpot", where),
        tokens_per_s=_optional(data, "output_throughput", where) or outputs / seconds,
        server=facts_of_info(data.get("server_info")),
        spread=_spread(data, where),
        lengths=_lengths(data),
    )


def _rate(data: Mapping[str, Any], where: str) -> float | None:
    value = data.get("request_rate")
    if value in (None, "inf", "trace") or value == math.inf:
        return None
    rate = _number(data, "request_rate", where)
    if rate <= 0:
        raise ResultError(f"{where}: request_rate={rate:g} must be positive")
    return rate


def _spread(data: Mapping[str, Any], where: str) -> float:
    """Lengths of the random data set are drawn evenly from ratio * length to length."""
    ratio = _optional(data, "random_range_ratio", where)
    if data.get("dataset_name") not in ("random", "random-ids") or ratio is None or ratio > 1:
        return 0.0
    return min((1 - ratio) / (1 + ratio), WIDEST_SPREAD)


def _lengths(data: Mapping[str, Any]) -> tuple[tuple[int, int], ...]:
    inputs, outputs = data.get("input_lens"), data.get("output_lens")
    if not isinstance(inputs, list) or not isinstance(outputs, list) or len(inputs) != len(outputs):
        return ()
    pairs = zip(inputs, outputs, strict=True)
    return tuple((a, b) for a, b in pairs if type(a) is int and type(b) is int and a > 0 and b > 0)


def _milliseconds(data: Mapping[str, Any], name: str, where: str) -> float | None:
    value = _optional(data, f"mean_{name}_ms", where)
    if value is None:
        value = _optional(data, f"median_{name}_ms", where)
    return None if value is None else value * 1e-3


def _optional(data: Mapping[str, Any], name: str, where: str) -> float | None:
    return None if data.get(name) is None else _number(data, name, where)


def _number(data: Mapping[str, Any], name: str, where: str) -> float:
    value = number(data.get(name))
    if not 0 <= value < math.inf:
        raise ResultError(f"{where}: {name}={data.get(name)!r:.60} is no finite number of at least 0")
    return value
