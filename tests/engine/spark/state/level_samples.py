"""A small stateful level for tests: it reads relation 1, produces relation 2, and passes relation 9."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import pyarrow as pa

from kestrel_sql.dataflow.relation import KeyCodec
from kestrel_sql.operators.operator import Operator, Output, Scope, State
from kestrel_sql.operators.operator import Row as OperatorRow
from kestrel_sql.plan.step import FormatInfo
from kestrel_sql.spark.io.topics import ENVELOPE_FIELDS
from kestrel_sql.spark.stages.group import Stateful
from kestrel_sql.spark.stages.handles import Handle
from kestrel_sql.spark.state.level import Level
from kestrel_sql.spark.types import arrow_struct
from kestrel_sql.types import sql_types as t
from kestrel_sql.types.schema import Column, Role, Schema

SCHEMA = Schema((Column("K", t.STRING, Role.KEY), Column("A", t.INTEGER)))


def handle(relation: int, level: int, **more: Any) -> Handle:
    return Handle(relation=relation, level=level, schema=SCHEMA, key_codec=KeyCodec(format=FormatInfo("KAFKA")), **more)


@dataclass
class Summing:
    """Sums A by key; fails for a negative number."""

    scope: ClassVar[Scope] = Scope.KEY

    def key_bytes(self, key: tuple[Any, ...]) -> bytes:
        return str(key[0]).encode()

    def process(self, row: OperatorRow, state: State) -> list[Output]:
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


def batch(rows: list[dict[str, Any]], *handles: Handle, pages: tuple[str, ...] = ()) -> pa.RecordBatch:
    """Rows in the form of a stage's result."""
    fields = list(ENVELOPE_FIELDS)
    for each in handles or (handle(1, 0), handle(9, 0)):
        parts = {"k": SCHEMA.key, "ok": SCHEMA.key, "v": SCHEMA.value, "o": SCHEMA.value}
        fields.append(
            pa.field(f"r{each.relation}", pa.struct([pa.field(f, arrow_struct(parts[f])) for f, _ in each.fields()]))
        )
    fields += [pa.field(name, pa.int32()) for name in pages]
    return pa.RecordBatch.from_pylist(rows, schema=pa.schema(fields))
