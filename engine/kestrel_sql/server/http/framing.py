"""How the rows of a query are framed: four formats, by the Accept header (rest-api.md, 9.2); one is protobuf."""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping, Sequence
from enum import Enum

import msgspec
from msgspec.structs import replace

from kestrel_sql.formats.protobuf import generate
from kestrel_sql.formats.serde import SerdeSpec
from kestrel_sql.formats.table import encoder
from kestrel_sql.plan.step import FormatInfo
from kestrel_sql.queries.pull import schema_text
from kestrel_sql.queries.transient import QueryKind, Row
from kestrel_sql.server.errors import ApiError
from kestrel_sql.server.json_values import row_writer, write_json
from kestrel_sql.server.service import RowStream
from kestrel_sql.types.schema import Column, Role

JSON = "application/json"
KSQL_JSON = "application/vnd.ksql.v1+json"
DELIMITED = "application/vnd.ksqlapi.delimited.v1"
PROTOBUF = "application/vnd.ksql.v1+protobuf"


class Framing(Enum):
    """The formats; the value is the Content-Type of the answer."""

    DELIMITED = DELIMITED
    JSON = JSON
    OBJECTS = KSQL_JSON
    PROTOBUF = PROTOBUF


QUERY_STREAM: Mapping[str, Framing] = {
    DELIMITED: Framing.DELIMITED,
    KSQL_JSON: Framing.OBJECTS,
    JSON: Framing.JSON,
    PROTOBUF: Framing.PROTOBUF,
}
"""What `/query-stream` can answer, the first for any."""

QUERY: Mapping[str, Framing] = {**QUERY_STREAM, JSON: Framing.OBJECTS}
"""What `/query` can answer."""


def negotiate(accept: str | None, offered: Mapping[str, Framing]) -> Framing | None:
    """The framing of the highest weight that an Accept header allows, None if it allows none."""
    best: tuple[float, Framing] | None = None
    for item in (accept or "").split(","):
        media, *parameters = (part.strip() for part in item.lower().split(";"))
        weight = next((_weight(each[2:]) for each in parameters if each.startswith("q=")), 1.0)
        found = next(iter(offered.values())) if media in ("*/*", "application/*") else offered.get(media)
        if found is not None and weight > 0 and (best is None or weight > best[0]):
            best = weight, found
    return None if best is None else best[1]


def _weight(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return 0.0


class Frame(msgspec.Struct):
    """Writes the answer of one query."""

    start: bytes
    row: Callable[[Row], bytes]
    end: Callable[[str | None], bytes]
    error: Callable[[ApiError], bytes]
    shows_tombstones: bool = False

    def rows(self, batch: Sequence[Row]) -> bytes:
        """Write a batch."""
        shown = batch if self.shows_tombstones else (row for row in batch if not row.tombstone)
        return b"".join(map(self.row, shown))


def frame_of(framing: Framing, stream: RowStream, last: bytes) -> Frame:
    """The frame of a query's answer; `last` ends an array of objects, unless that of a pull from a table."""
    match framing:
        case Framing.DELIMITED:
            return _delimited(stream)
        case Framing.JSON:
            return _array(stream)
        case Framing.OBJECTS:
            return _objects(stream, last, {}, _columns_of(stream))
        case Framing.PROTOBUF:
            schema = {"protoSchema": protobuf_schema(stream.columns)}
            return _objects(stream, last, schema, _protobuf_of(stream))


def _metadata(stream: RowStream) -> dict[str, object]:
    return {
        "queryId": stream.query_id,
        "columnNames": [column.name for column in stream.columns],
        "columnTypes": [str(column.type) for column in stream.columns],
    }


def _delimited(stream: RowStream) -> Frame:
    write = row_writer(stream.columns)
    return Frame(
        start=write_json(_metadata(stream)) + b"\n",
        row=lambda row: write_json(write(row.values)) + b"\n",
        end=lambda final: b"",
        error=lambda error: write_json(error.body) + b"\n",
    )


def _array(stream: RowStream) -> Frame:
    write = row_writer(stream.columns)
    return Frame(
        start=b"[" + write_json(_metadata(stream)),
        row=lambda row: b"," + write_json(write(row.values)),
        end=lambda final: b"]",
        error=lambda error: b"," + write_json(error.body),
    )


def _objects(
    stream: RowStream, last: bytes, extra: Mapping[str, object], content: Callable[[Row], dict[str, object]]
) -> Frame:
    """The array of objects: a pull from a table has its commas before the elements, everything else behind them."""
    header = b"[" + write_json({"header": {"queryId": stream.query_id, "schema": schema_text(stream.columns), **extra}})
    if stream.kind is QueryKind.PULL_TABLE:
        return Frame(
            start=header,
            row=lambda row: b",\n" + write_json({"row": content(row)}),
            end=lambda final: b"]",
            error=lambda error: b",\n" + write_json({"errorMessage": error.body}),
        )
    return Frame(
        start=header + b",\n",
        row=lambda row: write_json({"row": content(row)}) + b",\n",
        end=lambda final: last if final is None else write_json({"finalMessage": final}) + last,
        error=lambda error: write_json({"errorMessage": error.body}) + b",\n",
        shows_tombstones=True,
    )


def _columns_of(stream: RowStream) -> Callable[[Row], dict[str, object]]:
    write = row_writer(stream.columns)

    def content(row: Row) -> dict[str, object]:
        columns: dict[str, object] = {"columns": write(row.values)}
        return {**columns, "tombstone": True} if row.tombstone else columns

    return content


def _protobuf_of(stream: RowStream) -> Callable[[Row], dict[str, object]]:
    write = protobuf_writer(stream.columns)

    def content(row: Row) -> dict[str, object]:
        written: dict[str, object] = {"protobufBytes": write(row.values)}
        return {**written, "tombstone": True} if row.tombstone else written

    return content


def protobuf_schema(columns: Sequence[Column]) -> str:
    """The proto3 text of rows.

    Raises:
        FormatError: a column of a type that protobuf does not have.
    """
    return generate.schema_text(_values(columns), None, None)


def protobuf_writer(columns: Sequence[Column]) -> Callable[[tuple[object, ...]], str]:
    """A function that writes a row."""
    encode = encoder(SerdeSpec(FormatInfo("PROTOBUF_NOSR"), _values(columns)))
    return lambda values: base64.b64encode(encode(values) or b"").decode("ascii")


def _values(columns: Sequence[Column]) -> tuple[Column, ...]:
    return tuple(replace(column, role=Role.VALUE) for column in columns)
