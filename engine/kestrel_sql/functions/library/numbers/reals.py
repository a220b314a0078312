"""Functions of real numbers: logarithms, powers, angles, and geographic distance.

Java leaves the last digit of logarithms, powers, sines, cosines and tangents open. They run in Python, so that Spark
and the evaluator give the same (rule U4.6). For all others Java's Math is StrictMath, which is fdlibm: Spark calls it,
and the evaluator has it in `kestrel_sql.java.fdlibm`.
"""

from __future__ import annotations

import math
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from sqlglot import exp

from kestrel_sql.functions.declaration import Nulls, python_scalar, scalar
from kestrel_sql.functions.library.spark_sql.expressions import (
    Tree,
    call,
    cast,
    double,
    if_,
    let,
    op,
    text,
)
from kestrel_sql.java import fdlibm


def _reals(values: Any) -> Any:
    """Return a column of numbers, or a constant, as DOUBLE."""
    return (
        pc.cast(values, pa.float64(), safe=False)
        if isinstance(values, pa.Array)
        else pa.scalar(float(values), pa.float64())
    )


# Arrow and Python call the same C library, so they return the same digits.
def _exps(values: Any) -> Any:
    return pc.exp(_reals(values))


def _logs(values: Any) -> Any:
    return pc.ln(_reals(values))


def _logs_to_base(base: Any, values: Any) -> Any:
    base = _reals(base)
    quotient = pc.divide(pc.ln(_reals(values)), pc.ln(base))
    return pc.if_else(pc.or_(pc.less_equal(base, 0.0), pc.equal(base, 1.0)), math.nan, quotient)


def _sines(values: Any) -> Any:
    return pc.sin(_reals(values))


def _cosines(values: Any) -> Any:
    return pc.cos(_reals(values))


def _tangents(values: Any) -> Any:
    return pc.tan(_reals(values))


def _cotangents(values: Any) -> Any:
    return pc.divide(1.0, _tangents(values))


def _powers(base: Any, exponent: Any) -> Any:
    base, exponent = _reals(base), _reals(exponent)
    endless = pc.and_(pc.is_inf(exponent), pc.equal(pc.abs(base), 1.0))
    return pc.if_else(pc.or_(pc.is_nan(exponent), endless), math.nan, pc.power(base, exponent))


_REAL = ("(value INT) -> DOUBLE", "(value BIGINT) -> DOUBLE", "(value DOUBLE) -> DOUBLE")


def _pairs(first: str, second: str) -> tuple[str, ...]:
    return tuple(f"({first} {name}, {second} {name}) -> DOUBLE" for name in ("INT", "BIGINT", "DOUBLE"))


@scalar(*_REAL, display_name="acos")
def acos(value: Tree) -> Tree:
    """Return the angle in radians whose cosine is `value`.

    Example: ACOS(1) -> 0E0
    """
    return call("acos", value)


@scalar(*_REAL, display_name="asin")
def asin(value: Tree) -> Tree:
    """Return the angle in radians whose sine is `value`.

    Example: ASIN(0) -> 0E0
    """
    return call("asin", value)


@scalar(*_REAL, display_name="atan")
def atan(value: Tree) -> Tree:
    """Return the angle in radians whose tangent is `value`.

    Example: ATAN(0) -> 0E0
    """
    return call("atan", value)


@scalar(*_REAL, display_name="cbrt")
def cbrt(value: Tree) -> Tree:
    """Return the cube root.

    Example: CBRT(27) -> 3E0
    """
    return call("cbrt", value)


@python_scalar(*_REAL, display_name="cos", vector=_cosines)
def cos(value: float) -> float:
    """Return the cosine of an angle in radians.

    Example: COS(0) -> 1E0
    """
    return math.cos(value) if math.isfinite(value) else math.nan


@scalar(*_REAL, display_name="cosh")
def cosh(value: Tree) -> Tree:
    """Return the hyperbolic cosine.

    Example: COSH(0) -> 1E0
    """
    return call("cosh", value)


@python_scalar(*_REAL, display_name="cot", vector=_cotangents)
def cot(value: float) -> float:
    """Return the cotangent of an angle in radians; Infinity for 0.

    Example: COT(1.0E0) -> 0.6420926159343306E0
    """
    tangent = math.tan(value) if math.isfinite(value) else math.nan
    return 1 / tangent if tangent else math.copysign(math.inf, tangent)


@scalar(*_REAL, display_name="degrees")
def degrees(value: Tree) -> Tree:
    """Convert an angle from radians to degrees.

    Example: DEGREES(0) -> 0E0
    """
    return call("degrees", value)


@python_scalar(*_REAL, display_name="exp", vector=_exps)
def exp_(value: float) -> float:
    """Return e raised to the power of `value`.

    Example: EXP(1) -> 2.718281828459045E0
    """
    try:
        return math.exp(value)
    except OverflowError:
        return math.inf


@scalar(*_REAL, display_name="radians")
def radians(value: Tree) -> Tree:
    """Convert an angle from degrees to radians.

    Example: RADIANS(180) -> 3.141592653589793E0
    """
    return call("radians", value)


@python_scalar(*_REAL, display_name="sin", vector=_sines)
def sin(value: float) -> float:
    """Return the sine of an angle in radians.

    Example: SIN(0) -> 0E0
    """
    return math.sin(value) if math.isfinite(value) else math.nan


