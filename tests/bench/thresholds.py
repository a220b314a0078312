"""The sizes from which the second of two ways costs less: each constant that chooses between ways, with its measurement.

    python -m tests.bench thresholds        (ROUNDS=200 by default, ONLY=folds, as environment variables)

Prints, for each size of a batch, the time of the way for many rows as a multiple of that of the way for few,
the least of each over the rounds, in turns in one process. A constant is right where most of its lines cross 1.
"""

from __future__ import annotations

import gc
import os
import random
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa

from kestrel_sql.arrow.columns import to_list
from kestrel_sql.arrow.types import to_arrow
from kestrel_sql.dataflow.query_run import QueryRun
from kestrel_sql.expressions.columns import Columns, lazy_columns
from kestrel_sql.expressions.sendable import Compiled
from kestrel_sql.operators.aggregates import folding
from kestrel_sql.operators.state_codec import dump_state, load_state
from kestrel_sql.session.session import Session
from kestrel_sql.spark.envelope import struct_column
from kestrel_sql.spark.io import serdes
from kestrel_sql.spark.pipeline.pipeline import Pipeline, build_pipeline
from kestrel_sql.spark.state import page
from kestrel_sql.spark.state.level import Level
from kestrel_sql.spark.state.page import PageRunner
from kestrel_sql.types.schema import Column
from kestrel_sql.types.sql_types import STRING
from tests.bench.expressions import COLUMNS as PROJECTED
from tests.bench.expressions import _array, _compiled, projections
from tests.bench.measure import interleaved, machine

ROUNDS, ONLY = int(os.environ.get("ROUNDS", "200")), os.environ.get("ONLY", "")
SIZES = (16, 32, 64, 128, 256, 512, 1024, 2048)
NEVER = 1 << 60
_FORMATS = ("JSON", "AVRO", "PROTOBUF", "DELIMITED", "KAFKA")
_KINDS = ("INTEGER", "BIGINT", "DOUBLE", "STRING")
_COLUMNS = "N INT, L BIGINT, X DOUBLE, NAME STRING, CITY STRING"
_FOLDS = {"COUNT": "COUNT(*) AS C", "four": "COUNT(*) AS C, SUM(N) AS S, AVG(X) AS A, MAX(L) AS M"}

Ways = tuple[Callable[[], object], Callable[[], object]]
"""The way for few rows and that for many."""


@contextmanager
def _set(module: Any, name: str, value: int) -> Iterator[None]:
    before = getattr(module, name)
    setattr(module, name, value)
    try:
        yield
    finally:
        setattr(module, name, before)


def _with(module: Any, name: str, work: Callable[[], object]) -> Ways:
    """The same work with a constant that no size reaches, and with one that all do."""

    def run(value: int) -> object:
        with _set(module, name, value):
            return work()

    return lambda: run(NEVER), lambda: run(0)


