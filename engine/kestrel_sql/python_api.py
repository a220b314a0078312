"""Use the engine from Python: `connect()` opens an engine over topics in memory.

import kestrel_sql

with kestrel_sql.connect() as engine:
    engine.sql("CREATE STREAM S (ID STRING KEY, N INT) WITH (KAFKA_TOPIC='s', VALUE_FORMAT='JSON', PARTITIONS=1);")
    engine.sql("CREATE TABLE T AS SELECT ID, SUM(N) AS TOTAL FROM S GROUP BY ID;")
    engine.insert("S", {"ID": "a", "N": 2})
    engine.table("T").pull("a")        # [{'ID': 'a', 'TOTAL': 2}]
"""

from __future__ import annotations

import shutil
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from kestrel_sql.admin.answer import Answer
from kestrel_sql.catalog.catalog import Source
from kestrel_sql.errors import InputError, SerdeError, Span, StatementError, did_you_mean
from kestrel_sql.formats.registry.memory import MissingRegistry, SchemaRegistry
from kestrel_sql.functions.user_functions import functions_with
from kestrel_sql.planner.config import Config
from kestrel_sql.queries.bad_records import sentence_of
from kestrel_sql.queries.engine import MemoryEngine
from kestrel_sql.queries.execution import ProcessCarrier
from kestrel_sql.queries.spark_execution import SparkCarrier
from kestrel_sql.queries.topic_rules import TopicRule
from kestrel_sql.session.session import Session
from kestrel_sql.session.source_records import SourceRecords
from kestrel_sql.spark.python_values import Convert, arrow_type, from_python, to_column, to_python
from kestrel_sql.spark.runtime.callback import BatchCallback
from kestrel_sql.spark.runtime.session import SETTINGS, open_memory_session
from kestrel_sql.spark.runtime.start import SparkStart
from kestrel_sql.sql.format.statements import format_statement
from kestrel_sql.sql.nodes import expressions as e
from kestrel_sql.sql.nodes.statements import AliasedSource, Query, SelectAll
from kestrel_sql.sql.parse.parser import ParsedStatement
from kestrel_sql.topics.records import Record
from kestrel_sql.types.sql_types import TIMESTAMP, SqlType

Row = dict[str, Any]
"""A row by column name. DATE, TIME and TIMESTAMP are `date`, `time` and `datetime` in UTC; DECIMAL is `Decimal`."""

_NOWHERE = Span(1, 1, 1, 1)


class Result(msgspec.Struct, frozen=True):
    """The answer to a statement: `rows` of a query or of SHOW and DESCRIBE, or a `message`, also the lines of PRINT."""

    rows: list[Row]
    message: str = ""


class _Feed(msgspec.Struct):
    """The files that a streaming DataFrame over a source reads, and how many records of its topic are in them."""

    source: Source
    folder: Path
    schema: pa.Schema
    written: int = 0
    files: int = 0


