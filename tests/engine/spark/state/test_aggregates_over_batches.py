from __future__ import annotations

import math
import random
from collections.abc import Iterator
from itertools import cycle, product
from typing import Any

import pyarrow as pa
import pytest

from kestrel_sql.dataflow.log_entries import LATE
from kestrel_sql.dataflow.query_run import QueryRun
from kestrel_sql.functions.table import FUNCTIONS
from kestrel_sql.operators import state_codec as codec_module
from kestrel_sql.operators.aggregates import folding as folding_module
from kestrel_sql.operators.aggregates import windows as windows_module
from kestrel_sql.operators.aggregates.windows import TimeWindowAggregate, unpacked
from kestrel_sql.operators.operator import Results, State
from kestrel_sql.operators.state_codec import dump_state, load_state
from kestrel_sql.planner.config import Config
from kestrel_sql.session.session import Session
from kestrel_sql.spark.envelope import struct_column
from kestrel_sql.spark.pipeline.pipeline import build_pipeline
from kestrel_sql.spark.state import page as page_module
from kestrel_sql.spark.state.level import Level
from kestrel_sql.spark.state.page import PageRunner
from tests.engine.operators.row_forms.of_operator import in_row_form

_KEYS = {"one": "K BIGINT KEY", "text": "K STRING KEY", "two": "K BIGINT KEY, L STRING KEY"}
_SOURCE = (
    "CREATE STREAM S ({}, I INT, B BIGINT, D DOUBLE, N STRING, W DATE) WITH (KAFKA_TOPIC='s', KEY_FORMAT='JSON',"
    " VALUE_FORMAT='JSON');"
)
_FOLDS = (
    "COUNT(*) AS C, COUNT(N) AS CN, SUM(I) AS SI, SUM(B) AS SB, SUM(D) AS SD, AVG(I) AS AI, AVG(B) AS AB, AVG(D) AS AD"
)
_EXTREMES = "MIN(I) AS NI, MAX(B) AS XB, MIN(D) AS ND, MAX(D) AS XD, MIN(B) AS NB, MAX(W) AS XW"

_BODIES = (
    "LATEST_BY_OFFSET(N) AS LN, EARLIEST_BY_OFFSET(D, 2) AS ED, COLLECT_LIST(I) AS LI, TOPK(B, 2) AS TB,"
    " COUNT_DISTINCT(N) AS DN, HISTOGRAM(N) AS HN, STDDEV_SAMP(I) AS S, SUM(CAST(I AS DECIMAL(20, 2))) AS SM"
)
"""Functions without a body for columns."""

_DOUBLES = (0.0, -0.0, 0.1, 0.2, 1e300, -1e300, 5e-324, math.inf, -math.inf, math.nan)
_INTS = (0, 1, -1, 2**31 - 1, -(2**31))
_LONGS = (0, 3, -7, 2**63 - 1, -(2**63))


_WINDOWS = {
    "tumbling": "WINDOW TUMBLING (SIZE 20 MILLISECONDS, RETENTION 60 MILLISECONDS, GRACE PERIOD 30 MILLISECONDS)",
    "hopping": (
        "WINDOW HOPPING (SIZE 20 MILLISECONDS, ADVANCE BY 7 MILLISECONDS, RETENTION 90 MILLISECONDS, GRACE PERIOD 10"
        " MILLISECONDS)"
    ),
    "long": "WINDOW TUMBLING (SIZE 1 SECONDS)",
    "session": "WINDOW SESSION (7 MILLISECONDS, RETENTION 60 MILLISECONDS, GRACE PERIOD 25 MILLISECONDS)",
    "long session": "WINDOW SESSION (3 MILLISECONDS)",
    "short": "WINDOW TUMBLING (SIZE 5 MILLISECONDS, RETENTION 6 MILLISECONDS, GRACE PERIOD 1 MILLISECONDS)",
}
_UNCACHED = "EMIT FINAL uncached"
"""EMIT FINAL in a session without a cache."""

_ENDS = ("", "HAVING COUNT(*) > 0", "EMIT FINAL", _UNCACHED)


def level_of(keys: str, end: str = "", window: str = "") -> Level:
    """A level with one aggregate of every fold, or functions without one; HAVING at the `end` makes it return old rows."""
    names = "K, L" if keys == "two" else "K"
    session = Session(Config.of({"cache.max.bytes.buffering": 0} if end == _UNCACHED else {}))
    folds = f"{_FOLDS}, {_BODIES}" if keys == "text" else f"{_FOLDS}, {_EXTREMES}"
    grouped = f"SELECT {names}, {folds} FROM S {window} GROUP BY {names} {end.removesuffix(' uncached')}"
    text = f"{_SOURCE.format(_KEYS[keys])} CREATE TABLE T AS {grouped};"
    for statement in session.parse(text):
        session.execute(statement)
    (query,) = session.queries.values()
    return build_pipeline([QueryRun(plan=query.plan, settings=query.config, serde=session.serde())], FUNCTIONS).level(1)