def _report(name: str, ways: Mapping[int, Ways]) -> None:
    ratios = []
    for size, (few, many) in ways.items():
        seconds = interleaved({"few": few, "many": many}, max(5, ROUNDS * 16 // size), 2)
        ratios.append(f"{size}: {min(seconds['many']) / min(seconds['few']):.2f}")
    sys.stdout.write(f"  {name:24} {', '.join(ratios)}\n")
    sys.stdout.flush()


def _pipeline(text: str) -> Pipeline:
    session = Session()
    for statement in session.parse(text):
        session.execute(statement)
    (query,) = session.queries.values()
    return build_pipeline([QueryRun(plan=query.plan, settings=query.config, serde=session.serde())])


def _values(kind: str, count: int) -> list[Any]:
    random_ = random.Random(count)
    of: Mapping[str, Callable[[], Any]] = {
        "INTEGER": lambda: random_.randrange(1000),
        "BIGINT": lambda: random_.randrange(1 << 40),
        "DOUBLE": random_.random,
        "STRING": lambda: f"name {random_.randrange(10_000)}",
    }
    return [of[kind]() for _ in range(count)]


def codecs() -> None:
    """WORTHWHILE: the bulk codec of a format, or record by record."""
    for format in _FORMATS:
        columns = "N BIGINT" if format == "KAFKA" else _COLUMNS
        built = _pipeline(
            f"CREATE STREAM S ({columns}) WITH (KAFKA_TOPIC='s', VALUE_FORMAT='{format}');"
            "CREATE STREAM O WITH (KAFKA_TOPIC='o') AS SELECT * FROM S;"
        )
        spec = built.graph.sources[0].value
        reader, writer = serdes.SerdeReader(spec), serdes.SerdeWriter(built.graph.sinks[0].value)
        reads, writes = {}, {}
        for size in SIZES:
            arrays = [pa.array(_values(str(each.type), size), to_arrow(each.type)) for each in spec.columns]
            data, _ = writer.write(arrays, np.ones(size, dtype=bool))
            reads[size] = _with(serdes, "WORTHWHILE", partial(reader.read, data))
            there = np.ones(size, dtype=bool)
            writes[size] = _with(serdes, "WORTHWHILE", partial(writer.write, arrays, there))
        _report(f"{format} read", reads)
        _report(f"{format} written", writes)


def expressions() -> None:
    """LEAST_ROWS: an expression over Arrow arrays, or over lists; from Arrow and back to it."""
    kinds = {name: str(kind) for name, kind in PROJECTED.items() if str(kind) in _KINDS}
    batches = {size: pa.RecordBatch.from_pydict({n: _values(k, size) for n, k in kinds.items()}) for size in SIZES}
    for name, texts in projections().items():
        compiled = [_compiled(text) for text, _ in texts]
        if all(column in kinds for text, _ in texts for column in PROJECTED if column in text):
            ways = {
                size: (partial(_evaluated, compiled, batch, NEVER), partial(_evaluated, compiled, batch, 0))
                for size, batch in batches.items()
            }
            _report(name, ways)


def _evaluated(compiled: Sequence[Compiled], batch: pa.RecordBatch, least: int) -> list[pa.Array]:
    listed = lazy_columns(lambda name: to_list(batch.column(name)))
    columns = Columns(listed, batch.num_rows, arrays=batch.column, least_rows=least)
    return [_array(each, columns) for each in compiled]


def folds() -> None:
    """COLUMNS_FROM: NumPy folds the entries of a page, or a call for each."""
    for name, calls in _FOLDS.items():
        for source in ("STREAM", "TABLE"):
            key, by = ("K STRING KEY", "K") if source == "STREAM" else ("I BIGINT PRIMARY KEY, K STRING", "K")
            level = _level(
                f"CREATE {source} S ({key}, {_COLUMNS}) WITH (KAFKA_TOPIC='s', FORMAT='JSON');"
                f"CREATE TABLE O AS SELECT {by}, {calls.replace('MAX(L)', 'SUM(L)')} FROM S GROUP BY {by};"
            )
            runner, ways = PageRunner(level), {}
            for size in SIZES:
                rows = _rows(level, size, size // 8)
                stored = dump_state(_after(runner, rows, {}))
                ways[size] = _with(folding, "COLUMNS_FROM", partial(_run, runner, rows, stored))
            _report(f"{name} of a {source.lower()}", ways)


def groups() -> None:
    """BUCKETED_FROM: many groups of a page as columns, or in buckets; 100 rows of a page, state read and written."""
    level = _level(
        f"CREATE STREAM S (K STRING KEY, {_COLUMNS}) WITH (KAFKA_TOPIC='s', FORMAT='JSON');"
        f"CREATE TABLE O AS SELECT K, {_FOLDS['four']} FROM S GROUP BY K;"
    )
    runner, ways = PageRunner(level), {}
    for size in SIZES:
        every, some = _rows(level, 4 * size, size), _rows(level, 100, size)
        stored = []
        for value in (NEVER, 0):
            with _set(page, "BUCKETED_FROM", value):
                stored.append(dump_state(_after(runner, every, {})))
        few, many = (partial(_run, runner, some, each) for each in stored)
        ways[size] = few, many
    _report("groups in columns", ways)


def _level(text: str) -> Level:
    built = _pipeline(text)
    return built.level(len(built.graph.levels))


def _rows(level: Level, count: int, spread: int) -> pa.RecordBatch:
    """Rows of some groups; of a table, seven of ten replace one."""
    random_, ((relation, handle),) = random.Random(count), level.inputs().items()

    def part(columns: Sequence[Column]) -> dict[str, Any]:
        return {each.name: _values(str(each.type), 1)[0] for each in columns}

    def key() -> dict[str, Any]:
        number = random_.randrange(max(1, spread))
        return {each.name: f"key {number}" if each.type == STRING else number for each in handle.schema.key}

    rows = []
    for at in range(count):
        struct = {"k": key(), "v": part(handle.schema.value)}
        if handle.has_old and random_.random() < 0.7:
            struct |= {"ok": key(), "o": part(handle.schema.value)}
        row = {"rel": relation, "q": 0, "ordinal": [at], "ts": at, "headers": [], "task": 0}
        rows.append({**row, struct_column(relation): struct})
    return pa.RecordBatch.from_pylist(rows, schema=level.read())


def _after(runner: PageRunner, rows: pa.RecordBatch, state: dict[str, Any]) -> dict[str, Any]:
    for _ in runner.run(rows, 0, state):
        pass
    return state


def _run(runner: PageRunner, rows: pa.RecordBatch, stored: bytes) -> bytes:
    return dump_state(_after(runner, rows, load_state(stored)))


def main() -> None:
    """Print the figures."""
    sys.stdout.write(f"{machine()}\n")
    gc.disable()
    for work in (codecs, expressions, folds, groups):
        if ONLY in work.__name__:
            sys.stdout.write(f"{work.__name__}: {work.__doc__}\n")
            work()
    gc.enable()
