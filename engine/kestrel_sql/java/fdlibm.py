"""The functions of fdlibm that Java's Math and StrictMath share; Python's library gives other last digits."""

from __future__ import annotations

import math
import struct

_HALF_PI, _HALF_PI_LOW = 1.57079632679489655800e00, 6.12323399573676603587e-17
_QUARTER_PI, _PI, _PI_LOW = 7.85398163397448278999e-01, 3.14159265358979311600e00, 1.2246467991473531772e-16
_LN2, _LN2_LOW, _PER_LN2 = 6.93147180369123816490e-01, 1.90821492927058770002e-10, 1.44269504088896338700e00

_ARC_P = (
    *(3.47933107596021167570e-05, 7.91534994289814532176e-04, -4.00555345006794114027e-02),
    *(2.01212532134862925881e-01, -3.25565818622400915405e-01, 1.66666666666666657415e-01),
)
_ARC_Q = (
    *(7.70381505559019352791e-02, -6.88283971605453293030e-01, 2.02094576023350569471e00),
    *(-2.40339491173441421878e00, 1.0),
)
_ATAN_EVEN = (
    *(1.62858201153657823623e-02, 4.97687799461593236017e-02, 6.66107313738753120669e-02),
    *(9.09088713343650656196e-02, 1.42857142725034663711e-01, 3.33333333333329318027e-01),
)
_ATAN_ODD = (
    *(-3.65315727442169155270e-02, -5.83357013379057348645e-02, -7.69187620504482999495e-02),
    *(-1.11111104054623557880e-01, -1.99999999998764832476e-01),
)
_EXP = (
    *(4.13813679705723846039e-08, -1.65339022054652515390e-06, 6.61375632143793436117e-05),
    *(-2.77777777770155933842e-03, 1.66666666666666019037e-01),
)
_EXPM1 = (
    *(-2.01099218183624371326e-07, 4.00821782732936239552e-06, -7.93650757867487942473e-05),
    *(1.58730158725481460165e-03, -3.33333333333331316428e-02, 1.0),
)
"""Coefficients of polynomials, the highest power first."""

_OVERFLOW_OF_COSH = 710.4758600739439

_NORMAL, _SUBNORMAL = 715094163, 696219795
_C, _D = 5.42857142857142815906e-01, -7.05306122448979611050e-01
_E, _F, _G = 1.41428571428571436819e00, 1.60714285714285720630e00, 3.57142857142857150787e-01


def asin(x: float) -> float:
    """Return the angle in radians, from -pi/2 to pi/2, whose sine is `x`; NaN beyond 1."""
    magnitude = abs(x)
    if not magnitude <= 1.0:
        return math.nan
    if magnitude == 1.0:
        return x * _HALF_PI + x * _HALF_PI_LOW
    if magnitude < 0.5:
        return x if magnitude < 2.0**-27 else x + x * _arc(x * x)
    square = (1.0 - magnitude) * 0.5
    ratio, root = _arc(square), math.sqrt(square)
    if _high(magnitude) >= 0x3FEF3333:
        angle = _HALF_PI - (2.0 * (root + root * ratio) - _HALF_PI_LOW)
    else:
        short = _short(root)
        rest = (square - short * short) / (root + short)
        less = 2.0 * root * ratio - (_HALF_PI_LOW - 2.0 * rest)
        angle = _QUARTER_PI - (less - (_QUARTER_PI - 2.0 * short))
    return math.copysign(angle, x)


def acos(x: float) -> float:
    """Return the angle in radians, from 0 to pi, whose cosine is `x`; NaN beyond 1."""
    magnitude = abs(x)
    if not magnitude <= 1.0:
        return math.nan
    if magnitude == 1.0:
        return 0.0 if x > 0 else _PI + 2.0 * _HALF_PI_LOW
    if magnitude < 0.5:
        return _HALF_PI - (x - (_HALF_PI_LOW - x * _arc(x * x)))
    square = (1.0 - magnitude) * 0.5
    ratio, root = _arc(square), math.sqrt(square)
    if x < 0:
        return _PI - 2.0 * (root + (ratio * root - _HALF_PI_LOW))
    short = _short(root)
    return 2.0 * (short + (ratio * root + (square - short * short) / (root + short)))


