"""The form of rows between two levels in Spark: an envelope, and a struct column for each relation.

The column `rel` of a row names its relation. The struct column of a relation is NULL in the rows of other relations. It
has the fields `k` (the key columns, also where there are none) and `v` (the value columns), and some of `o` (the
previous value), `ok` (the previous key of a grouped table) and `x` (columns that an operator needs).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

import pyarrow as pa

from kestrel_sql.arrow.types import arrow_struct
from kestrel_sql.dataflow.relation import Relation
from kestrel_sql.spark.types import name, struct_of
from kestrel_sql.types.schema import Column

LOG_ONLY = -1
"""The relation of a dropped row that only carries entries of the processing log."""

HEADERS = pa.list_(pa.struct([pa.field("key", pa.string()), pa.field("value", pa.binary())]))
ENTRY = (
    pa.field("kind", pa.int32()),
    pa.field("logger", pa.string()),
    pa.field("message", pa.string()),
    pa.field("cause", pa.list_(pa.string())),
    pa.field("record", pa.string()),
)
LOG = pa.list_(pa.struct(ENTRY))

ENVELOPE_FIELDS = (
    pa.field("rel", pa.int32()),
    pa.field("q", pa.int32()),
    pa.field("ordinal", pa.list_(pa.int64())),
    pa.field("ts", pa.int64()),
    pa.field("headers", HEADERS),
    pa.field("ws", pa.int64()),
    pa.field("we", pa.int64()),
    pa.field("topic", pa.string()),
    pa.field("part", pa.int32()),
    pa.field("off", pa.int64()),
    pa.field("task", pa.int32()),
    pa.field("log", LOG),
)
"""The columns of every row besides the struct of its relation.

They are: relation and query number; the ordinal (the number of the input record, then positions among the rows that
came from it); timestamp (ms); headers; window bounds (ms); topic, partition and offset of the source record; the task
(the partition of the key, as in Kafka Streams); and entries of the processing log that are not written yet.
"""


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
