"""Functions of Java's StrictMath whose digits Python's library does not give."""

from __future__ import annotations

import math
import struct

_NORMAL, _SUBNORMAL = 715094163, 696219795
_C, _D = 5.42857142857142815906e-01, -7.05306122448979611050e-01
_E, _F, _G = 1.41428571428571436819e00, 1.60714285714285720630e00, 3.57142857142857150787e-01


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