def _arc(square: float) -> float:
    return square * _polynomial(square, _ARC_P) / _polynomial(square, _ARC_Q)


def atan(x: float) -> float:
    """Return the angle in radians, from -pi/2 to pi/2, whose tangent is `x`."""
    magnitude = abs(x)
    if math.isnan(x) or magnitude < 2.0**-29:
        return x
    if magnitude >= 2.0**66:
        return math.copysign(_HALF_PI + _HALF_PI_LOW, x)
    if magnitude < 0.4375:
        return x - x * _atan_rest(x)
    if magnitude < 0.6875:
        high, low, rest = 4.63647609000806093515e-01, 2.26987774529616870924e-17, (2 * magnitude - 1) / (2 + magnitude)
    elif magnitude < 1.1875:
        high, low, rest = _QUARTER_PI, 3.06161699786838301793e-17, (magnitude - 1) / (magnitude + 1)
    elif magnitude < 2.4375:
        high, low = 9.82793723247329054082e-01, 1.39033110312309984516e-17
        rest = (magnitude - 1.5) / (1 + 1.5 * magnitude)
    else:
        high, low, rest = _HALF_PI, _HALF_PI_LOW, -1 / magnitude
    return math.copysign(high - ((rest * _atan_rest(rest) - low) - rest), x)


def _atan_rest(x: float) -> float:
    square = x * x
    fourth = square * square
    return square * _polynomial(fourth, _ATAN_EVEN) + fourth * _polynomial(fourth, _ATAN_ODD)


def atan2(y: float, x: float) -> float:
    """Return the angle in radians of the point (x, y), from -pi to pi."""
    if x == 0 or y == 0 or not (math.isfinite(x) and math.isfinite(y)):
        return math.atan2(y, x)
    if x == 1.0:
        return atan(y)
    exponents = (_high(abs(y)) - _high(abs(x))) >> 20
    if exponents > 60:
        angle = _HALF_PI + 0.5 * _PI_LOW
    elif x < 0 and exponents < -60:
        angle = 0.0
    else:
        angle = atan(abs(y / x))
    return math.copysign(angle if x > 0 else _PI - (angle - _PI_LOW), y)


def cosh(x: float) -> float:
    """Return the hyperbolic cosine."""
    magnitude = abs(x)
    if math.isnan(x) or magnitude > _OVERFLOW_OF_COSH:
        return magnitude if math.isnan(x) else math.inf
    high = _high(magnitude)
    if high < 0x3FD62E43:
        less = _expm1(magnitude)
        return 1.0 + (less * less) / (1.0 + less + (1.0 + less))
    if high < 0x40360000:
        grown = _exp(magnitude)
        return 0.5 * grown + 0.5 / grown
    return _half_exp(magnitude)


def sinh(x: float) -> float:
    """Return the hyperbolic sine."""
    magnitude = abs(x)
    if magnitude < 2.0**-28 or math.isnan(x):
        return x
    if magnitude > _OVERFLOW_OF_COSH:
        return math.copysign(math.inf, x)
    if magnitude >= 22:
        return math.copysign(_half_exp(magnitude), x)
    less = _expm1(magnitude)
    if magnitude < 1:
        return math.copysign(0.5 * (2.0 * less - less * less / (less + 1.0)), x)
    return math.copysign(0.5 * (less + less / (less + 1.0)), x)


def _half_exp(x: float) -> float:
    """Return half of e to the power of `x`, which itself may be too large."""
    if _high(x) < 0x40862E42:
        return 0.5 * _exp(x)
    root = _exp(0.5 * x)
    return 0.5 * root * root