def some_rows(level: Level, random_: random.Random, count: int, spread: int) -> pa.RecordBatch:
    """Rows with few keys, NULL in every column, unordered timestamps and shuffled ordinals."""
    ((relation, handle),) = level.inputs().items()

    def value(name: str) -> Any:
        if random_.random() < 0.15:
            return None
        choices: dict[str, Any] = {
            "I": lambda: random_.choice(_INTS),
            "B": lambda: random_.choice(_LONGS) if random_.random() < 0.3 else random_.randrange(-50, 50),
            "D": lambda: random_.choice(_DOUBLES) if random_.random() < 0.2 else random_.uniform(-1, 1),
            "N": lambda: random_.choice("xyz"),
            "W": lambda: random_.randrange(-9, 9),
            "K": lambda: (
                random_.randrange(spread)
                if handle.schema.key[0].type.__str__() == "BIGINT"
                else f"k{random_.randrange(spread)}"
            ),
            "L": lambda: random_.choice("ab"),
        }
        return choices[name]() if name in choices else random_.randrange(5)

    def struct() -> dict[str, Any]:
        key = None if random_.random() < 0.02 else {column.name: value(column.name) for column in handle.schema.key}
        content = (
            None if random_.random() < 0.05 else {column.name: value(column.name) for column in handle.schema.value}
        )
        return {"k": key, "v": content}

    ordinals = random_.sample(range(count * 3), count)
    rows = [
        {
            "rel": relation,
            "q": 0,
            "ordinal": [ordinal, ordinal % 3],
            "ts": random_.randrange(100) + random_.choice([0, 0, ordinal // 2]) - random_.choice([0] * 9 + [120]),
            "headers": [{"key": "h", "value": bytes([ordinal % 256])}],
            "topic": "s",
            "part": 1,
            "off": ordinal,
            "task": 0,
            struct_column(relation): struct(),
        }
        for ordinal in ordinals
    ]
    return pa.RecordBatch.from_pylist(rows, schema=level.read())


_MADE: dict[object, tuple[list[pa.RecordBatch], int]] = {}


def some_batches(level: Level, seed: int) -> tuple[list[pa.RecordBatch], int]:
    """Batches, and how many outputs to make at a time; most levels read the same ones, which are made once."""
    key = seed, tuple(level.inputs()), level.read()
    if key not in _MADE:
        random_ = random.Random(seed)
        spread = random_.choice([1, 3, 40, 400])
        batches = [some_rows(level, random_, random_.choice([1, 5, 40, 120]), spread) for _ in range(4)]
        _MADE[key] = batches, random_.choice([5, 70, 1 << 18])
    return _MADE[key]


def in_row_forms(level: Level) -> Level:
    return Level(tuple(map(in_row_form, level.operators)), level.alive)


def through(runners: list[PageRunner], batches: list[pa.RecordBatch]) -> tuple[list[dict[str, Any]], State]:
    """The outputs and the state of batches, run in turns; the state is encoded and decoded between them."""
    state: State = {}
    made = []
    for batch, runner in zip(batches, cycle(runners), strict=False):
        for out in runner.run(batch, 3, state):
            out.validate(full=True)
            made += out.to_pylist()
        state = load_state(dump_state(state))
    return made, state


def in_key_order(state: State) -> str:
    """A state as text, without the order of its groups."""
    return repr([(name, _sorted(name, own)) for each in state.values() for name, own in sorted(each.items())])


def _sorted(name: str, own: Any) -> Any:
    if name == "windows":
        return [(start, [*unpacked(own[start]).items()]) for start in own]
    return sorted(own.items()) if name == "groups" else own


_ENDED = [
    (window, end)
    for window in ("", *_WINDOWS.values())
    for end in _ENDS
    if (window or not end.startswith("EMIT"))
    and (end != _UNCACHED or ("SESSION" not in window and "RETENTION" in window))
]


def some_parameters() -> Iterator[Any]:
    """Keys of two columns with every change, and one of the others in turn; all keys and more seeds every night."""
    names = {"": "none", **{window: name for name, window in _WINDOWS.items()}}
    for (at, (window, end)), (number, keys) in product(enumerate(_ENDED), enumerate(_KEYS)):
        daily = keys == "two" or at % 2 == number
        for seeds, marks in ((range(1), () if daily else pytest.mark.nightly), (range(1, 12), pytest.mark.nightly)):
            name = f"{keys}-{names[window]} {end.split(' ')[0]}{'-uncached' * (end == _UNCACHED)}".strip()
            yield pytest.param(keys, window, end, seeds, id=f"{name}-{len(seeds)}", marks=marks)


@pytest.mark.parametrize(("keys", "window", "end", "seeds"), [*some_parameters()])
def test_aggregates_over_batches_give_the_results_of_single_rows(
    keys: str, window: str, end: str, seeds: range, monkeypatch: pytest.MonkeyPatch
) -> None:
    level = level_of(keys, end, window)
    assert any(handle.has_old for handle in [level.operators[0].output]) == end.startswith("HAVING")
    for seed in seeds:
        batches, most = some_batches(level, seed)
        monkeypatch.setattr(windows_module, "MOST_ENTRIES", most)
        monkeypatch.setattr(codec_module, "BUCKETED_FROM", 4)
        monkeypatch.setattr(page_module, "BUCKETED_FROM", 4)
        monkeypatch.setattr(folding_module, "COLUMNS_FROM", (1, 20)[seed % 2])
        runner, plain = PageRunner(level), PageRunner(in_row_forms(level))
        whole, single = through([runner], batches), through([plain], batches)
        # Text tells -0.0 from 0.0 and knows NaN.
        assert repr(whole[0]) == repr(single[0])
        assert in_key_order(whole[1]) == in_key_order(single[1])
        in_turns = through([plain, runner], batches)
        assert repr(in_turns[0]) == repr(single[0])
        assert in_key_order(in_turns[1]) == in_key_order(single[1])


_LATE_MS = (0, 100, 1, 2, 92, 200, 3)


@pytest.mark.rules("O8.2", "O8.7", "E6.2", "E12.2.1")
@pytest.mark.parametrize("end", ["", "EMIT FINAL"])
@pytest.mark.parametrize(
    ("window", "first", "count"),
    [
        ("TUMBLING (SIZE 10 MILLISECONDS, GRACE PERIOD 5 MILLISECONDS)", (0, 10), 3),
        # 92 is too late for the window from 85 to 95.
        ("HOPPING (SIZE 10 MILLISECONDS, ADVANCE BY 5 MILLISECONDS, GRACE PERIOD 5 MILLISECONDS)", (0, 10), 4),
        ("SESSION (10 MILLISECONDS, GRACE PERIOD 5 MILLISECONDS)", (1, 1), 3),
    ],
    ids=["tumbling", "hopping", "session"],
)
def test_late_rows_are_counted(window: str, first: tuple[int, int], count: int, end: str) -> None:
    level = level_of("one", end, f"WINDOW {window}")
    rows = some_rows(level, random.Random(1), len(_LATE_MS), 1)
    ((relation, _),) = level.inputs().items()
    row = {"k": {"K": 1}, "v": {"I": 1}}
    columns = {"ts": pa.array(_LATE_MS), "ordinal": pa.array([[at] for at in range(len(_LATE_MS))])}
    columns |= {"off": pa.array(range(len(_LATE_MS)), pa.int64())}
    columns |= {struct_column(relation): pa.array([row] * len(_LATE_MS), rows.column(struct_column(relation)).type)}
    arrays = [columns.get(field.name, rows.column(field.name)) for field in rows.schema]
    made, state = through([PageRunner(level)], [pa.RecordBatch.from_arrays(arrays, schema=rows.schema)])
    ((told,),) = [row["log"] for row in made if row["log"]]
    (cause,) = [row["off"] for row in made if row["log"]]
    assert (told["kind"], told["record"], cause) == (LATE, str(count), 2)
    assert told["message"].endswith(f"timestamp=[1] window=[{first[0]},{first[1]}] grace=[5] streamTime=[100]")
    assert not any("late" in own for own in state.values() if isinstance(own, dict))


def test_parts_of_a_batch_without_null_are_like_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    level = level_of("one", window="WINDOW TUMBLING (SIZE 1 SECONDS)")
    ((relation, _),) = level.inputs().items()
    given = [row for row in some_rows(level, random.Random(1), 300, 5).to_pylist() if _is_whole(row[f"r{relation}"])]
    rows = pa.RecordBatch.from_pylist(given, schema=level.read())
    whole = through([PageRunner(level)], [rows])
    monkeypatch.setattr(windows_module, "MOST_ENTRIES", 70)
    assert repr(through([PageRunner(level)], [rows])) == repr(whole)


def _is_whole(row: dict[str, Any]) -> bool:
    return bool(row["v"] and row["k"] and row["k"]["K"] is not None)


def test_rows_of_many_windows_are_not_all_in_memory_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    level = level_of("one", window="WINDOW HOPPING (SIZE 1 DAYS, ADVANCE BY 1 MINUTES)")
    rows = some_rows(level, random.Random(1), 300, 5)
    monkeypatch.setattr(windows_module, "MOST_ENTRIES", 1440 * 20)
    sizes = []
    process = TimeWindowAggregate.process

    def watched(self: TimeWindowAggregate, *given: Any) -> Iterator[Results]:
        for results in process(self, *given):
            sizes.append(len(results.causes))
            yield results

    monkeypatch.setattr(TimeWindowAggregate, "process", watched)
    for _ in PageRunner(level).run(rows, 3, {}):
        pass
    assert len(sizes) > 5
    assert max(sizes) <= 1440 * 20
