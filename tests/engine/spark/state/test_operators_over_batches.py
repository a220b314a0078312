from __future__ import annotations

import math
import random
import struct
from collections.abc import Mapping, Sequence
from decimal import Decimal
from functools import cache
from typing import Any

import pyarrow as pa
import pytest

from kestrel_sql.catalog.catalog import Catalog
from kestrel_sql.dataflow.query_run import QueryRun
from kestrel_sql.dataflow.relation import Relation
from kestrel_sql.functions.table import FUNCTIONS
from kestrel_sql.operators import state_codec as codec_module
from kestrel_sql.operators.aggregates import folding as folding_module
from kestrel_sql.operators.joins import foreign_key as foreign_module
from kestrel_sql.operators.joins import stream_stream as streams_module
from kestrel_sql.operators.operator import State
from kestrel_sql.operators.state_codec import dump_state, load_state
from kestrel_sql.session.session import Session
from kestrel_sql.spark.envelope import struct_column
from kestrel_sql.spark.pipeline.pipeline import build_pipeline
from kestrel_sql.spark.state.level import Level
from kestrel_sql.spark.state.page import PageRunner
from kestrel_sql.types import sql_types as t
from kestrel_sql.types.schema import Column
from tests.engine.operators.row_forms.of_operator import in_row_form

_COLUMNS = (
    "I INT, B BIGINT, D DOUBLE, N STRING, W DATE, M DECIMAL(6, 2), X BYTES, L ARRAY<INT>, P MAP<STRING, INT>,"
    " S STRUCT<A INT, Z ARRAY<STRING>>"
)
_WITH = "WITH (KAFKA_TOPIC='{}', KEY_FORMAT='JSON', VALUE_FORMAT='JSON')"
_BOTH = "A.K, A.I, A.D, A.N, A.W, A.M, A.X, A.L, A.P, A.S, B.K, B.B, B.D, B.L, B.P, B.S"
_PICKED = "A.K, A.I, A.D, B.K, B.L, B.N"

_KEYS_OF = {"FULL OUTER": "ROWKEY, A.I, A.D, A.N, B.L, B.P, B.S"}
_SPANS = {
    "with grace": "20 MILLISECONDS GRACE PERIOD 30 MILLISECONDS",
    "without grace": "20 MILLISECONDS",
    "at once": "0 MILLISECONDS GRACE PERIOD 0 MILLISECONDS",
    "before": "(35 MILLISECONDS, 0 MILLISECONDS) GRACE PERIOD 10 MILLISECONDS",
    "after": "(5 MILLISECONDS, 25 MILLISECONDS) GRACE PERIOD 15 MILLISECONDS",
}
_FOLDS = (
    "COUNT(*) AS C, COUNT(D) AS CD, SUM(I) AS SI, SUM(B) AS SB, SUM(D) AS SD, AVG(I) AS AI, AVG(B) AS AB, AVG(D) AS AD"
)

