"""Compares results of Spark with results of the interpreter."""

from __future__ import annotations

import math
from typing import Any

import pytest
from pyspark.sql import Row


def plain(value: Any) -> Any:
    """Convert a value of Spark to what the interpreter returns."""
    match value:
        case Row():
            return {name: plain(item) for name, item in value.asDict().items()}
        case list():
            return [plain(item) for item in value]
        case dict():
            return {key: plain(item) for key, item in value.items()}
        case bytearray():
            return bytes(value)
        case _:
            return value


def same(left: Any, right: Any) -> bool:
    """Compare values and types; doubles may differ in the last digit."""
    if isinstance(left, list) and isinstance(right, list):
        return len(left) == len(right) and all(map(same, left, right))
    if isinstance(left, float) and isinstance(right, float):
        return (math.isnan(left) and math.isnan(right)) or left == pytest.approx(right, rel=1e-15, abs=0)
    return bool(left == right) and repr(left) == repr(right)
