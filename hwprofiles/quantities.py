"""Value types of a profile: each number knows its unit and the range that only a wrong unit leaves."""

import re
from collections.abc import Callable, Mapping
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, Field

Origin = Literal["vendor", "derived", "others", "unconfirmed", "measured", "user"]

MATRIX_DTYPES = ("fp64", "fp32", "tf32", "fp16", "fp16_fp16acc", "bf16", "fp8", "fp8_fp16acc", "int8", "fp6", "fp4")
VECTOR_DTYPES = ("fp32", "fp64", "bf16", "fp16")


def _within(low: float, high: float, unit: str) -> Callable[[float], float]:
    def check(value: float) -> float:
        if not low <= value <= high:
            raise ValueError(f"{_short(value)} is outside {low:g} to {high:g}; the unit is {unit}")
        return value

    return check


def _short(value: float) -> str:
    return f"{value:g}" if abs(value) < 1e300 or value != value or isinstance(value, float) else "a number that large"


def _number(value: Any) -> Any:
    """Text that reads like a number, and true or false, are mistakes in a file of quantities."""
    if isinstance(value, (bool, str)):
        raise ValueError(f"{value!r} must be a number")
    return value


def _printable(value: str) -> str:
    if not value.strip() or not value.isprintable():
        raise ValueError(f"{value!r} must be text without control characters, and not empty")
    return value


def _an_id(value: str) -> str:
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._+-]*", value):
        raise ValueError(
            f"{value!r} must be letters, digits and any of . _ + - (calibrations are kept under this name)"
        )
    return value


def _keys(known: tuple[str, ...]) -> Callable[[Mapping[str, float]], Mapping[str, float]]:
    def check(table: Mapping[str, float]) -> Mapping[str, float]:
        unknown = sorted(set(table) - set(known))
        if unknown:
            raise ValueError(f"dtype {unknown[0]!r} is not among {', '.join(known)}")
        return table

    return check


_Whole = Annotated[int, BeforeValidator(_number)]
_Real = Annotated[float, BeforeValidator(_number)]

Name = Annotated[str, AfterValidator(_printable)]
Id = Annotated[str, AfterValidator(_an_id)]
Capability = Annotated[str, Field(pattern=r"^\d{1,2}\.\d$")]

Count = Annotated[_Whole, AfterValidator(_within(1, 1e6, "a count"))]
Hertz = Annotated[_Real, AfterValidator(_within(1e8, 1e10, "Hz (1830 MHz = 1.83e9)"))]
Bytes = Annotated[_Whole, AfterValidator(_within(1024, 1e13, "bytes (80 GiB = 85_899_345_920)"))]
BytesPerSecond = Annotated[_Real, AfterValidator(_within(1e8, 1e14, "bytes/s (4.8 TB/s = 4.8e12)"))]
FlopsPerSecond = Annotated[_Real, AfterValidator(_within(1e8, 1e17, "FLOP/s (989 TFLOP/s = 9.89e14)"))]
PerClock = Annotated[_Real, AfterValidator(_within(0.25, 1e6, "operations or bytes per clock"))]
Share = Annotated[_Real, AfterValidator(_within(0.01, 1.0, "a share of 1"))]
Watts = Annotated[_Real, AfterValidator(_within(0.1, 1e5, "W"))]
Seconds = Annotated[_Real, AfterValidator(_within(1e-10, 1e3, "seconds"))]

MatrixRates = Annotated[dict[str, FlopsPerSecond], AfterValidator(_keys(MATRIX_DTYPES))]
MatrixPerClock = Annotated[dict[str, PerClock], AfterValidator(_keys(MATRIX_DTYPES))]
VectorRates = Annotated[dict[str, FlopsPerSecond], AfterValidator(_keys(VECTOR_DTYPES))]
VectorPerClock = Annotated[dict[str, PerClock], AfterValidator(_keys(VECTOR_DTYPES))]