def tanh(x: float) -> float:
    """Return the hyperbolic tangent."""
    magnitude = abs(x)
    if math.isnan(x) or magnitude >= 22:
        return x if math.isnan(x) else math.copysign(1.0, x)
    if magnitude < 2.0**-55:
        return x * (1.0 + x)
    if magnitude >= 1:
        return math.copysign(1.0 - 2.0 / (_expm1(2.0 * magnitude) + 2.0), x)
    less = _expm1(-2.0 * magnitude)
    return math.copysign(-less / (less + 2.0), x)


def _exp(x: float) -> float:
    """Return e to the power of `x`, which is from 0 to 709.78."""
    if x < 2.0**-28:
        return 1.0 + x
    k, high, low = _reduced(x)
    rest = high - low
    square = rest * rest
    c = rest - square * _polynomial(square, _EXP)
    if k == 0:
        return 1.0 - ((rest * c) / (c - 2.0) - rest)
    return math.ldexp(1.0 - ((low - (rest * c) / (2.0 - c)) - high), k)


def _expm1(x: float) -> float:
    """Return e to the power of `x`, less 1; `x` is from -2 to 44."""
    if abs(x) < 2.0**-54:
        return x
    k, high, low = _reduced(x)
    rest = high - low
    lost = (high - rest) - low
    half = 0.5 * rest
    square = rest * half
    r = _polynomial(square, _EXPM1)
    t = 3.0 - r * half
    e = square * ((r - t) / (6.0 - rest * t))
    if k == 0:
        return rest - (rest * e - square)
    e = (rest * (e - lost) - lost) - square
    return _grown(rest, e, k)


def _grown(rest: float, e: float, k: int) -> float:
    if k == -1:
        return 0.5 * (rest - e) - 0.5
    if k == 1:
        return -2.0 * (e - (rest + 0.5)) if rest < -0.25 else 1.0 + 2.0 * (rest - e)
    if k <= -2 or k > 56:
        return math.ldexp(1.0 - (e - rest), k) - 1.0
    if k < 20:
        return math.ldexp((1.0 - 2.0**-k) - (e - rest), k)
    return math.ldexp((rest - (e + 2.0**-k)) + 1.0, k)


def _reduced(x: float) -> tuple[int, float, float]:
    """Return k, and the high and the low part of `x - k ln 2`."""
    high = _high(abs(x))
    if high <= 0x3FD62E42:
        return 0, x, 0.0
    sign = 1 if x > 0 else -1
    k = sign if high < 0x3FF0A2B2 else int(_PER_LN2 * x + 0.5 * sign)
    return k, x - k * _LN2, k * _LN2_LOW


def _polynomial(x: float, coefficients: tuple[float, ...]) -> float:
    value = 0.0
    for coefficient in coefficients:
        value = value * x + coefficient
    return value


def cbrt(x: float) -> float:
    """Return the cube root of a double, with the digits of `StrictMath.cbrt`."""
    if x == 0.0 or not math.isfinite(x):
        return x
    magnitude = abs(x)
    if _high(magnitude) < 0x00100000:
        root = _of_high(_high(magnitude * 2.0**54) // 3 + _SUBNORMAL)
    else:
        root = _of_high(_high(magnitude) // 3 + _NORMAL)
    s = _C + root * root / magnitude * root
    root *= _G + _F / (s + _E + _D / s)
    # A number of 20 bits that is above the root: its square is exact.
    root = _of_high(_high(root) + 1)
    rest = magnitude / (root * root)
    return math.copysign(root + root * ((rest - root) / (root + root + rest)), x)


def _high(x: float) -> int:
    return int(struct.unpack(">i4x", struct.pack(">d", x))[0])


def _of_high(word: int) -> float:
    return float(struct.unpack(">d", struct.pack(">ii", word, 0))[0])


def _short(x: float) -> float:
    """Return `x` with the first 20 bits of its fraction."""
    return _of_high(_high(x))
