"""Parts of steps are fitted by what moves and what is multiplied; errors are those of shapes left out."""

import pytest

from costmodel.fit.step import PASS_BOUNDS, PRODUCT_BOUNDS, PartPoint, fit_step
from costmodel.serving.calibrated import PassFigures, ProductFigures, rates_of
from hwprofiles import load_profile

RATES = rates_of(load_profile("h200"))
PRODUCT = ProductFigures(3.1e-6, 0.81, 0.69, 4.0, 90.0, 5e10, 2.5e-6, 1.0, 1.0)
PASS = PassFigures(1.7e-6, 4e-10, 2.1, 0.9, 1.0, 1.0)
SHAPES = ((6144, 4096), (4096, 4096), (28672, 4096), (8192, 1024), (1280, 8192), (2112, 7168))
"""Wide and narrow, deep and shallow: the last two are faster in parts."""


def products(odd: float = 1.0) -> list[PartPoint]:
    found = []
    for n, k in SHAPES:
        for tokens in (1, 16, 64, 256, 512, 2048, 8192):
            seconds = PRODUCT.seconds(tokens, n, k, RATES) * (odd if n == 8192 else 1.0)
            found.append(PartPoint("gemm", tokens, n, k, 0.0, seconds))
    return found


def passes() -> list[PartPoint]:
    sizes = [(t, n) for t in (1, 64, 512, 2048, 8192) for n in (1024, 4096, 32768)]
    return [PartPoint("norm", t, n, 0, 2.0 * t * n, PASS.seconds(t, 2.0 * t * n, RATES)) for t, n in sizes]


def test_what_made_the_times_is_found_again():
    found = fit_step(products() + passes(), load_profile("h200"))
    for name in PRODUCT_BOUNDS:
        assert found["product"][name] == pytest.approx(getattr(PRODUCT, name), rel=0.01), name
    for name in PASS_BOUNDS:
        assert found["passes"]["norm"][name] == pytest.approx(getattr(PASS, name), rel=0.01), name
    assert found["product"]["rows"] == 42


def test_a_shape_that_behaves_otherwise_widens_the_interval_by_what_it_is_off():
    plain, odd = (fit_step(products(factor) + passes(), load_profile("h200"))["product"] for factor in (1.0, 1.3))
    assert plain["high"] < 1.02
    assert 1.2 < odd["high"] < 1.4
    assert odd["p90_error"] > 0.15
