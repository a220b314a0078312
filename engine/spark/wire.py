"""Both ends of a pipeline: bytes of topics to rows of relations, and back, for all queries of a group at once."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from engine.errors import SerdeError
from engine.formats.base import causes
from engine.formats.table import decoder, encoder
from engine.formats.windowed import join, split
from engine.plan.step import WindowInfo
from engine.spark.group import SinkWrite, SourceRead
from engine.spark.stage import DEAD, struct_column
from engine.spark.types import arrow_struct
from engine.spark.values import row_converter, struct_converter, to_arrow_value

HEADERS = pa.list_(pa.struct([pa.field("key", pa.string()), pa.field("value", pa.binary())]))
LOG = pa.list_(pa.struct([pa.field("kind", pa.int32()), pa.field("logger", pa.string()), pa.field("message", pa.string())]))

DESERIALIZATION, PROCESSING, PRODUCTION, SERIALIZATION, FATAL = range(5)
"""Kinds of processing-log entries (`spec/errors.md` 8); the last one stops the query."""

WIRE_INPUT = (
    "q INT, feed BIGINT, topic STRING, part INT, off BIGINT, ts BIGINT, key BINARY, value BINARY,"
    " headers ARRAY<STRUCT<key: STRING, value: BINARY>>"
)
"""What decoding reads: the query a record is fed to, its feed order, and Kafka's columns."""

WIRE_OUTPUT = (
    "q INT, place ARRAY<BIGINT>, topic STRING, timestamp BIGINT, key BINARY, value BINARY,"
    " headers ARRAY<STRUCT<key: STRING, value: BINARY>>, kind INT, logger STRING, message STRING,"
    " src_topic STRING, src_part INT, src_off BIGINT"
)
"""What encoding writes: a record (kind NULL), or an entry of the processing log about a source record."""

_ENVELOPE = (
    ("rel", pa.int32()),
    ("q", pa.int32()),
    ("place", pa.list_(pa.int64())),
    ("ts", pa.int64()),
    ("headers", HEADERS),
    ("ws", pa.int64()),
    ("we", pa.int64()),
    ("topic", pa.string()),
    ("part", pa.int32()),
    ("off", pa.int64()),
    ("task", pa.int32()),
    ("log", LOG),
)

_OUT = (
    ("q", pa.int32()),
    ("place", pa.list_(pa.int64())),
    ("topic", pa.string()),
    ("timestamp", pa.int64()),
    ("key", pa.binary()),
    ("value", pa.binary()),
    ("headers", HEADERS),
    ("kind", pa.int32()),
    ("logger", pa.string()),
    ("message", pa.string()),
    ("src_topic", pa.string()),
    ("src_part", pa.int32()),
    ("src_off", pa.int64()),
)


@dataclass(slots=True)
class _Reader:
    source: SourceRead
    key: Callable[[bytes | None], Any]
    value: Callable[[bytes | None], Any]
    to_key: Callable[[Any], Any]
    to_value: Callable[[Any], Any]

    def read(self, row: Mapping[str, Any]) -> tuple[dict[str, Any] | None, tuple[int | None, int | None], list[dict[str, Any]]]:
        """The struct of one record and its window, or the log entries that say why there is none."""
        try:
            key_bytes, window = _window(self.source.window, row["key"])
            key = self.key(key_bytes)
        except SerdeError as error:
            return None, (None, None), [self._entry("key", error)]
        try:
            value = self.value(row["value"])
        except SerdeError as error:
            return None, (None, None), [self._entry("value", error)]
        struct = {"k": self.to_key(key), "v": None if value is None else self.to_value(self._whole(row, key, value, window))}
        return struct, window, []

    def _whole(self, row: Mapping[str, Any], key: Any, value: Any, window: tuple[int | None, int | None]) -> tuple[Any, ...]:
        """The value with everything that a source step adds (`spec/plan-format.md` 6.1)."""
        headers = row["headers"] or []
        pseudo = (row["ts"],) if self.source.pseudo_version == 0 else (row["ts"], row["part"], row["off"])
        copies = key if key is not None else (None,) * len(self.source.key.columns)
        bounds = window if self.source.window is not None else ()
        return (*value, *(_header(headers, c.header_key) for c in self.source.headers), *pseudo, *copies, *bounds)

    def _entry(self, side: str, error: SerdeError) -> dict[str, Any]:
        detail = "; ".join([str(error), *causes(error)])
        return {"kind": DESERIALIZATION, "logger": f"{self.source.logger}.deserializer", "message": f"{side}: {detail}"}


def _header(headers: Sequence[Mapping[str, Any]], name: str | None) -> Any:
    if name is None:
        return [{"KEY": header["key"], "VALUE": header["value"]} for header in headers]
    return next((header["value"] for header in reversed(headers) if header["key"] == name), None)


def _window(info: WindowInfo | None, key: bytes | None) -> tuple[bytes | None, tuple[int | None, int | None]]:
    if info is None or key is None:
        return key, (None, None)
    return split(key, info)


