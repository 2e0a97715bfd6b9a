"""The device, and what every GPU test starts from."""

import pytest

from hwprofiles import Profile


@pytest.fixture(scope="session", autouse=True)
def profile() -> Profile:
    torch = pytest.importorskip("torch")
    if not torch.cuda.is_available():
        pytest.skip("PyTorch sees no CUDA device")
    from hwprofiles import detect_profile

    return detect_profile()
