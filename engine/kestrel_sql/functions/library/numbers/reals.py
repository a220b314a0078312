"""Functions of real numbers: logarithms, powers, angles, and geographic distance.

Java leaves the last digit of logarithms, powers, sines, cosines and tangents open; those of the C library are taken
(rule U4.6). For all others Java's Math is StrictMath, which is fdlibm: `kestrel_sql.java.fdlibm`.
"""

from __future__ import annotations

import math
import random as randomness
from collections.abc import Callable

from kestrel_sql.arrow import late
from kestrel_sql.arrow.late import ArrowArray, later
from kestrel_sql.functions.declaration import ColumnBody, Nulls, Scalar, scalar
from kestrel_sql.java import fdlibm
from kestrel_sql.java.letters import lower
from kestrel_sql.java.numbers import JAVA_BLANKS

# Arrow and Python call the same C library, so they return the same digits.


def _of_each_type(*parameters: str) -> tuple[str, ...]:
    return tuple(
        f"({', '.join(f'{each} {name}' for each in parameters)}) -> DOUBLE" for name in ("INT", "BIGINT", "DOUBLE")
    )


_REAL = _of_each_type("value")


def _real(compute: Callable[[float], float], does: str, example: str, columns: ColumnBody | None = None) -> Scalar:
    """Declare a function of one number: out of its domain is NaN, and a result that is too large is infinite."""

    def body(value: float) -> float:
        try:
            return compute(float(value))
        except OverflowError:
            return math.copysign(math.inf, value)
        except ValueError:
            return math.nan

    body.__name__, body.__doc__ = example.partition("(")[0].lower(), f"{does}\n\nExample: {example}"
    return scalar(*_REAL, display_name=body.__name__, columns=columns)(body)


def _cotangent(value: float) -> float:
    tangent = math.tan(value)
    return 1 / tangent if tangent else math.copysign(math.inf, tangent)


def _natural_log(value: float) -> float:
    if value > 0:
        return math.log(float(value))
    return -math.inf if value == 0 else math.nan


def _exp_columns(array: ArrowArray) -> ArrowArray | None:
    kernel = getattr(late.pc, "exp", None)  # Arrow 18 has none.
    return None if kernel is None else kernel(array)


acos = _real(fdlibm.acos, "Return the angle in radians whose cosine is `value`.", "ACOS(1) -> 0E0")
asin = _real(fdlibm.asin, "Return the angle in radians whose sine is `value`.", "ASIN(0) -> 0E0")
atan = _real(fdlibm.atan, "Return the angle in radians whose tangent is `value`.", "ATAN(0) -> 0E0")
cbrt = _real(fdlibm.cbrt, "Return the cube root.", "CBRT(27) -> 3E0")
cos = _real(math.cos, "Return the cosine of an angle in radians.", "COS(0) -> 1E0", later(late.pc, "cos"))
cosh = _real(fdlibm.cosh, "Return the hyperbolic cosine.", "COSH(0) -> 1E0")
cot = _real(
    _cotangent,
    "Return the cotangent of an angle in radians; Infinity for 0.",
    "COT(1.0E0) -> 0.6420926159343306E0",
)
degrees = _real(math.degrees, "Convert an angle from radians to degrees.", "DEGREES(0) -> 0E0")
radians = _real(math.radians, "Convert an angle from degrees to radians.", "RADIANS(180) -> 3.141592653589793E0")
sin = _real(math.sin, "Return the sine of an angle in radians.", "SIN(0) -> 0E0", later(late.pc, "sin"))
sinh = _real(fdlibm.sinh, "Return the hyperbolic sine.", "SINH(0) -> 0E0")
sqrt = _real(math.sqrt, "Return the square root; NaN for negative values.", "SQRT(16) -> 4E0", later(late.pc, "sqrt"))
tan = _real(math.tan, "Return the tangent of an angle in radians.", "TAN(0) -> 0E0", later(late.pc, "tan"))
tanh = _real(fdlibm.tanh, "Return the hyperbolic tangent.", "TANH(0) -> 0E0")
ln = _real(
    _natural_log,
    "Return the natural logarithm; -Infinity for 0, NaN for negative values.",
    "LN(1) -> 0E0",
    later(late.pc, "ln"),
)
log = _real(
    _natural_log,
    "Return the natural logarithm (ksqlDB's manual says base 10, but ksqlDB computes this).",
    "LOG(1) -> 0E0",
    later(late.pc, "ln"),
)


