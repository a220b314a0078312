"""Reads state from a Spark checkpoint through Spark's state data source."""

from __future__ import annotations

from pathlib import Path

import msgspec
from pyspark.sql import DataFrame, SparkSession

from kestrel_sql.operators.operator import State
from kestrel_sql.operators.state_codec import load_state
from kestrel_sql.spark.state.checkpoint_path import CheckpointPath
from kestrel_sql.spark.state.level import PLAN

_VARIABLE = "page"
"""The only state variable of the host (`kestrel_sql.spark.state.transform_with_state`)."""


class CheckpointReader(msgspec.Struct):
    """Reads the state of one query as of the last committed batch, and keeps it until there is a later one.

    `path` is the folder of the checkpoint; `levels` is the number of its levels.
    """

    spark: SparkSession
    path: str
    levels: int
    _version: int = 0
    _states: dict[int, list[State]] = {}

    def states(self, level: int) -> list[State]:
        """Return the state of the operators of each page of a level that has one, by relation."""
        checkpoint = Path(self.path)
        version = committed(checkpoint)
        if version != self._version:
            self._version, self._states = version, {}
        if version and level not in self._states:
            pages = stored_pages(self.spark, checkpoint, levels=self.levels, level=level).select("blob").toArrow()
            self._states[level] = [_state(blob) for blob in pages.column(0).to_pylist()]
        return self._states.get(level, [])


def committed(checkpoint: CheckpointPath) -> int:
    """Return the number of committed batches."""
    commits = checkpoint / "commits"
    names = [file.name for file in commits.iterdir()] if commits.is_dir() else []
    return 1 + max((int(name) for name in names if name.isdigit()), default=-1)


def stored_pages(spark: SparkSession, checkpoint: CheckpointPath, *, levels: int, level: int) -> DataFrame:
    """Return all pages of a level as of the last committed batch, as rows `task INT, page INT, blob BINARY`."""
    reader = (
        spark.read.format("statestore").option("path", str(checkpoint)).option("batchId", committed(checkpoint) - 1)
    )
    reader = reader.option("operatorId", _operator(levels, level)).option("stateVarName", _VARIABLE)
    return reader.load().select("key.task", "key.page", "value.blob")


def _operator(levels: int, level: int) -> int:
    """The number of a level's operator in Spark, which counts from the end of the query."""
    return levels - level


def _state(blob: bytes) -> State:
    """Decode the state of the operators of a page, without the fingerprint of their plan."""
    state = load_state(blob)
    state.pop(PLAN, None)
    return state
