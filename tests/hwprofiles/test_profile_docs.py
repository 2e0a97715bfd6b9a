import re
from collections.abc import Callable
from pathlib import Path

from hwprofiles import load_profile
from hwprofiles.validate import check_all

GUIDE = Path(__file__).parents[2] / "docs/profiles.md"
EXAMPLES = re.findall(r"```toml\n(.*?)```", GUIDE.read_text(), re.DOTALL)


def test_the_new_device_of_the_guide_loads_and_holds_together(write: Callable[..., Path]) -> None:
    write("nvidia-l20.toml", EXAMPLES[0])
    l20 = load_profile("NVIDIA L20")
    assert check_all([l20, load_profile("l40s")]) == []
    assert l20.matrix_rate("bf16") == 119.5e12
    assert l20.shared_memory_max_bytes_per_block == 99 * 1024
    assert (l20.l2_bytes, l20.unconfirmed["l2_bytes"]) == (None, 96 * 2**20)


def test_the_capped_card_of_the_guide_loads(write: Callable[..., Path]) -> None:
    write("h200-500w.toml", EXAMPLES[1])
    assert load_profile("h200_500w").tdp_w == 500