class Engine(msgspec.Struct):
    """Statements, sources and queries over topics in memory; open one with `connect`, and close it.

    Queries process what was inserted when results are asked for, or at `flush`.
    """

    memory: MemoryEngine
    _spark: SparkStart
    _feeds: list[_Feed] = []
    _inserting: list[tuple[StreamingQuery, BatchCallback]] = []
    _folder: Path | None = None

    def __enter__(self) -> Self:
        """Return the engine."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close the engine."""
        self.close()

    def close(self) -> None:
        """Stop the queries and remove their files; the Spark session stays open."""
        self._release_inserts()
        self.memory.close()
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)
            self._folder = None

    @property
    def spark(self) -> SparkSession:
        """The Spark session of the engine; the one that reads `stream` unless `connect` got another."""
        return self._spark.session()

    def sql(self, text: str) -> Result:
        """Run the statements of a text and return the answer of the last one.

        Raises:
            EngineError: a statement is refused, or the query that it asks fails; earlier statements stay done.
        """
        answer = Answer()
        for parsed in self.memory.session.parse(text):
            answer = self.memory.execute(parsed)
        self._write_feeds()
        return _result(answer)

    def insert(self, source: str, row: Mapping[str, object], *, timestamp: int | None = None) -> None:
        """Insert a row into a stream or table.

        Args:
            source: the name of the stream or table; case does not matter unless it exists in both.
            row: values by column name; missing columns are NULL. A table's row whose value columns are all missing
                deletes the key.
            timestamp: in epoch milliseconds; the default is now.

        Raises:
            InputError: a name is no column, or a value does not fit its type.
            StatementError: there is no such source.
        """
        self.memory.produce(self._record(self._source(source), row, timestamp))

    def insert_frame(self, source: str, frame: DataFrame) -> StreamingQuery | int:
        """Insert the rows of a DataFrame into a stream or table; a column ROWTIME gives their timestamps.

        Returns:
            The number of rows of a batch DataFrame. For a streaming one, the query that inserts its rows; stop it or
            wait for it as for any other.

        Raises:
            InputError: the DataFrame has a column that the source lacks, or a value that does not fit.
        """
        known = self._source(source)

        def insert(batch: DataFrame) -> int:
            return self._insert_all(known, (row.asDict(recursive=True) for row in batch.toLocalIterator()))

        if not frame.isStreaming:
            return insert(frame)

        self._release_inserts()

        def insert_batch(batch: DataFrame, _: int) -> None:
            insert(batch)

        callback = BatchCallback(insert_batch)
        query = frame.writeStream.foreachBatch(callback).start()
        self._inserting.append((query, callback))
        return query

    def flush(self) -> None:
        """Let every query process what was inserted, and pass new rows to streaming DataFrames.

        Raises:
            EngineError: a query failed.
        """
        self._release_inserts()
        self.memory.flush()
        self._write_feeds()

    def _release_inserts(self) -> None:
        """Close what queries that insert rows, and have ended, left open."""
        for each in [*self._inserting]:
            if not each[0].isActive:
                each[1].close()
                self._inserting.remove(each)

    def table(self, name: str) -> Table:
        """Return a table for pull queries.

        Raises:
            StatementError: there is no such source.
        """
        return Table(self, self._source(name))

    def stream(self, name: str) -> DataFrame:
        """Return a streaming DataFrame over the rows of a stream, or over the changes of a table.

        Its columns are those of the source, ROWTIME, HEADERS (an array of key and value) and, for windowed sources,
        WINDOWSTART and WINDOWEND. Rows inserted later arrive with the next `flush` or `sql`. A tombstone of a table has
        NULL in all value columns.

        Raises:
            StatementError: there is no such source.
        """
        source = self._source(name)
        if self._folder is None:
            self._folder = Path(tempfile.mkdtemp(prefix="kestrel-streams-"))
        folder = self._folder / str(len(self._feeds))
        folder.mkdir()
        feed = _Feed(source, folder, _schema(source))
        # A first file without rows gives Spark the schema.
        pq.write_table(feed.schema.empty_table(), folder / "0.parquet")
        self._feeds.append(feed)
        self.flush()
        schema = self.spark.read.parquet(str(folder)).schema
        return self.spark.readStream.schema(schema).parquet(str(folder))

    def rows(self, name: str) -> list[Row]:
        """Return all rows that a stream holds, or all changes of a table, with ROWTIME, in order.

        Records that cannot be read are left out, as by a query.

        Raises:
            StatementError: there is no such source.
        """
        self.flush()
        return list(_rows(self.memory, self._source(name)))

    def errors(self) -> list[str]:
        """Return a sentence for each new entry of the processing log, with topic, partition, offset and cause."""
        return [sentence_of(entry) for entry in self.memory.take_log()]

    def _source(self, name: str) -> Source:
        sources = self.memory.session.catalog.sources
        source = sources.get(name) or sources.get(name.upper())
        if source is None:
            raise StatementError(f"there is no stream or table {name}", hint=did_you_mean(name.upper(), sources))
        return source

    def _insert_all(self, source: Source, rows: Iterable[Mapping[str, object]]) -> int:
        count = 0
        for row in rows:
            time_of = row.get("ROWTIME")
            given = {name: value for name, value in row.items() if name != "ROWTIME"}
            timestamp = None if time_of is None else from_python(TIMESTAMP)(time_of)
            self.memory.produce(self._record(source, given, timestamp))
            count += 1
        return count

    def _record(self, source: Source, row: Mapping[str, object], timestamp: int | None) -> Record:
        types = {column.name: column.type for column in (*source.schema.key, *source.schema.value)}
        values: dict[str, object] = {}
        for given, value in row.items():
            name = given if given in types else given.upper()
            if name not in types:
                raise InputError(
                    f"{given} is not a column of {source.name}",
                    hint=did_you_mean(name, types) or f"its columns are {', '.join(types)}",
                )
            try:
                values[name] = from_python(types[name])(value)
            except (TypeError, ValueError, AttributeError, ArithmeticError) as error:
                raise InputError(f"{name} of {source.name} is of type {types[name]}, not {value!r}") from error
        at = int(time.time() * 1000) if timestamp is None else timestamp
        try:
            return SourceRecords.of(source, self.memory.session.serde()).from_row(values, at)
        except (TypeError, ValueError, AttributeError, ArithmeticError) as error:
            raise InputError(f"{dict(row)!r} does not fit {source.name}: {error}") from error

    def _write_feeds(self) -> None:
        """Write the new rows of each source that a streaming DataFrame reads to a file of their own."""
        if self._feeds:
            self.memory.flush()
        for feed in self._feeds:
            arrived = len(self.memory.broker.records(feed.source.topic))
            rows = list(_rows(self.memory, feed.source, feed.written, to_column))
            feed.written = arrived
            if rows:
                feed.files += 1
                hidden = feed.folder / f".{feed.files}.parquet"
                pq.write_table(pa.Table.from_pylist(rows, schema=feed.schema), hidden)
                hidden.rename(feed.folder / f"{feed.files}.parquet")