@scalar(*_of_each_type("exponent"), display_name="exp", columns=_exp_columns)
def exp_(value: float) -> float:
    """Return e raised to the power of `exponent`.

    Example: EXP(1) -> 2.718281828459045E0
    """
    try:
        return math.exp(value)
    except OverflowError:
        return math.inf


@scalar(*_of_each_type("base", "value"), name="LOG", display_name="log")
def log_to_base(base: float, value: float) -> float:
    """Return the logarithm of `value` to `base`; NaN if the base is 1 or not positive.

    Example: LOG(2, 8) -> 3E0
    """
    return math.nan if base <= 0 or base == 1 else _natural_log(value) / _natural_log(base)


def _power_columns(base: ArrowArray, exponent: ArrowArray) -> ArrowArray | None:
    powers = late.pc.cast(exponent, late.pa.float64())
    # Infinite powers of 1, and those that are NaN, are others in C.
    if not late.np.isfinite(late.numbers.values_of(powers)).all():
        return None
    return late.pc.power(late.pc.cast(base, late.pa.float64()), powers)


@scalar(*_of_each_type("base", "exponent"), display_name="power", columns=_power_columns)
def power(base: float, exponent: float) -> float:
    """Return `base` raised to the power of `exponent`.

    Example: POWER(2, 10) -> 1024E0
    """
    x, y = float(base), float(exponent)
    if math.isnan(y) or (math.isinf(y) and abs(x) == 1):
        return math.nan
    odd = y.is_integer() and y % 2 == 1
    try:
        return math.pow(x, y)
    except (OverflowError, ValueError):
        if x < 0 and not y.is_integer():
            return math.nan
        return -math.inf if odd and math.copysign(1, x) < 0 else math.inf


@scalar(*_of_each_type("y", "x"), display_name="atan2")
def atan2(y: float, x: float) -> float:
    """Return the angle in radians of the point (x, y), from -pi to pi.

    Example: ATAN2(0, 1) -> 0E0
    """
    return fdlibm.atan2(float(y), float(x))


@scalar("() -> DOUBLE", display_name="pi")
def pi() -> float:
    """Return the constant pi.

    Example: PI() -> 3.141592653589793E0
    """
    return math.pi


@scalar("() -> DOUBLE", display_name="random", deterministic=False)
def random() -> float:
    """Return a random number from 0 (inclusive) to 1 (exclusive), a new one for each row.

    Example: FLOOR(RANDOM()) -> 0E0
    """
    return randomness.random()


_PLACES = "lat1 DOUBLE NOT NULL, lon1 DOUBLE NOT NULL, lat2 DOUBLE NOT NULL, lon2 DOUBLE NOT NULL"
_KILOMETERS = ("", "km", "kilometer", "kilometers", "kilometre", "kilometres")
_MILES = ("mi", "mile", "miles")


@scalar(f"({_PLACES}) -> DOUBLE", f"({_PLACES}, units STRING) -> DOUBLE", nulls=Nulls.BODY, display_name="geo_distance")
def geo_distance(lat1: float, lon1: float, lat2: float, lon2: float, unit: str | None = "") -> float:
    """Return the great-circle distance between two points given in degrees, in kilometres or in miles, as `units` says.

    Coordinates out of range and unknown units are errors.

    Example: ROUND(GEO_DISTANCE(37.4E0, -122.1E0, 51.5E0, -0.1E0, 'miles')) -> 5368
    """
    word = lower((unit or "").strip(JAVA_BLANKS))
    # NaN is within no bounds and beyond none: the distance is NaN.
    beyond = any(abs(lat) > 90 for lat in (lat1, lat2)) or any(abs(lon) > 180 for lon in (lon1, lon2))
    if beyond or word not in (*_KILOMETERS, *_MILES):
        raise ValueError("invalid coordinates or unit")

    def half_square(difference: float) -> float:
        half = math.sin(_radians(difference) / 2.0)
        return half * half

    a = half_square(lat2 - lat1) + half_square(lon2 - lon1) * math.cos(_radians(lat1)) * math.cos(_radians(lat2))
    return 2.0 * fdlibm.asin(math.sqrt(a)) * (3959.0 if word in _MILES else 6371.0)


def _radians(degrees: float) -> float:
    # ksqlDB's documented results come from Java 8, which divides first; the last digit differs from Math.toRadians.
    return degrees / 180.0 * math.pi