def decode_batches(sources: Sequence[SourceRead]) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Make the function for `mapInArrow` that turns records into rows of the relations that read them."""
    schema = pa.schema([*_ENVELOPE, *((struct_column(x.relation), _source_type(x)) for x in sources)])

    def decode(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        readers: dict[tuple[int, str], list[_Reader]] = defaultdict(list)
        for source in sources:
            readers[source.query, source.topic].append(_reader(source))
        for batch in batches:
            yield _decoded(batch, readers, schema)

    return decode


def _source_type(source: SourceRead) -> pa.DataType:
    key = [pa.field("k", arrow_struct(source.handle.schema.key))] if source.handle.schema.key else []
    return pa.struct([*key, pa.field("v", arrow_struct(source.handle.schema.value))])


def _reader(source: SourceRead) -> _Reader:
    schema = source.handle.schema
    return _Reader(
        source,
        decoder(source.key),
        decoder(source.value),
        row_converter(schema.key, to_arrow_value),
        row_converter(schema.value, to_arrow_value),
    )


def _decoded(batch: pa.RecordBatch, readers: Mapping[tuple[int, str], list[_Reader]], schema: pa.Schema) -> pa.RecordBatch:
    columns: dict[str, list[Any]] = {name: [] for name in schema.names}
    count = 0
    for row in batch.to_pylist():
        for position, reader in enumerate(readers.get((row["q"], row["topic"]), ())):
            struct, (start, end), log = reader.read(row)
            if struct is not None and not reader.source.key.columns:
                del struct["k"]
            for name, value in (
                ("rel", DEAD if log else reader.source.relation),
                ("q", row["q"]),
                ("place", [row["feed"], position]),
                ("ts", row["ts"]),
                ("headers", row["headers"] or []),
                ("ws", start),
                ("we", end),
                ("topic", row["topic"]),
                ("part", row["part"]),
                ("off", row["off"]),
                ("task", row["part"]),
                ("log", log),
            ):
                columns[name].append(value)
            if not log:
                _fill(columns[struct_column(reader.source.relation)], count, struct)
            count += 1
    arrays = [pa.array(_padded(columns[name], count), type=schema.field(name).type) for name in schema.names]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _fill(column: list[Any], at: int, value: Any) -> None:
    column.extend([None] * (at - len(column)))
    column.append(value)


def _padded(column: list[Any], count: int) -> list[Any]:
    return column + [None] * (count - len(column))


@dataclass(slots=True)
class _Writer:
    sink: SinkWrite
    column: str
    key: Callable[[Any], bytes | None]
    value: Callable[[Any], bytes | None]
    from_key: Callable[[Any], Any]
    from_value: Callable[[Any], Any]

    def write(self, struct: Mapping[str, Any], window: tuple[int, int]) -> tuple[bytes | None, bytes | None]:
        """The bytes of a row's key and value."""
        key = struct.get("k")
        data = self.key(None if key is None else self.from_key(key))
        if self.sink.window is not None and data is not None:
            data = join(data, window, self.sink.window)
        value = struct["v"]
        return data, self.value(None if value is None else self.from_value(value))


def encode_batches(sinks: Sequence[SinkWrite]) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Make the function for `mapInArrow` that turns the rows of sinks into records, and log entries into rows."""

    def encode(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        writers = {sink.handle.relation: _writer(sink) for sink in sinks}
        for batch in batches:
            yield _encoded(batch, writers)

    return encode


def _writer(sink: SinkWrite) -> _Writer:
    schema = sink.handle.schema
    return _Writer(
        sink,
        struct_column(sink.handle.relation),
        encoder(sink.key),
        encoder(sink.value),
        struct_converter(schema.key),
        struct_converter(schema.value),
    )


def _encoded(batch: pa.RecordBatch, writers: Mapping[int, _Writer]) -> pa.RecordBatch:
    rows: list[dict[str, Any]] = []
    envelopes = batch.select([name for name, _ in _ENVELOPE]).to_pylist()
    structs = {relation: batch.column(batch.schema.get_field_index(writer.column)) for relation, writer in writers.items()}
    for at, row in enumerate(envelopes):
        rows += [_log_row(row, entry) for entry in row["log"] or ()]
        writer = writers.get(row["rel"])
        if writer is not None:
            rows.append(_record(row, writer, structs[row["rel"]][at].as_py()))
    schema = pa.schema(_OUT)
    return pa.RecordBatch.from_pylist(rows, schema=schema)


def _record(row: Mapping[str, Any], writer: _Writer, struct: Mapping[str, Any]) -> dict[str, Any]:
    try:
        key, value = writer.write(struct, (row["ws"], row["we"]))
    except SerdeError as error:
        kind = PROCESSING if writer.sink.guarded else FATAL
        message = "; ".join([str(error), *causes(error)])
        return _log_row(row, {"kind": kind, "logger": f"{writer.sink.logger}.serializer", "message": message})
    return {
        "q": row["q"],
        "place": row["place"],
        "topic": writer.sink.topic,
        "timestamp": row["ts"],
        "key": key,
        "value": value,
        "headers": row["headers"],
    }


def _log_row(row: Mapping[str, Any], entry: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "q": row["q"],
        "place": row["place"],
        **entry,
        "src_topic": row["topic"],
        "src_part": row["part"],
        "src_off": row["off"],
    }
