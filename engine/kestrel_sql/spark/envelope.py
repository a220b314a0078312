"""The form of rows between two levels in Spark: an envelope, and a struct column for each relation.

The column `rel` of a row names its relation. The struct column of a relation is NULL in the rows of other relations. It
has the fields `k` (the key columns, also where there are none) and `v` (the value columns), and some of `o` (the
previous value), `ok` (the previous key of a grouped table) and `x` (columns that an operator needs).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

import pyarrow as pa

from kestrel_sql.dataflow.relation import Relation
from kestrel_sql.spark.types import arrow_struct, name, struct_of
from kestrel_sql.types.schema import Column

LOG_ONLY = -1
"""The relation of a dropped row that only carries entries of the processing log."""

LOG_TYPE = "ARRAY<STRUCT<kind: INT, logger: STRING, message: STRING, cause: ARRAY<STRING>, record: STRING>>"

ENVELOPE: Mapping[str, str] = {
    "rel": "INT",
    "q": "INT",
    "ordinal": "ARRAY<BIGINT>",
    "ts": "BIGINT",
    "headers": "ARRAY<STRUCT<key: STRING, value: BINARY>>",
    "ws": "BIGINT",
    "we": "BIGINT",
    "topic": "STRING",
    "part": "INT",
    "off": "BIGINT",
    "task": "INT",
    "log": LOG_TYPE,
}
"""The columns of every row besides the struct of its relation, with their Spark types.

They are: relation and query number; the ordinal (the number of the input record, then positions among the rows that
came from it); timestamp (ms); headers; window bounds (ms); topic, partition and offset of the source record; the task
(the partition of the key, as in Kafka Streams); and entries of the processing log that are not written yet.
"""

HEADERS = pa.list_(pa.struct([pa.field("key", pa.string()), pa.field("value", pa.binary())]))
ENTRY = (
    pa.field("kind", pa.int32()),
    pa.field("logger", pa.string()),
    pa.field("message", pa.string()),
    pa.field("cause", pa.list_(pa.string())),
    pa.field("record", pa.string()),
)
LOG = pa.list_(pa.struct(ENTRY))

_TYPES = {
    "INT": pa.int32(),
    "BIGINT": pa.int64(),
    "STRING": pa.string(),
    "BINARY": pa.binary(),
    "ARRAY<BIGINT>": pa.list_(pa.int64()),
    ENVELOPE["headers"]: HEADERS,
    ENVELOPE["log"]: LOG,
}

ENVELOPE_FIELDS = tuple(pa.field(name, _TYPES[kind]) for name, kind in ENVELOPE.items())
"""The envelope as Arrow fields."""


def struct_column(relation: int) -> str:
    """The name of a relation's struct column, by the number of the relation."""
    return f"r{relation}"


def parts_of(relation: Relation) -> Mapping[str, tuple[Column, ...]]:
    """The fields of a relation's struct, with their columns."""
    schema = relation.schema
    parts = {"k": schema.key, "v": schema.value}
    if relation.has_old:
        parts["o"] = schema.value
    if relation.has_old_key:
        parts["ok"] = schema.key
    if relation.extra:
        parts["x"] = relation.extra
    return parts


def struct_text(relation: Relation, wanted: Collection[str] | None = None) -> str:
    """The Spark type of the struct column, restricted to the `wanted` fields if they are given."""
    fields = (
        f"{name(part)}:{struct_of(columns)}"
        for part, columns in parts_of(relation).items()
        if wanted is None or part in wanted
    )
    return f"STRUCT<{','.join(fields)}>"


def struct_field(relation: Relation) -> pa.Field:
    """The struct column as an Arrow field."""
    fields = [pa.field(part, arrow_struct(columns)) for part, columns in parts_of(relation).items()]
    return pa.field(struct_column(relation.number), pa.struct(fields))


def rows_of(relations: Iterable[Relation]) -> pa.Schema:
    """The schema of rows of these relations."""
    return pa.schema([*ENVELOPE_FIELDS, *map(struct_field, relations)])


def row_columns(relations: Iterable[Relation]) -> Mapping[str, str]:
    """The columns of a frame with rows of these relations, with their Spark types."""
    return {**ENVELOPE, **{struct_column(each.number): struct_text(each) for each in relations}}
