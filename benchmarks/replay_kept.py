"""Results of searches without a model, kept by workload: they change only where the records do."""

import json
import lzma
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from replay_cases import Case
from replay_methods import Done

PLACE = Path(__file__).parent / "replay.jsonl.xz"


@dataclass(frozen=True)
class Kept:
    """One method on one workload."""

    case: str
    """Fingerprint of the workload and its times."""
    method: str
    repeats: int
    done: Done


def load(path: Path = PLACE) -> dict[tuple[str, str, int], Kept]:
    """Read what was kept."""
    if not path.exists():
        return {}
    found = {}
    for line in lzma.decompress(path.read_bytes()).decode().splitlines():
        data = json.loads(line)
        losses = {int(k): v for k, v in data["done"]["losses"].items()}
        kept = Kept(data["case"], data["method"], data["repeats"], Done(**{**data["done"], "losses": losses}))
        found[kept.case, kept.method, kept.repeats] = kept
    return found


def save(kept: Iterable[Kept], path: Path = PLACE) -> None:
    """Write results, sorted, five digits."""
    lines = [json.dumps(_rounded(asdict(k)), separators=(",", ":")) for k in sorted(kept, key=_order)]
    path.write_bytes(lzma.compress("".join(f"{line}\n" for line in lines).encode(), preset=9))


def covered(cases: Sequence[Case], method: str, repeats: int, kept: dict[tuple[str, str, int], Kept]) -> list[Case]:
    """Workloads that a method's kept results still hold for."""
    return [case for case in cases if (case.fingerprint, method, repeats) in kept]


def _order(kept: Kept) -> tuple[str, str, int]:
    return kept.case, kept.method, kept.repeats


def _rounded(value: object) -> object:
    if isinstance(value, dict):
        return {k: _rounded(v) for k, v in value.items()}
    return float(f"{value:.5g}") if isinstance(value, float) else value
