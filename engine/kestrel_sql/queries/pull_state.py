"""Answers pull queries from the state of the query that materialises a table (docs/adr/0018).

Reads rows from the state of an operator, then applies the steps after it. Expressions are evaluated in Python.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, Protocol

import msgspec

from kestrel_sql.catalog.catalog import Source
from kestrel_sql.dataflow.key_bytes import key_decoder
from kestrel_sql.dataflow.relation import Relation
from kestrel_sql.dataflow.typed_values import typed_rows
from kestrel_sql.errors import SerdeError
from kestrel_sql.formats.serde import SerdeSpec, Side
from kestrel_sql.formats.table import decoder, encoder, format_of
from kestrel_sql.formats.windowed_key import join
from kestrel_sql.functions.registry import Registry
from kestrel_sql.java.regex.time_limit import check_work
from kestrel_sql.operators.operator import Operator, Window
from kestrel_sql.operators.table_rows import StoredRow
from kestrel_sql.plan.step import Step
from kestrel_sql.plan.steps.sinks import StreamSinkV1
from kestrel_sql.plan.steps.sources import StreamSourceV1, WindowedStreamSourceV1
from kestrel_sql.queries.large_lists import drained, ordered
from kestrel_sql.queries.pull_lookup import Keys, named_keys
from kestrel_sql.queries.row_steps import RowSteps, RowValues
from kestrel_sql.queries.transient import Row, TransientQuery
from kestrel_sql.session.source_records import source_spec
from kestrel_sql.topics.partitioner import partition_of
from kestrel_sql.topics.records import LogEntry
from kestrel_sql.types.schema import ROWTIME, WINDOWEND, WINDOWSTART, Column

_CHUNK = 10_000


class MaterialisedTable(Protocol):
    """A table that a query materialises: the operator whose state has its rows."""

    @property
    def operator(self) -> Operator:
        """The operator."""

    @property
    def facts(self) -> Relation:
        """The relation that the operator makes."""

    @property
    def steps(self) -> Sequence[Step]:
        """The steps from the rows of the operator to those of the table, in order."""

    def entries(self, keys: Keys | None) -> Iterable[StoredRow]:
        """Return the rows of the keys, or all rows, without an order."""


class TableRow(msgspec.Struct, frozen=True):
    """A row of a table: key and value columns, timestamp (ms) and window (ms)."""

    key: tuple[Any, ...]
    values: RowValues
    timestamp: int
    window: Window | None


class TableReader(msgspec.Struct, frozen=True, kw_only=True):
    """Reads the rows of a table that a persistent query materialises.

    `partitions` is the number of partitions of the table's topic, on which only the order of rows depends.
    """

    source: Source
    stored: MaterialisedTable
    functions: Registry
    settings: Mapping[str, str]
    serde: Callable[[SerdeSpec], SerdeSpec]
    query_id: str
    partitions: int = 1

    def rows(self, keys: Keys | None, log: list[LogEntry]) -> Iterator[TableRow]:
        """Return the rows of the keys, or all rows, without an order."""
        run = RowSteps(self.query_id, self.functions, self.settings, log, self.stored.steps)
        lossy = self._round_trip()
        restored = key_decoder(self.stored.operator.key_bytes)
        columns = self.stored.facts.schema.value
        names = [column.name for column in columns]
        entries = drained([*self.stored.entries(keys)])
        while chunk := [*islice(entries, _CHUNK)]:
            # An aggregate may return the integer 0 for a DOUBLE.
            values = typed_rows((entry.value for entry in chunk), columns)
            check_work()
            for at, found in run([dict(zip(names, value, strict=True)) for value in values]):
                entry = chunk[at]
                yield TableRow(restored(entry.key), lossy(found), entry.timestamp, entry.window)

    def _round_trip(self) -> Callable[[RowValues], RowValues]:
        # ksqlDB's stores have the format of the sink.
        stored = format_of(self.source.formats.value_format.format)
        if not (stored.loses_null or stored.loses_empty):
            return lambda values: values
        spec = self.serde(source_spec(self.source, Side.VALUE))
        names = [column.name for column in spec.columns]
        write, read = encoder(spec), decoder(spec)

        def round_trip(values: RowValues) -> RowValues:
            try:
                row = read(write(tuple(values[name] for name in names)))
            except SerdeError:
                return values
            return values if row is None else {**values, **dict(zip(names, row, strict=True))}

        return round_trip

    def scan_order(self, row: TableRow) -> tuple[int, bytes]:
        """Return the position of a row in a scan by ksqlDB."""
        return scan_order(self.source, self.serde, self.partitions, row)


class PulledTable(Protocol):
    """A table that a pull query reads."""

    @property
    def source(self) -> Source:
        """The table."""

    @property
    def functions(self) -> Registry:
        """The functions of expressions."""

    @property
    def settings(self) -> Mapping[str, str]:
        """The settings of expressions."""

    def rows(self, keys: Keys | None, log: list[LogEntry]) -> Iterator[TableRow]:
        """Return the rows of the keys, or all rows, without an order."""

    def scan_order(self, row: TableRow) -> tuple[int, bytes]:
        """Return the position of a row in a scan by ksqlDB."""


def scan_order(
    source: Source, serde: Callable[[SerdeSpec], SerdeSpec], partitions: int, row: TableRow
) -> tuple[int, bytes]:
    """Return the position of a row in a scan by ksqlDB.

    Its partition, and the bytes of its key in the table's topic.
    """
    try:
        bare = encoder(serde(source_spec(source, Side.KEY)))(row.key) or b""
    except SerdeError:
        bare = b""
    whole = bare if row.window is None or source.window is None else join(bare, row.window, source.window)
    return partition_of(bare, partitions), whole


def pull_rows(planned: TransientQuery, table: PulledTable, log: list[LogEntry]) -> list[Row]:
    """Answer a pull query over a table."""
    functions, key = table.functions, table.source.schema.key
    steps = own_steps(planned.plan.physical_plan)
    run = RowSteps(planned.plan.query_id, functions, table.settings, log, steps)
    found = []
    read = table.rows(named_keys(planned.where, key, functions), log)
    while rows := [*islice(read, _CHUNK)]:
        for at, result in run([as_read(row, key) for row in rows]):
            values = tuple(result[column.name] for column in planned.columns)
            found.append((table.scan_order(rows[at]), values))
    return list(map(Row, typed_rows(islice(ordered(found), planned.limit), planned.columns)))


def own_steps(root: Step) -> list[Step]:
    """The steps between source and sink of a pull query, in order."""
    steps: list[Step] = []
    step = root.upstream[0] if isinstance(root, StreamSinkV1) else root
    while not isinstance(step, StreamSourceV1 | WindowedStreamSourceV1):
        steps.insert(0, step)
        (step,) = step.upstream
    return steps


def as_read(row: TableRow, key: Sequence[Column]) -> RowValues:
    """The values of a row for expressions: with ROWTIME, copies of the key, and the bounds of its window."""
    values = {**row.values, ROWTIME.name: row.timestamp}
    values.update(zip((column.name for column in key), row.key, strict=True))
    if row.window is not None:
        values[WINDOWSTART.name], values[WINDOWEND.name] = row.window
    return values
