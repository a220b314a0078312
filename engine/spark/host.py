"""The one module that knows Spark's stateful API: runs the operators of a level, keeps their state in Spark's checkpointed store.

Rows are grouped by (task, page of keys); the states of all operators of a page are one blob. Within a micro-batch a page's rows are
handled in place order, so that the cut of the input into batches does not matter.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pyspark.sql import DataFrame, Row
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle
from pyspark.sql.types import BinaryType, StructField, StructType

from engine.spark.group import Stateful
from engine.spark.handles import Handle
from engine.spark.stage import DEAD, ENVELOPE, struct_column
from engine.spark.types import name
from engine.spark.values import struct_converter
from engine.state import operator as state_operator
from engine.state.codec import dump_state, load_state

FATAL = 4

_STATE = StructType([StructField("blob", BinaryType())])


@dataclass(frozen=True, slots=True)
class _Input:
    operator: int
    side: int
    column: str
    key: Callable[[Any], Any]
    value: Callable[[Any], Any]
    extra: Callable[[Any], Any]
    fields: frozenset[str]
    single_key: bool


class Host(StatefulProcessor):
    """Runs the operators of one level over the rows of one page."""

    def __init__(self, level: Sequence[Stateful], columns: Sequence[str]) -> None:
        self._level = list(level)
        self._columns = list(columns)

    def init(self, handle: StatefulProcessorHandle) -> None:
        """Open the page's state and prepare the conversion of rows."""
        self._state = handle.getValueState("page", _STATE)
        self._inputs: dict[int, _Input] = {}
        for at, stateful in enumerate(self._level):
            for side, given in enumerate(stateful.inputs):
                self._inputs[given.relation] = _input(at, side, given)

    def handleInputRows(self, key: Any, rows: Iterator[Any], timerValues: Any) -> Iterator[Any]:  # noqa: N802, N803 - Spark's names
        """Handle a page's rows of one micro-batch in place order."""
        stored = self._state.get()
        state: dict[str, Any] = {} if stored is None else load_state(bytes(stored[0]))
        for row in sorted(rows, key=lambda r: r["place"]):
            yield from self._one(row, state)
        self._state.update((dump_state(state),))

    def close(self) -> None:
        """Nothing is held."""

    def _one(self, row: Row, state: dict[str, Any]) -> Iterator[Row]:
        given = self._inputs.get(row["rel"])
        if given is None:
            yield self._passed(row)
            return
        if row["log"]:
            yield self._made(row, DEAD, list(row["place"]), log=row["log"])
        stateful = self._level[given.operator]
        own = state.setdefault(str(stateful.output.relation), {})
        if own.get("failed"):
            return
        try:
            outputs = list(stateful.operator.process(_operator_row(row, given), own))
        except Exception as error:  # noqa: BLE001 - whatever an aggregate throws ends this query and no other
            own["failed"] = True
            message = f"Exception caught in process. {str(error) or type(error).__name__}"
            entry = {"kind": FATAL, "logger": stateful.logger, "message": message}
            yield self._made(row, DEAD, list(row["place"]), log=[entry])
            return
        for position, output in enumerate(outputs):
            struct = _struct(output, stateful.output)
            place = [*row["place"], position]
            yield self._made(row, stateful.output.relation, place, output=output, struct=struct)

    def _passed(self, row: Row) -> Row:
        present = row.asDict(recursive=False)
        return Row(**{column: present.get(column) for column in self._columns})

    def _made(
        self,
        row: Row,
        relation: int,
        place: list[int],
        *,
        output: state_operator.Output | None = None,
        struct: Mapping[str, Any] | None = None,
        log: Sequence[Any] = (),
    ) -> Row:
        window = output.window if output else None
        made: dict[str, Any] = {
            "rel": relation,
            "q": row["q"],
            "place": place,
            "ts": output.timestamp if output else row["ts"],
            "headers": row["headers"],
            "ws": window[0] if window else None,
            "we": window[1] if window else None,
            "topic": row["topic"],
            "part": row["part"],
            "off": row["off"],
            "log": list(log),
        }
        own = struct_column(relation) if struct is not None else None
        return Row(**{column: made.get(column, struct if column == own else None) for column in self._columns})


def _input(operator: int, side: int, handle: Handle) -> _Input:
    return _Input(
        operator,
        side,
        struct_column(handle.relation),
        struct_converter(handle.schema.key),
        struct_converter(handle.schema.value),
        struct_converter(handle.extra),
        frozenset(field for field, _ in handle.fields()),
        len(handle.schema.key) == 1,
    )


def _operator_row(row: Row, given: _Input) -> state_operator.Row:
    struct = row[given.column]
    fields = given.fields
    extra = given.extra(struct["x"]) if "x" in fields else None
    return state_operator.Row(
        side=given.side,
        key=_key(struct["k"], given) if "k" in fields else None,
        value=given.value(struct["v"]),
        timestamp=row["ts"],
        old=given.value(struct["o"]) if "o" in fields else None,
        old_key=_key(struct["ok"], given) if "ok" in fields else None,
        window=None if row["ws"] is None else (row["ws"], row["we"]),
        extra=None if extra is None or None in extra else extra,
    )


def _key(struct: Any, given: _Input) -> Any:
    """The key as a tuple; a single column that is NULL is a NULL key."""
    key = given.key(struct)
    return None if key is None or (given.single_key and key[0] is None) else key


def _struct(output: state_operator.Output, handle: Handle) -> dict[str, Any]:
    struct: dict[str, Any] = {"v": output.value}
    if handle.schema.key:
        struct["k"] = output.key
    if handle.has_old:
        struct["o"] = output.old
    return {field: struct.get(field) for field, _ in handle.fields()}


def apply_level(rows: DataFrame, level: Sequence[Stateful], alive: Sequence[Handle]) -> DataFrame:
    """Put a level of operators over `rows`, which have the columns `task` and `page` besides the envelope.

    `alive` are the relations that exist behind the level: its outputs and those that pass through.
    """
    columns = [*ENVELOPE, *(struct_column(handle.relation) for handle in alive)]
    schema = ", ".join(
        [f"{name(column)} {spark_type}" for column, spark_type in ENVELOPE.items()]
        + [f"{name(struct_column(handle.relation))} {handle.struct_type()}" for handle in alive]
    )
    processor = Host(level, columns)
    return rows.groupBy("task", "page").transformWithState(
        statefulProcessor=processor, outputStructType=schema, outputMode="Update", timeMode="None"
    )
