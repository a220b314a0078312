"""Decodes records of topics into rows of relations, and encodes rows as records, for all queries of a group at once.

The envelope of a record is never converted to Python values; its columns are copied in Arrow.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from kestrel_sql.dataflow.graph import SinkWrite, SourceRead
from kestrel_sql.spark.envelope import ENTRY, ENVELOPE_FIELDS, HEADERS, LOG, LOG_ONLY, struct_column, struct_field
from kestrel_sql.spark.io.arrow_passes import Batches, Pass
from kestrel_sql.spark.io.columns import rows_at
from kestrel_sql.spark.io.ingestion_reader import IngestionReader
from kestrel_sql.spark.io.sink_writer import SinkWriter
from kestrel_sql.spark.io.source_reader import Read, SourceReader

Positions = npt.NDArray[np.int64]
AnyReader = SourceReader | IngestionReader

WIRE_INPUT = (
    "q INT, feed BIGINT, topic STRING, part INT, off BIGINT, ts BIGINT, key BINARY, value BINARY,"
    " headers ARRAY<STRUCT<key: STRING, value: BINARY>>"
)
"""The input of decoding.

The number of the query, the number of the record in the input of the query, and Kafka's columns.

Missing headers should be an empty array: Spark's conversion to Arrow is quadratic in the number of consecutive NULL
arrays.
"""

ARROW_INPUT = pa.schema(
    [
        ("q", pa.int32()),
        ("feed", pa.int64()),
        ("topic", pa.string()),
        ("part", pa.int32()),
        ("off", pa.int64()),
        ("ts", pa.int64()),
        ("key", pa.binary()),
        ("value", pa.binary()),
        ("headers", HEADERS),
    ]
)
"""`WIRE_INPUT` as an Arrow schema."""

LOGGED_COLUMNS = (
    "kind INT, logger STRING, message STRING, cause ARRAY<STRING>, record STRING,"
    " src_topic STRING, src_part INT, src_off BIGINT"
)
"""The columns of a log entry in `WIRE_OUTPUT`."""

WIRE_OUTPUT = (
    "q INT, ordinal ARRAY<BIGINT>, topic STRING, timestamp BIGINT, key BINARY, value BINARY,"
    f" headers ARRAY<STRUCT<key: STRING, value: BINARY>>, {LOGGED_COLUMNS}"
)
"""The output of encoding: a record (`kind` is NULL) or a log entry, and the source record that caused it."""

LOGGED = pa.schema([*ENTRY, ("src_topic", pa.string()), ("src_part", pa.int32()), ("src_off", pa.int64())])
"""`LOGGED_COLUMNS` as an Arrow schema."""

ARROW_OUTPUT = pa.schema(
    [
        ("q", pa.int32()),
        ("ordinal", pa.list_(pa.int64())),
        ("topic", pa.string()),
        ("timestamp", pa.int64()),
        ("key", pa.binary()),
        ("value", pa.binary()),
        ("headers", HEADERS),
        *LOGGED,
    ]
)
"""`WIRE_OUTPUT` as an Arrow schema."""

_NO_POSITIONS: Positions = np.empty(0, dtype=np.int64)


def wire_input(rows: pa.RecordBatch, columns: Mapping[str, pa.Array]) -> pa.RecordBatch:
    """Return rows of `WIRE_INPUT`: the given columns, and the others from `rows`."""
    arrays = [columns[name] if name in columns else rows.column(name) for name in ARROW_INPUT.names]
    return pa.RecordBatch.from_arrays(arrays, ARROW_INPUT.names)


def decode_batches(sources: Sequence[SourceRead]) -> Pass:
    """Return the function for `mapInArrow` that decodes records into rows of the relations that read them."""
    schema = pa.schema([*ENVELOPE_FIELDS, *(struct_field(source.relation) for source in sources)])

    def decode(batches: Batches) -> Batches:
        readers: dict[tuple[int, str], list[AnyReader]] = defaultdict(list)
        for source in sources:
            readers[source.query, source.topic].append(_reader(source))
        for batch in batches:
            yield _decoded(batch, readers, schema)

    return decode


def _reader(source: SourceRead) -> AnyReader:
    return SourceReader(source) if source.ingestion is None else IngestionReader(source, source.ingestion)


def _decoded(
    batch: pa.RecordBatch, readers: Mapping[tuple[int, str], list[AnyReader]], schema: pa.Schema
) -> pa.RecordBatch:
    """The rows of each reader together, as operators and sinks sort by ordinal."""
    shares = [(reader, rows) for pair, rows in _by_topic(batch).items() for reader in readers.get(pair, ())]
    rows = np.concatenate([_NO_POSITIONS, *(rows for _, rows in shares)])
    taken = rows_at(batch, rows)
    made: list[tuple[AnyReader, Read, int]] = []
    start = 0
    for reader, share in shares:
        made.append((reader, reader.read(taken.slice(start, len(share))), start))
        start += len(share)
    columns = _envelope(taken, made)
    for reader, read, at in made:
        columns[struct_column(reader.source.relation.number)] = _padded(read.structs, at, len(rows))
    arrays = [
        columns[name] if name in columns else pa.nulls(len(rows), schema.field(name).type) for name in schema.names
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _by_topic(batch: pa.RecordBatch) -> dict[tuple[int, str], Positions]:
    """The indices of the records of each query and topic."""
    topics = batch.column("topic").dictionary_encode()
    names = topics.dictionary.to_pylist()
    codes = batch.column("q").to_numpy().astype(np.int64) * len(names) + topics.indices.to_numpy()
    order = np.argsort(codes, kind="stable")
    found = {}
    for own in np.split(order, np.flatnonzero(np.diff(codes[order])) + 1) if len(order) else ():
        query, topic = divmod(int(codes[own[0]]), len(names))
        found[query, names[topic]] = own
    return found


def _envelope(batch: pa.RecordBatch, made: Sequence[tuple[AnyReader, Read, int]]) -> dict[str, pa.Array]:
    count = len(batch)
    relations = np.full(count, LOG_ONLY, dtype=np.int32)
    numbers = np.zeros(count, dtype=np.int64)
    log: dict[int, dict[str, Any]] = {}
    for reader, read, start in made:
        own = slice(start, start + len(read.structs))
        relations[own], numbers[own] = reader.source.relation.number, reader.source.position
        relations[[start + local for local in read.dropped]] = LOG_ONLY
        log.update({start + local: entry for local, entry in read.log.items()})
    ordinals = np.column_stack([np.asarray(batch.column("feed")), numbers]).ravel()
    return {
        "rel": pa.array(relations),
        "q": batch.column("q"),
        "ordinal": pa.ListArray.from_arrays(
            pa.array(np.arange(0, 2 * count + 1, 2, dtype=np.int32)), pa.array(ordinals)
        ),
        "ts": batch.column("ts"),
        "headers": _without_nulls(batch.column("headers")),
        "ws": pa.concat_arrays([read.starts for _, read, _ in made]) if made else pa.nulls(0, pa.int64()),
        "we": pa.concat_arrays([read.ends for _, read, _ in made]) if made else pa.nulls(0, pa.int64()),
        "topic": batch.column("topic"),
        "part": batch.column("part"),
        "off": batch.column("off"),
        "task": batch.column("part"),
        "log": (
            pa.array([[log[at]] if at in log else [] for at in range(count)], type=LOG)
            if log
            else empty_lists(count, LOG)
        ),
    }


def _padded(structs: pa.StructArray, start: int, count: int) -> pa.Array:
    """Structs from an index on among `count` rows, NULL in the others."""
    if len(structs) == count:
        return structs
    after = count - start - len(structs)
    return pa.concat_arrays([pa.nulls(start, structs.type), structs, pa.nulls(after, structs.type)])


def empty_lists(count: int, kind: pa.ListType) -> pa.Array:
    """Return this number of empty lists."""
    return pa.ListArray.from_arrays(pa.array(np.zeros(count + 1, dtype=np.int32)), pa.array([], type=kind.value_type))


def _without_nulls(headers: pa.ListArray) -> pa.Array:
    if headers.null_count == 0:
        return headers
    if headers.null_count == len(headers):
        return empty_lists(len(headers), HEADERS)
    return pa.array([each or [] for each in headers.to_pylist()], type=HEADERS)


def encode_batches(sinks: Sequence[SinkWrite]) -> Pass:
    """Return the function for `mapInArrow` that encodes rows of sinks as records, and log entries as further rows."""

    def encode(batches: Batches) -> Batches:
        writers = {sink.relation.number: SinkWriter(sink) for sink in sinks}
        for batch in batches:
            yield _encoded(batch, writers)

    return encode


def _encoded(batch: pa.RecordBatch, writers: Mapping[int, SinkWriter]) -> pa.RecordBatch:
    """Records and log entries in the order of their rows, with the entries of a row before its record."""
    entries = _logged(batch)
    records, positions = _records(batch, writers, entries)
    if not entries:
        return records
    logged = _log_rows(batch, entries)
    # The sort is stable, so entries stay before the record of their row.
    order = np.argsort(np.concatenate([[at for at, _ in entries], positions]), kind="stable")
    table = pa.Table.from_batches([logged, records], schema=ARROW_OUTPUT).take(pa.array(order)).combine_chunks()
    return pa.RecordBatch.from_arrays([column.chunk(0) for column in table.columns], schema=ARROW_OUTPUT)


def _records(
    batch: pa.RecordBatch, writers: Mapping[int, SinkWriter], entries: list[tuple[int, Mapping[str, object]]]
) -> tuple[pa.RecordBatch, Positions]:
    """The records of a batch and the indices of their rows, ascending; rows that cannot be written add to `entries`."""
    relations = np.asarray(batch.column("rel"))
    written: list[tuple[Positions, pa.Array, pa.Array, str]] = []
    for relation in np.unique(relations).tolist():
        if relation in writers:
            (at,) = np.nonzero(relations == relation)
            written.append(_share(batch, at, writers[relation], entries))
    if not written:
        return pa.RecordBatch.from_pylist([], schema=ARROW_OUTPUT), _NO_POSITIONS
    positions = np.concatenate([at for at, _, _, _ in written])
    order = np.argsort(positions)
    positions = positions[order]
    names = ["q", "ordinal", "ts", "headers", "topic", "part", "off"]
    envelope = batch.select(names) if len(positions) == len(batch) else batch.select(names).take(pa.array(positions))
    known = {
        "q": envelope.column("q"),
        "ordinal": envelope.column("ordinal"),
        "timestamp": envelope.column("ts"),
        "headers": envelope.column("headers"),
        "topic": _ordered([pa.repeat(pa.scalar(topic, pa.string()), len(at)) for at, _, _, topic in written], order),
        "key": _ordered([keys for _, keys, _, _ in written], order),
        "value": _ordered([values for _, _, values, _ in written], order),
        "src_topic": envelope.column("topic"),
        "src_part": envelope.column("part"),
        "src_off": envelope.column("off"),
    }
    arrays = [known.get(field.name, pa.nulls(len(positions), field.type)) for field in ARROW_OUTPUT]
    return pa.RecordBatch.from_arrays(arrays, schema=ARROW_OUTPUT), positions


def _share(
    batch: pa.RecordBatch, at: Positions, writer: SinkWriter, entries: list[tuple[int, Mapping[str, object]]]
) -> tuple[Positions, pa.Array, pa.Array, str]:
    """The indices of the rows of a sink that could be encoded, their keys and values, and the topic."""
    whole = len(at) == len(batch)
    indices = pa.array(at)
    columns = [
        batch.column(name) if whole else batch.column(name).take(indices) for name in (writer.column, "ws", "we")
    ]
    written = writer.write(*columns)
    if not written.log:
        return at, written.keys, written.values, writer.sink.topic
    entries += [(int(at[local]), entry) for local, entry in sorted(written.log.items())]
    good = np.delete(np.arange(len(at)), list(written.log))
    return at[good], written.keys.take(pa.array(good)), written.values.take(pa.array(good)), writer.sink.topic


def _ordered(arrays: Sequence[pa.Array], order: Positions) -> pa.Array:
    """Combine arrays in another order."""
    if len(arrays) == 1:
        return arrays[0]
    return pa.concat_arrays(arrays).take(pa.array(order))


def _logged(batch: pa.RecordBatch) -> list[tuple[int, Mapping[str, object]]]:
    """The log entries of rows, each with the index of its row."""
    log = batch.column("log")
    if not pc.sum(pc.list_value_length(log)).as_py():
        return []
    return [(at, entry) for at, entries in enumerate(log.to_pylist()) for entry in entries or ()]


def _log_rows(batch: pa.RecordBatch, entries: Sequence[tuple[int, Mapping[str, object]]]) -> pa.RecordBatch:
    about = batch.select(["q", "ordinal", "topic", "part", "off"]).take(pa.array([at for at, _ in entries])).to_pylist()
    rows = [
        {
            "q": row["q"],
            "ordinal": row["ordinal"],
            **entry,
            "src_topic": row["topic"],
            "src_part": row["part"],
            "src_off": row["off"],
        }
        for row, (_, entry) in zip(about, entries, strict=True)
    ]
    return pa.RecordBatch.from_pylist(rows, schema=ARROW_OUTPUT)