@scalar(*_REAL, display_name="sinh")
def sinh(value: Tree) -> Tree:
    """Return the hyperbolic sine.

    Example: SINH(0) -> 0E0
    """
    return call("sinh", value)


@scalar(*_REAL, display_name="sqrt")
def sqrt(value: Tree) -> Tree:
    """Return the square root; NaN for negative values.

    Example: SQRT(16) -> 4E0
    """
    return call("sqrt", value)


@python_scalar(*_REAL, display_name="tan", vector=_tangents)
def tan(value: float) -> float:
    """Return the tangent of an angle in radians.

    Example: TAN(0) -> 0E0
    """
    return math.tan(value) if math.isfinite(value) else math.nan


@scalar(*_REAL, display_name="tanh")
def tanh(value: Tree) -> Tree:
    """Return the hyperbolic tangent.

    Example: TANH(0) -> 0E0
    """
    return call("tanh", value)


def _natural_log(value: float) -> float:
    if value > 0:
        return math.log(float(value))
    return -math.inf if value == 0 else math.nan


@python_scalar(*_REAL, display_name="ln", vector=_logs)
def ln(value: float) -> float:
    """Return the natural logarithm; -Infinity for 0, NaN for negative values.

    Example: LN(1) -> 0E0
    """
    return _natural_log(value)


@python_scalar(*_REAL, display_name="log", vector=_logs)
def log(value: float) -> float:
    """Return the natural logarithm (ksqlDB's manual says base 10, but ksqlDB computes this).

    Example: LOG(1) -> 0E0
    """
    return _natural_log(value)


@python_scalar(*_pairs("base", "value"), name="LOG", display_name="log", vector=_logs_to_base)
def log_to_base(base: float, value: float) -> float:
    """Return the logarithm of `value` to `base`; NaN if the base is 1 or not positive.

    Example: LOG(2, 8) -> 3E0
    """
    return math.nan if base <= 0 or base == 1 else _natural_log(value) / _natural_log(base)


@python_scalar(*_pairs("base", "exponent"), display_name="power", vector=_powers)
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


@scalar(*_pairs("y", "x"), display_name="atan2")
def atan2(y: Tree, x: Tree) -> Tree:
    """Return the angle in radians of the point (x, y), from -pi to pi.

    Example: ATAN2(0, 1) -> 0E0
    """

    def angle(y: Tree, x: Tree) -> Tree:
        # Spark takes -0.0 for 0.0.
        at_zero = if_(_is_negative_zero(x), double(math.pi), call("atan2", y, x))
        signed = if_(_is_negative_zero(y), call("negative", at_zero), at_zero)
        return if_(op(exp.EQ, y, double(0.0)), signed, call("atan2", y, x))

    return let([cast(y, "DOUBLE"), cast(x, "DOUBLE")], angle)


def _is_negative_zero(value: Tree) -> Tree:
    return op(exp.EQ, cast(value, "STRING"), text("-0.0"))


@scalar("() -> DOUBLE", display_name="pi")
def pi() -> Tree:
    """Return the constant pi.

    Example: PI() -> 3.141592653589793E0
    """
    return call("pi")


@scalar("() -> DOUBLE", display_name="random", deterministic=False)
def random() -> Tree:
    """Return a random number from 0 (inclusive) to 1 (exclusive), a new one for each row.

    Example: FLOOR(RANDOM()) -> 0E0
    """
    return call("rand")


_PLACES = "lat1 DOUBLE NOT NULL, lon1 DOUBLE NOT NULL, lat2 DOUBLE NOT NULL, lon2 DOUBLE NOT NULL"
_KILOMETERS = ("", "km", "kilometer", "kilometers", "kilometre", "kilometres")
_MILES = ("mi", "mile", "miles")


@python_scalar(
    f"({_PLACES}) -> DOUBLE", f"({_PLACES}, unit STRING) -> DOUBLE", nulls=Nulls.BODY, display_name="geo_distance"
)
def geo_distance(lat1: float, lon1: float, lat2: float, lon2: float, unit: str | None = "") -> float:
    """Return the great-circle distance between two points given in degrees, in kilometres or in miles, as `unit` says.

    Coordinates out of range and unknown units are errors.

    Example: ROUND(GEO_DISTANCE(37.4E0, -122.1E0, 51.5E0, -0.1E0, 'miles')) -> 5368
    """
    word = (unit or "").strip(" ").lower()
    # NaN is within no bounds and beyond none: the distance is NaN.
    beyond = any(abs(lat) > 90 for lat in (lat1, lat2)) or any(abs(lon) > 180 for lon in (lon1, lon2))
    if beyond or word not in (*_KILOMETERS, *_MILES):
        raise ValueError("no such coordinates or unit")

    def half_square(difference: float) -> float:
        half = math.sin(_radians(difference) / 2.0)
        return half * half

    a = half_square(lat2 - lat1) + half_square(lon2 - lon1) * math.cos(_radians(lat1)) * math.cos(_radians(lat2))
    return 2.0 * fdlibm.asin(math.sqrt(a)) * (3959.0 if word in _MILES else 6371.0)


def _radians(degrees: float) -> float:
    # ksqlDB's documented results come from Java 8, which divides first; the last digit differs from Math.toRadians.
    return degrees / 180.0 * math.pi