class Table(msgspec.Struct, frozen=True):
    """A table of an engine, to be asked by key."""

    engine: Engine
    source: Source

    def pull(self, key: object = None) -> list[Row]:
        """Return the rows of a key, or of all keys if `key` is None; a windowed table has a row for each window.

        Args:
            key: the value of the key column; a mapping by column name if the key has several.

        Raises:
            EngineError: the table cannot be asked, or the key does not fit.
        """
        columns = [column.name for column in self.source.schema.key]
        parts = dict(key) if isinstance(key, Mapping) else {} if key is None else {columns[0]: key}
        where: e.Expression | None = None
        for given, value in parts.items():
            name = given if given in columns else given.upper()
            equal = e.Comparison(e.ComparisonOp.EQUAL, e.ColumnRef(name), _literal(value))
            where = equal if where is None else e.Logical(e.LogicalOp.AND, where, equal)
        query = Query(select=(SelectAll(),), source=AliasedSource(self.source.name, self.source.name), where=where)
        answer = self.engine.memory.execute(ParsedStatement(query, format_statement(query), _NOWHERE))
        return _result(answer).rows


def connect(
    spark: SparkSession | None = None,
    *,
    functions: Sequence[str | Path] = (),
    properties: Mapping[str, str] | None = None,
    schema_registry: SchemaRegistry | None = None,
) -> Engine:
    """Open an engine over topics in memory.

    Args:
        spark: the session to run on; the engine uses a new session of its context with the settings that it needs, and
            leaves yours alone. Without one queries run in this process, and `stream` starts a local session.
        functions: Python files or modules with functions of your own.
        properties: properties of ksqlDB, as SET sets them; queries read from the beginning unless
            `auto.offset.reset` says otherwise.
        schema_registry: where AVRO, PROTOBUF and JSON_SR have their schemas: `MemoryRegistry()` for one that lives as
            long as the engine, or `open_registry(url, {})`. Without one these formats are refused.

    Raises:
        FunctionError: a file of functions cannot be loaded.
        EngineError: a property is unknown or has a wrong value.
    """
    config = Config.of({"auto.offset.reset": "earliest"})
    for name, value in (properties or {}).items():
        config = config.with_property(name, value)
    registry = MissingRegistry() if schema_registry is None else schema_registry
    session = Session(config=config, registry=registry, functions=functions_with(functions))
    start = SparkStart(open_memory_session if spark is None else lambda: _beside(spark))
    carrier = ProcessCarrier() if spark is None else SparkCarrier(start.session)
    return Engine(MemoryEngine(session, by_time=True, carrier=carrier, topics=TopicRule.BROKER), start)


def _beside(spark: SparkSession) -> SparkSession:
    """Return a new session of the same context with our SQL settings."""
    own = spark.newSession()
    for name, value in {**SETTINGS, "spark.sql.shuffle.partitions": "1"}.items():
        if own.conf.isModifiable(name):
            own.conf.set(name, value)
    return own


def _literal(value: object) -> e.Expression:
    match value:
        case bool():
            return e.BooleanLiteral(value)
        case int():
            return e.IntegerLiteral(value) if value >= 0 else e.Negate(e.IntegerLiteral(-value))
        case str():
            return e.StringLiteral(value)
        case _:
            raise InputError(
                f"expected a string, an integer or a boolean as key, got {value!r}", hint="ask with sql() instead"
            )


def _result(answer: Answer) -> Result:
    names = [column.name for column in answer.columns]
    converts = [to_python(column.type) for column in answer.columns]
    rows = [
        {name: convert(value) for name, convert, value in zip(names, converts, row, strict=True)} for row in answer.rows
    ]
    return Result(rows, "\n".join(filter(None, (*answer.lines, answer.message))))


def _schema(source: Source) -> pa.Schema:
    columns = [(column.name, arrow_type(column.type)) for column in (*source.schema.key, *source.schema.value)]
    moment = arrow_type(TIMESTAMP)
    headers = pa.list_(pa.struct([("KEY", pa.string()), ("VALUE", pa.binary())]))
    bounds = [("WINDOWSTART", moment), ("WINDOWEND", moment)] if source.window is not None else []
    return pa.schema([("ROWTIME", moment), *columns, *bounds, ("HEADERS", headers)])


def _rows(
    memory: MemoryEngine, source: Source, first: int = 0, conversion: Callable[[SqlType], Convert] = to_python
) -> Iterator[Row]:
    """Yield the rows of a source from a record of its topic on, those that cannot be read left out."""
    records = SourceRecords.of(source, memory.session.serde())
    converts = {column.name: conversion(column.type) for column in (*source.schema.key, *source.schema.value)}
    moment = to_python(TIMESTAMP)
    for record in memory.broker.records(source.topic)[first:]:
        try:
            values = records.to_row(record)
        except SerdeError:
            continue
        row = {"ROWTIME": moment(record.timestamp)}
        row |= {name: convert(values[name]) for name, convert in converts.items()}
        if source.window is not None:
            _, window = records.key_to_json(record.key)
            row |= {"WINDOWSTART": moment(window[0] if window else None)}
            row |= {"WINDOWEND": moment(window[1] if window else None)}
        row["HEADERS"] = [{"KEY": name, "VALUE": value} for name, value in record.headers]
        yield row
