"""What Spark returns, as the interpreter returns it."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

from pyspark.sql import Row

from kestrel_sql.spark.types import CARRIER, DIGITS


def plain(value: Any) -> Any:
    """Convert a value of Spark to what the interpreter returns."""
    match value:
        case Row() if set(value.asDict()) == {CARRIER, DIGITS}:
            return Decimal(value[DIGITS])
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
