"""A small stateful level for tests: it reads relation 1, produces relation 2, and passes relation 9."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import pyarrow as pa

from kestrel_sql.dataflow.graph import Stateful
from kestrel_sql.dataflow.relation import KeyCodec, Relation
from kestrel_sql.operators.operator import Operator, Scope, State
from kestrel_sql.plan.step import FormatInfo
from kestrel_sql.spark.envelope import rows_of
from kestrel_sql.spark.state.level import Level
from kestrel_sql.types import sql_types as t
from kestrel_sql.types.schema import Column, Role, Schema
from tests.engine.operators.row_forms.row_operator import Output, RowOperator
from tests.engine.operators.row_forms.row_operator import Row as OperatorRow

SCHEMA = Schema((Column("K", t.STRING, Role.KEY), Column("A", t.INTEGER)))


def handle(number: int, level: int, **more: Any) -> Relation:
    return Relation(number=number, level=level, schema=SCHEMA, key_codec=KeyCodec(format=FormatInfo("KAFKA")), **more)


@dataclass
class Summing(RowOperator):
    """Sums A by key; fails for a negative number."""

    scope: ClassVar[Scope] = Scope.KEY

    def key_bytes(self, key: tuple[Any, ...]) -> bytes:
        return str(key[0]).encode()

    def process_row(self, row: OperatorRow, state: State) -> list[Output]:
        if row.value is None or row.key is None:
            return []
        if row.value[0] < 0:
            raise ValueError("negative")
        state[row.key[0]] = state.get(row.key[0], 0) + row.value[0]
        return [Output(row.key, (state[row.key[0]],), row.timestamp)]


def level(operator: Operator | None = None, **given: Any) -> Level:
    source, result = handle(1, 0, **given), handle(2, 1)
    stateful = Stateful(
        query=0, operator=operator or Summing(), inputs=(source,), output=result, logger="processing.Q.Sum"
    )
    return Level((stateful,), (result, handle(9, 0)))


def row(ordinal: int, relation: int = 1, **more: Any) -> dict[str, Any]:
    """A row for the level, whose value is its ordinal by default."""
    struct = {"k": {"K": "x"}, "v": {"A": ordinal}}
    given = {
        "rel": relation,
        "q": 0,
        "ordinal": [ordinal],
        "ts": ordinal,
        "headers": [],
        "log": [],
        "task": 0,
        f"r{relation}": struct,
    }
    return {**given, **more}


def batch(rows: list[dict[str, Any]], *handles: Relation, pages: tuple[str, ...] = ()) -> pa.RecordBatch:
    """Rows in the form of a stage's result."""
    fields = list(rows_of(handles or (handle(1, 0), handle(9, 0))))
    fields += [pa.field(name, pa.int32()) for name in pages]
    return pa.RecordBatch.from_pylist(rows, schema=pa.schema(fields))
