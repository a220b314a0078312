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
from kestrel_sql.functions.declaration import Nulls, scalar
from kestrel_sql.java import fdlibm
from kestrel_sql.java.letters import lower
from kestrel_sql.java.numbers import JAVA_BLANKS

# Arrow and Python call the same C library, so they return the same digits.


def _of_each_type(*parameters: str) -> tuple[str, ...]:
    return tuple(
        f"({', '.join(f'{each} {name}' for each in parameters)}) -> DOUBLE" for name in ("INT", "BIGINT", "DOUBLE")
    )


_REAL = _of_each_type("value")


def _real(function: Callable[..., float], *values: float) -> float:
    """Apply a function as Java does: out of its domain is NaN, and a result that is too large is infinite."""
    try:
        return function(*map(float, values))
    except OverflowError:
        return math.copysign(math.inf, float(values[0]))
    except (ValueError, ZeroDivisionError):
        return math.nan


@scalar(*_REAL, display_name="acos")
def acos(value: float) -> float:
    """Return the angle in radians whose cosine is `value`.

    Example: ACOS(1) -> 0E0
    """
    return _real(fdlibm.acos, value)


@scalar(*_REAL, display_name="asin")
def asin(value: float) -> float:
    """Return the angle in radians whose sine is `value`.

    Example: ASIN(0) -> 0E0
    """
    return _real(fdlibm.asin, value)


@scalar(*_REAL, display_name="atan")
def atan(value: float) -> float:
    """Return the angle in radians whose tangent is `value`.

    Example: ATAN(0) -> 0E0
    """
    return _real(fdlibm.atan, value)


@scalar(*_REAL, display_name="cbrt")
def cbrt(value: float) -> float:
    """Return the cube root.

    Example: CBRT(27) -> 3E0
    """
    return _real(fdlibm.cbrt, value)


@scalar(*_REAL, display_name="cos", columns=later(late.pc, "cos"))
def cos(value: float) -> float:
    """Return the cosine of an angle in radians.

    Example: COS(0) -> 1E0
    """
    return math.cos(value) if math.isfinite(value) else math.nan


@scalar(*_REAL, display_name="cosh")
def cosh(value: float) -> float:
    """Return the hyperbolic cosine.

    Example: COSH(0) -> 1E0
    """
    return _real(fdlibm.cosh, value)


@scalar(*_REAL, display_name="cot")
def cot(value: float) -> float:
    """Return the cotangent of an angle in radians; Infinity for 0.

    Example: COT(1.0E0) -> 0.6420926159343306E0
    """
    tangent = math.tan(value) if math.isfinite(value) else math.nan
    return 1 / tangent if tangent else math.copysign(math.inf, tangent)


@scalar(*_REAL, display_name="degrees")
def degrees(value: float) -> float:
    """Convert an angle from radians to degrees.

    Example: DEGREES(0) -> 0E0
    """
    return _real(math.degrees, value)


def _exp_columns(array: ArrowArray) -> ArrowArray | None:
    kernel = getattr(late.pc, "exp", None)  # Arrow 18 has none.
    return None if kernel is None else kernel(array)


@scalar(*_of_each_type("exponent"), display_name="exp", columns=_exp_columns)
def exp_(value: float) -> float:
    """Return e raised to the power of `exponent`.

    Example: EXP(1) -> 2.718281828459045E0
    """
    try:
        return math.exp(value)
    except OverflowError:
        return math.inf


@scalar(*_REAL, display_name="radians")
def radians(value: float) -> float:
    """Convert an angle from degrees to radians.

    Example: RADIANS(180) -> 3.141592653589793E0
    """
    return _real(math.radians, value)


@scalar(*_REAL, display_name="sin", columns=later(late.pc, "sin"))
def sin(value: float) -> float:
    """Return the sine of an angle in radians.

    Example: SIN(0) -> 0E0
    """
    return math.sin(value) if math.isfinite(value) else math.nan


@scalar(*_REAL, display_name="sinh")
def sinh(value: float) -> float:
    """Return the hyperbolic sine.

    Example: SINH(0) -> 0E0
    """
    return _real(fdlibm.sinh, value)


@scalar(*_REAL, display_name="sqrt", columns=later(late.pc, "sqrt"))
def sqrt(value: float) -> float:
    """Return the square root; NaN for negative values.

    Example: SQRT(16) -> 4E0
    """
    return _real(math.sqrt, value)


@scalar(*_REAL, display_name="tan", columns=later(late.pc, "tan"))
def tan(value: float) -> float:
    """Return the tangent of an angle in radians.

    Example: TAN(0) -> 0E0
    """
    return math.tan(value) if math.isfinite(value) else math.nan


@scalar(*_REAL, display_name="tanh")
def tanh(value: float) -> float:
    """Return the hyperbolic tangent.

    Example: TANH(0) -> 0E0
    """
    return _real(fdlibm.tanh, value)


def _natural_log(value: float) -> float:
    if value > 0:
        return math.log(float(value))
    return -math.inf if value == 0 else math.nan


@scalar(*_REAL, display_name="ln", columns=later(late.pc, "ln"))
def ln(value: float) -> float:
    """Return the natural logarithm; -Infinity for 0, NaN for negative values.

    Example: LN(1) -> 0E0
    """
    return _natural_log(value)


@scalar(*_REAL, display_name="log", columns=later(late.pc, "ln"))
def log(value: float) -> float:
    """Return the natural logarithm (ksqlDB's manual says base 10, but ksqlDB computes this).

    Example: LOG(1) -> 0E0
    """
    return _natural_log(value)


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
    return _real(fdlibm.atan2, y, x)


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
