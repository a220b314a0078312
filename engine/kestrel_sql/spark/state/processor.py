"""A stateful processor as Spark's driver needs it: it imports nothing of the engine before the first rows come.

At every start of a query Spark runs the processor's `init` in a fresh Python of the driver's, only to learn which states there are. With
the engine, its formats and their libraries in tow that Python took longer to start than a small query takes to run.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from typing import Any

from pyspark import cloudpickle
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle
from pyspark.sql.types import BinaryType, StructField, StructType

PAGE_STATE = "page"
STATE_SCHEMA = StructType([StructField("blob", BinaryType())])
"""The one state of a page: its blob."""


class LateProcessor(StatefulProcessor):
    """Opens the state of a page at once, and unpacks the processor that does the work with the first rows.

    The processor within has a method `open(state)` in place of `init`.
    """

    def __init__(self, within: Any) -> None:
        self._pickled: bytes = cloudpickle.dumps(within)  # type: ignore[no-untyped-call]
        self._within: Any = None

    def init(self, handle: StatefulProcessorHandle) -> None:
        """Open the page's state."""
        self._state = handle.getValueState(PAGE_STATE, STATE_SCHEMA)

    def handleInputRows(self, key: Any, rows: Iterator[Any], timerValues: Any) -> Iterator[Any]:  # noqa: N802, N803 - Spark's names
        """Hand what a page got in one micro-batch to the processor within."""
        if self._within is None:
            self._within = pickle.loads(self._pickled)
            self._within.open(self._state)
        found: Iterator[Any] = self._within.handleInputRows(key, rows, timerValues)
        return found

    def close(self) -> None:
        """Nothing is held."""