_QUERIES: Mapping[str, tuple[str, int]] = {
    "stream-table inner": (f"CREATE STREAM C AS SELECT {_BOTH} FROM S A JOIN T B ON A.K = B.K;", 1),
    "stream-table left": (f"CREATE STREAM C AS SELECT {_BOTH} FROM S A LEFT JOIN T B ON A.K = B.K;", 1),
    "table-table inner": (f"CREATE TABLE C AS SELECT {_BOTH} FROM T A JOIN U B ON A.K = B.K;", 1),
    "table-table left": (f"CREATE TABLE C AS SELECT {_BOTH} FROM T A LEFT JOIN U B ON A.K = B.K;", 1),
    "table-table right": (f"CREATE TABLE C AS SELECT {_BOTH} FROM T A RIGHT JOIN U B ON A.K = B.K;", 1),
    "table-table outer": (
        "CREATE TABLE C AS SELECT ROWKEY, A.I, A.D, B.L, B.N FROM T A FULL OUTER JOIN U B ON A.K = B.K;",
        1,
    ),
    "table-table with old rows": (
        "CREATE TABLE C AS SELECT A.N, COUNT(*) AS C FROM T A LEFT JOIN U B ON A.K = B.K GROUP BY A.N;",
        1,
    ),
    "table-table of a join": (
        f"CREATE TABLE C AS SELECT {_PICKED}, C.I FROM T A LEFT JOIN U B ON A.K = B.K LEFT JOIN V C ON A.K = C.K;",
        2,
    ),
    "table-table outer of a join with old rows": (
        "CREATE TABLE X AS SELECT C.N, COUNT(*) AS N FROM T A JOIN U B ON A.K=B.K FULL JOIN V C ON A.K=C.K GROUP BY C.N;",
        2,
    ),
    **{
        f"stream-stream {kind} {within}".lower(): (
            f"CREATE STREAM C AS SELECT {_KEYS_OF.get(kind, _BOTH)} FROM S A {kind} JOIN R B WITHIN {span} ON A.K = B.K;",
            1,
        )
        for kind in ("INNER", "LEFT", "RIGHT", "FULL OUTER")
        for within, span in _SPANS.items()
    },
    "previous row": ("CREATE TABLE C AS SELECT N, COUNT(*) AS C, SUM(I) AS I FROM T GROUP BY N;", 1),
    "previous row with time": ("CREATE TABLE C AS SELECT N, SUM(ROWTIME) AS R FROM T GROUP BY N;", 1),
    "table aggregate": (f"CREATE TABLE C AS SELECT N, {_FOLDS} FROM T GROUP BY N;", 2),
    "table aggregate with old rows": (f"CREATE TABLE C AS SELECT N, {_FOLDS} FROM T GROUP BY N HAVING SUM(I) > 0;", 2),
    "table aggregate of two keys": ("CREATE TABLE C AS SELECT N, I, SUM(D) AS D FROM T GROUP BY N, I;", 2),
    "table aggregate of rows": ("CREATE TABLE C AS SELECT N, COUNT(*) AS C FROM T GROUP BY N;", 2),
    "foreign key inner": (f"CREATE TABLE C AS SELECT {_BOTH} FROM T A JOIN U B ON A.F = B.K;", 1),
    "foreign key left": (f"CREATE TABLE C AS SELECT {_BOTH} FROM T A LEFT JOIN U B ON A.F = B.K;", 1),
    "foreign key with old rows": (
        "CREATE TABLE C AS SELECT B.N, COUNT(*) AS C FROM T A JOIN U B ON A.F = B.K GROUP BY B.N;",
        1,
    ),
    "foreign key left with old rows": (
        "CREATE TABLE C AS SELECT B.N, COUNT(*) AS C FROM T A LEFT JOIN U B ON A.F = B.K GROUP BY B.N;",
        1,
    ),
    "previous row of two keys": ("CREATE TABLE C AS SELECT N, COUNT(*) AS C FROM Q GROUP BY N;", 1),
}
"""Queries with the level whose operators are compared."""

_CHOICES: Mapping[Any, Sequence[Any]] = {
    t.INTEGER: (0, 1, -1, 2**31 - 1, -(2**31)),
    t.BIGINT: (0, 3, -7, 2**63 - 1, -(2**63)),
    t.DOUBLE: (0.0, -0.0, 0.1, 1e300, 5e-324, math.inf, -math.inf, math.nan),
    t.STRING: ("", "x", "ü", "a longer one", "\U0001f600"),
    t.DATE: (0, -1, 19_000),
    t.BYTES: (b"", b"\x00", b"\xff\xfe"),
}


@cache
def sources(key: str) -> Catalog:
    """The streams and tables that the queries read."""
    columns = f"{_COLUMNS}, F {key}"
    texts = [f"CREATE STREAM {name} (K {key} KEY, {columns}) {_WITH.format(name)};" for name in "SR"]
    texts += [f"CREATE TABLE {name} (K {key} PRIMARY KEY, {columns}) {_WITH.format(name)};" for name in "TUV"]
    texts.append(f"CREATE TABLE Q (K {key} PRIMARY KEY, J STRING PRIMARY KEY, {columns}) {_WITH.format('q')};")
    session = Session()
    for statement in session.parse(" ".join(texts)):
        session.execute(statement)
    return session.catalog


def level_of(query: str, key: str) -> Level:
    """The level of a query whose operators are compared."""
    text, number = _QUERIES[query]
    session = Session(catalog=sources(key))
    for statement in session.parse(text):
        session.execute(statement)
    (query_,) = session.queries.values()
    run = QueryRun(plan=query_.plan, settings=query_.config, serde=session.serde())
    return build_pipeline([run], FUNCTIONS).level(number)


def some_value(kind: Any, random_: random.Random) -> Any:
    """A value for Arrow, often NULL or awkward."""
    if random_.random() < 0.2:
        return None
    match kind:
        case t.Array(item):
            return [some_value(item, random_) for _ in range(random_.randrange(3))]
        case t.Map(_, value):
            return [(key, some_value(value, random_)) for key in random_.sample("abc", random_.randrange(3))]
        case t.Struct(fields):
            return {each.name: some_value(each.type, random_) for each in fields}
        case t.Decimal():
            return Decimal(random_.randrange(-999_999, 999_999)).scaleb(-2)
        case _:
            return random_.choice(_CHOICES[kind])


