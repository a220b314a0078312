"""A stateful processor that imports nothing of the engine before the first rows arrive.

At every start of a query, Spark's driver runs the processor's `init` in a new Python process, only to learn the state
variables. Importing the engine with its formats and libraries there took longer than a small query runs.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from typing import Any

from pyspark import cloudpickle
from pyspark.sql import Row
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle
from pyspark.sql.types import BinaryType, StructField, StructType

PAGE_STATE = "page"
STATE_SCHEMA = StructType([StructField("blob", BinaryType())])
"""The name and schema of the only state variable: the blob of a page."""


class LateProcessor(StatefulProcessor):
    """Opens the state variable at once, and unpickles the processor that does the work when the first rows arrive.

    That processor has a method `open(state)` instead of `init`.
    """

    def __init__(self, processor: object) -> None:
        self._pickled: bytes = cloudpickle.dumps(processor)  # type: ignore[no-untyped-call]
        self._processor: Any = None

    def init(self, handle: StatefulProcessorHandle) -> None:
        """Open the state variable."""
        self._state = handle.getValueState(PAGE_STATE, STATE_SCHEMA)

    def handleInputRows(self, key: object, rows: Iterator[object], timerValues: object) -> Iterator[Row]:  # noqa: N802, N803 - Spark's names
        """Pass the rows of a page in one micro-batch to the processor."""
        if self._processor is None:
            self._processor = pickle.loads(self._pickled)
            self._processor.open(self._state)
        found: Iterator[Row] = self._processor.handleInputRows(key, rows, timerValues)
        return found

    def close(self) -> None:
        """Do nothing: no resources are open."""
