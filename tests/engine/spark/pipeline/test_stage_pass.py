"""A stage changes the rows of its relations only, and loses no entry of the processing log."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from kestrel_sql.dataflow.query_run import QueryRun
from kestrel_sql.session.session import Session
from kestrel_sql.spark.envelope import LOG_ONLY, rows_of
from kestrel_sql.spark.pipeline.pipeline import Pipeline, build_pipeline
from kestrel_sql.spark.pipeline.stage_pass import run_stage

SOURCE = "CREATE STREAM S (K STRING KEY, A INT, L ARRAY<INT>) WITH (KAFKA_TOPIC='s', VALUE_FORMAT='JSON');"
ENTRY = {"kind": 0, "logger": "l", "message": "m", "cause": [], "record": None}


def built(text: str) -> Pipeline:
    session = Session()
    for parsed in session.parse(SOURCE + text):
        session.execute(parsed)
    runs = [QueryRun(plan=each.plan, settings=each.config, serde=session.serde()) for each in session.queries.values()]
    return build_pipeline(runs)


def row(ordinal: int, key: str | None, a: int | None, items: list[int | None], **more: Any) -> dict[str, Any]:
    value = {"A": a, "L": items, "ROWTIME": 5, "ROWPARTITION": 0, "ROWOFFSET": ordinal, "K": key}
    return {
        "rel": 0,
        "q": 0,
        "ordinal": [ordinal, 0],
        "ts": 5,
        "headers": [{"key": "h", "value": b"1"}],
        "topic": "s",
        "part": 0,
        "off": ordinal,
        "task": 0,
        "log": [],
        "r0": {"k": {"K": key}, "v": value},
        **more,
    }


def after(pipeline: Pipeline, rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The rows after the first stage."""
    given = pa.RecordBatch.from_pylist(rows, schema=rows_of(pipeline.graph.entering(0)))
    (made,) = run_stage(pipeline.graph.stages[0])(iter([given]))
    found: list[dict[str, Any]] = made.to_pylist()
    return found


def test_the_envelope_of_a_row_stays() -> None:
    pipeline = built("CREATE STREAM O AS SELECT K, A + 1 AS B FROM S WHERE A > 1;")
    (left,) = after(pipeline, [row(0, "x", 1, []), row(1, "y", 2, [])])
    assert left["r0"] == {"k": {"K": "y"}, "v": {"B": 3}}
    assert (left["ordinal"], left["off"], left["headers"]) == ([1, 0], 1, [{"key": "h", "value": b"1"}])


def test_each_relation_has_its_own_steps() -> None:
    pipeline = built("CREATE STREAM O AS SELECT K, A FROM S WHERE A > 1; CREATE STREAM P AS SELECT K, A FROM S;")
    other = row(0, "x", 1, [])
    made = after(pipeline, [other, {**other, "rel": 1, "q": 1, "r0": None, "r1": other["r0"]}])
    assert [(each["rel"], each["r0"], each["r1"]) for each in made] == [(1, None, {"k": {"K": "x"}, "v": {"A": 1}})]


def test_a_dropped_row_leaves_its_entries() -> None:
    pipeline = built("CREATE STREAM O AS SELECT * FROM S WHERE A / 0 > 1;")
    (left,) = after(pipeline, [row(0, "x", 1, [], log=[ENTRY])])
    assert (left["rel"], left["r0"], left["off"]) == (LOG_ONLY, None, 0)
    assert [each["message"] for each in left["log"]] == ["m", "Error evaluating predicate ((A / 0) > 1)"]


def test_rows_of_one_row_are_numbered_and_share_its_entries_once() -> None:
    pipeline = built("CREATE STREAM O AS SELECT K, EXPLODE(L) AS X FROM S;")
    made = after(pipeline, [row(0, "x", 1, [7, None], log=[ENTRY]), row(1, "y", 1, []), row(2, "z", 1, [9])])
    assert [(each["ordinal"], each["r0"]["v"]["X"], len(each["log"])) for each in made] == [
        ([0, 0, 0], 7, 1),
        ([0, 0, 1], None, 0),
        ([2, 0, 0], 9, 0),
    ]


def test_a_row_without_a_relation_passes() -> None:
    pipeline = built("CREATE STREAM O AS SELECT K, A FROM S WHERE A > 1;")
    given = {**row(0, "x", 1, [], log=[ENTRY], rel=LOG_ONLY), "r0": None}
    made = after(pipeline, [given, row(1, "y", 2, [])])
    assert [(each["rel"], len(each["log"])) for each in made] == [(LOG_ONLY, 1), (0, 0)]


@pytest.mark.parametrize("key", [None, "x"])
def test_a_key_can_be_null(key: str | None) -> None:
    pipeline = built("CREATE STREAM O AS SELECT A, K FROM S PARTITION BY A;")
    (left,) = after(pipeline, [row(0, key, None, [])])
    assert left["r0"]["k"] == {"A": None}
    assert left["r0"]["v"] == {"K": key}


def test_many_rows_together_give_what_each_gives_alone() -> None:
    pipeline = built(
        "CREATE STREAM O AS SELECT K, UCASE(K) AS U, CAST(A AS DECIMAL(6, 2)) * 2 AS D, 10 / A AS Q,"
        " CAST(CAST(K AS DECIMAL(8, 3)) AS DECIMAL(6, 2)) AS E, TRANSFORM(L, X => X + A) AS T, STRUCT(A := A) AS R,"
        " INITCAP(LCASE(K)) AS I FROM S WHERE A > 1 OR A = 0;"
        "CREATE STREAM P AS SELECT K, D + 1 AS D, E AS E, T[1] AS F, R->A AS A FROM O WHERE U LIKE '1%';"
    )
    rows = [row(at, str(at), at % 5, [at, 1 if at % 7 else None]) for at in range(300)]
    together = after(pipeline, rows)
    assert together == [each for one in rows for each in after(pipeline, [one])]
    assert {len(each["log"]) for each in together} == {0, 1, 2}