def some_key(columns: Sequence[Column], random_: random.Random, spread: int) -> dict[str, Any] | None:
    """One of few keys, sometimes NULL as a whole or in a column."""
    if random_.random() < 0.03:
        return None
    number = random_.randrange(spread)
    found = {each.name: f"k{number}" if each.type == t.STRING else number for each in columns}
    for name in found:
        if random_.random() < 0.04:
            found[name] = None
    return found


def some_struct(handle: Relation, random_: random.Random, spread: int) -> dict[str, Any]:
    def row() -> dict[str, Any] | None:
        if random_.random() < 0.2:
            return None
        return {each.name: some_value(each.type, random_) for each in handle.schema.value}

    found: dict[str, Any] = {"k": some_key(handle.schema.key, random_, spread), "v": row()}
    if handle.has_old:
        found["o"] = row()
    if handle.has_old_key:
        found["ok"] = found["k"] if random_.random() < 0.3 else some_key(handle.schema.key, random_, spread)
    if handle.extra:
        found["x"] = some_key(handle.extra, random_, spread)
    return found


def some_rows(
    level: Level, random_: random.Random, count: int, spread: int, *, windowed: bool = False, start: int | None = None
) -> pa.RecordBatch:
    """Rows of all inputs, with tombstones, unordered timestamps and shuffled ordinals.

    From a `start` (ms) on, time goes on with the ordinals, and few rows are late.
    """

    def time(ordinal: int) -> int:
        if start is None:
            return random_.randrange(100) + random_.choice([0, ordinal // 2, -120])
        return start + ordinal // 10 + random_.choice([0, 0, 0, 2, -9, -60])

    rows = []
    for ordinal in random_.sample(range(count * 3), count):
        relation, handle = random_.choice(list(level.inputs().items()))
        rows.append(
            {
                "rel": relation,
                "q": 0,
                "ordinal": [ordinal, ordinal % 3, 1][
                    : 3 if level.inputs()[relation].has_old_key and ordinal % 2 else 2
                ],
                "ts": time(ordinal),
                "ws": 10 if windowed else None,
                "we": 20 if windowed else None,
                "headers": [{"key": "h", "value": bytes([ordinal % 256])}],
                "topic": "s",
                "part": 1,
                "off": ordinal,
                "task": 0,
                struct_column(relation): some_struct(handle, random_, spread),
            }
        )
    return pa.RecordBatch.from_pylist(rows, schema=level.read())


def through(runner: PageRunner, rows: pa.RecordBatch, stored: bytes) -> tuple[dict[int, list[str]], bytes]:
    """The outputs of each relation as text, which tells -0.0 from 0.0 and knows NaN, and the new state."""
    state: State = load_state(stored)
    made: dict[int, list[str]] = {}
    for out in runner.run(rows, 3, state):
        out.validate(full=True)
        for row in out.to_pylist():
            made.setdefault(row["rel"], []).append(repr(row))
    return made, dump_state(state)


def in_bytes(state: bytes) -> bytes:
    """A state in which all NaN have the same sign: which one a sum has depends on the processor."""
    nan = struct.pack(">d", math.nan)
    return state.replace(b"\xcb" + struct.pack(">d", -math.nan), b"\xcb" + nan)


@pytest.mark.parametrize(
    "seeds", [range(1), pytest.param(range(1, 30), marks=pytest.mark.nightly)], ids=["few", "many"]
)
@pytest.mark.parametrize("query", list(_QUERIES))
def test_operators_over_batches_give_the_outputs_and_state_of_single_rows(
    query: str, seeds: range, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(codec_module, "BUCKETED_FROM", 4)
    for seed in seeds:
        random_ = random.Random(seed)
        most = random_.choice([1, 20, 1 << 15])
        for module in (foreign_module, streams_module):
            monkeypatch.setattr(module, "MOST_OUTPUTS", most)
        monkeypatch.setattr(folding_module, "COLUMNS_FROM", (1, 20)[seed % 2])
        level = level_of(query, ("BIGINT", "STRING")[seed % 2])
        runner = PageRunner(level)
        plain = PageRunner(Level(tuple(map(in_row_form, level.operators)), level.alive))
        start = random_.choice([None, 0, -50]) if seed else 0
        spread = random_.choice([1, 3, 40, 400] if start is None else [2, 15, 40])
        sizes = [1, 2, 9, 90, 200] if start is None else [9, 40, 60, 150]
        windowed = seed % 8 == 7
        stored = dump_state({})
        for turn in range(5 if len(seeds) > 1 else 3):
            rows = some_rows(
                level,
                random_,
                random_.choice(sizes),
                spread,
                windowed=windowed,
                start=None if start is None else start + 15 * turn,
            )
            single, whole = through(plain, rows, stored), through(runner, rows, stored)
            assert whole[0] == single[0]
            assert in_bytes(whole[1]) == in_bytes(single[1])
            stored = single[1]
