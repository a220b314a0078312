"""The changelogs of a query of ksqlDB become the state of its operators, with which it goes on."""

from __future__ import annotations

import json
import struct
from base64 import b64encode
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import yaml

from kestrel_sql.dataflow.build import build_graph
from kestrel_sql.dataflow.query_run import QueryRun
from kestrel_sql.dataflow.rows import Output
from kestrel_sql.errors import QueryError
from kestrel_sql.functions.table import FUNCTIONS
from kestrel_sql.kafka.client.positions import Position
from kestrel_sql.kafka.run.adoption import check_history, check_rebuild
from kestrel_sql.kafka.takeover.left import Committed, Left
from kestrel_sql.kafka.takeover.take_over import Taken, take_over
from kestrel_sql.plan.codec.plan_file import load_plan
from kestrel_sql.process.query import ProcessQuery
from kestrel_sql.session.session import Session
from kestrel_sql.topics.records import Record
from kestrel_sql.types.time_units import DAY_MS

SOURCES = """
CREATE STREAM s (k STRING KEY, v INT, c STRING) WITH (KAFKA_TOPIC='s', VALUE_FORMAT='JSON', PARTITIONS=1);
CREATE STREAM s2 (k STRING KEY, w INT) WITH (KAFKA_TOPIC='s2', VALUE_FORMAT='JSON', PARTITIONS=1);
CREATE TABLE t (k STRING PRIMARY KEY, v INT, c STRING) WITH (KAFKA_TOPIC='t', VALUE_FORMAT='JSON', PARTITIONS=1);
CREATE TABLE t2 (k STRING PRIMARY KEY, w INT) WITH (KAFKA_TOPIC='t2', VALUE_FORMAT='JSON', PARTITIONS=1);
"""
REFUSED = yaml.safe_load(Path(__file__).with_name("refused.yaml").read_text(encoding="utf-8"))
PLANS = Path(__file__).parents[4] / "historic-plans"
AGGREGATE = "Aggregate-Aggregate-Materialize-changelog"
GROUPED = "Aggregate-GroupBy-repartition"


@dataclass
class Query:
    """A query, what it left, and what it writes after it was taken over."""

    statement: str
    left: dict[str, list[Record]] = field(default_factory=dict)
    committed: dict[Position, Committed] = field(default_factory=dict)
    sink: list[Record] = field(default_factory=list)
    first: dict[Position, int] = field(default_factory=dict)
    plan: str = ""
    """The folder of a stored plan, in place of a statement."""

    def add(self, topic: str, *records: tuple[bytes, Any, int]) -> None:
        """Add records: key, value as JSON or bytes, timestamp."""
        own = self.left.setdefault(f"q-{topic}", [])
        for key, value, timestamp in records:
            data = value if isinstance(value, bytes | None) else json.dumps(value).encode()
            own.append(Record(topic=f"q-{topic}", key=key, value=data, timestamp=timestamp, offset=len(own)))

    def taken(self) -> Taken:
        left = Left(
            prefix="q-",
            records=self.left,
            committed=self.committed,
            sink=lambda: self.sink,
            first=self.first,
            now=2 * DAY_MS + 1,
        )
        return take_over(self._graph(), 1, left, lambda spec: spec)

    def goes_on(self, *rows: tuple[str, str, Any, int]) -> Sequence[tuple[bytes | None, Any, int]]:
        """What it writes: what was in flight, and what rows (topic, key, value, timestamp) give."""
        taken, output = self.taken(), Output()
        process = ProcessQuery(self._graph())
        process.restore(taken.states)
        process.process(
            [
                Record(topic=topic, key=key.encode(), value=json.dumps(value).encode(), timestamp=timestamp)
                for topic, key, value, timestamp in rows
            ],
            output,
        )
        return [
            (each.key, None if each.value is None else json.loads(each.value), each.timestamp)
            for each in [*taken.records, *output.records]
        ]

    def _graph(self) -> Any:
        session = Session()
        if self.plan:
            for each in load_plan((PLANS / self.plan / "plan.json").read_text(encoding="utf-8")).statements:
                session.execute_plan(each)
        for parsed in [] if self.plan else session.parse(SOURCES + self.statement):
            session.execute(parsed)
        *_, query = session.queries.values()
        return build_graph([QueryRun(plan=query.plan, settings=query.config)], FUNCTIONS)


def group(variables: Sequence[Any], **columns: Any) -> Mapping[str, Any]:
    return {**columns, **{f"KSQL_AGG_VARIABLE_{at}": value for at, value in enumerate(variables)}}


def test_aggregates_go_on_from_their_intermediates() -> None:
    query = Query(
        "CREATE TABLE r AS SELECT k, COUNT(*) AS n, AVG(v) AS a, LATEST_BY_OFFSET(v) AS l, EARLIEST_BY_OFFSET(v, 2) AS e,"
        " STDDEV_SAMP(v) AS d, ATTR(c) AS r, HISTOGRAM(c) AS h, CORRELATION(v, v) AS co FROM s GROUP BY k;"
    )
    states = [
        2,
        {"SUM": 6, "COUNT": 2},
        {"SEQ": 9, "VAL": 4},
        [{"SEQ": 3, "VAL": 2}, {"SEQ": 9, "VAL": 4}],
        {"SUM": 6, "COUNT": 2, "M2": 2.0},
        [{"VALUE": "x", "COUNT": 2}],
        {"x": 2},
        {"X_SUM": 6.0, "Y_SUM": 6.0, "X_SQUARED_SUM": 20.0, "Y_SQUARED_SUM": 20.0, "XY_SUM": 20.0, "COUNT": 2},
    ]
    query.add(AGGREGATE, (b"a", group([1], K="a"), 5), (b"a", group(states, K="a", V=4, C="x", ROWTIME=8), 8))
    (written,) = query.goes_on(("s", "a", {"v": 6, "c": "x"}, 7))
    result = {"N": 3, "A": 4.0, "L": 6, "E": [2, 4], "D": 4.0, "R": "x", "H": {"x": 3}, "CO": 1.0}
    assert written == (b"a", result, 8)


def test_windows_keep_their_bounds_and_those_that_are_emitted_stay_out() -> None:
    query = Query(
        "CREATE TABLE r AS SELECT k, COUNT(*) AS n FROM s"
        " WINDOW TUMBLING (SIZE 10 MILLISECONDS, GRACE PERIOD 5 MILLISECONDS) GROUP BY k EMIT FINAL;"
    )
    query.add(
        AGGREGATE,
        *(
            (b"a" + struct.pack(">qi", start, 0), group([2], K="a", ROWTIME=start + 1), start + 1)
            for start in (0, 10, 60)
        ),
    )
    query.committed["s", 0] = Committed(9, 61, {"Aggregate-Aggregate-Materialize": 10})
    written = query.goes_on(("s", "a", {"v": 1}, 62), ("s", "a", {"v": 1}, 90))
    assert written == [
        (b"a" + struct.pack(">q", 10), {"N": 2}, 11),
        (b"a" + struct.pack(">q", 60), {"N": 3}, 62),
    ]


def test_sessions_grow_on_and_those_that_have_grown_are_gone() -> None:
    query = Query("CREATE TABLE r AS SELECT k, COUNT(*) AS n FROM s WINDOW SESSION (10 MILLISECONDS) GROUP BY k;")
    query.add(
        AGGREGATE,
        (b"a" + struct.pack(">qq", 3, 3), group([1], K="a", ROWTIME=3), 3),
        (b"a" + struct.pack(">qq", 3, 3), None, 8),
        (b"a" + struct.pack(">qq", 8, 3), group([2], K="a", ROWTIME=8), 8),
    )
    written = query.goes_on(("s", "a", {"v": 1}, 12))
    assert written == [
        (b"a" + struct.pack(">qq", 8, 3), None, 8),
        (b"a" + struct.pack(">qq", 12, 3), {"N": 3}, 12),
    ]


def test_rows_of_a_join_of_streams_wait_on_for_their_partners() -> None:
    query = Query(
        "CREATE STREAM r AS SELECT s.k, s.v, s2.w FROM s LEFT JOIN s2"
        " WITHIN 10 MILLISECONDS GRACE PERIOD 5 MILLISECONDS ON s.k = s2.k;"
    )

    def row(v: int) -> dict[str, Any]:
        return {"S_V": v, "S_C": None, "S_ROWTIME": 4, "S_ROWPARTITION": 0, "S_ROWOFFSET": 1, "S_K": "a"}

    waiting = json.dumps(row(2)).encode()
    query.add("KSTREAM-JOINTHIS-0000000008-store-changelog", (b"a" + struct.pack(">qi", 4, 1), row(2), 4))
    query.add("KSTREAM-OUTEROTHER-0000000009-store-changelog")
    query.add(
        "KSTREAM-OUTERSHARED-0000000008-store-changelog",
        (struct.pack(">q?", 4, True) + b"a", b"\1" + struct.pack(">ii", 1, 1 + len(waiting)) + b"\1" + waiting, 4),
        (struct.pack(">q?", 2, True) + b"a", None, 4),
    )
    assert query.goes_on(("s2", "a", {"w": 7}, 9), ("s2", "b", {"w": 7}, 60)) == [(b"a", {"V": 2, "W": 7}, 9)]
    assert query.goes_on(("s2", "b", {"w": 7}, 60)) == [(b"a", {"V": 2, "W": None}, 4)]


def table_row(**columns: Any) -> dict[str, Any]:
    return {**columns, "ROWPARTITION": 0, "ROWOFFSET": 3}


def test_tables_of_a_join_have_their_rows() -> None:
    query = Query("CREATE TABLE r AS SELECT t.k, t.v, t2.w FROM t LEFT JOIN t2 ON t.k = t2.k;")
    query.add("KafkaTopic_Left-Reduce-changelog", (b"a", table_row(V=1, C=None), 6), (b"b", table_row(V=2, C=None), 6))
    query.add(
        "KafkaTopic_Right-Reduce-changelog", (b"a", table_row(W=3), 4), (b"b", table_row(W=3), 4), (b"b", None, 5)
    )
    query.add("Project-Last-changelog", (b"a", {"T_K": "a"}, 6))
    written = query.goes_on(("t2", "b", {"w": 5}, 3), ("t", "a", {"v": 9}, 9))
    assert written == [(b"b", {"V": 2, "W": 5}, 6), (b"a", {"V": 9, "W": 3}, 9)]


def test_the_table_that_a_stream_is_joined_with_has_its_rows() -> None:
    query = Query("CREATE STREAM r AS SELECT s.k, s.v, t.c FROM s LEFT JOIN t ON s.k = t.k;")
    query.add("KafkaTopic_Right-Reduce-changelog", (b"a", table_row(V=1, C="x"), 6))
    assert query.goes_on(("s", "a", {"v": 2}, 3)) == [(b"a", {"S_V": 2, "T_C": "x"}, 3)]


def test_work_in_flight_to_another_partition_is_done_once() -> None:
    query = Query("CREATE TABLE r AS SELECT c, SUM(v) AS n FROM s GROUP BY c;")
    query.add(AGGREGATE, (b"x", group([5], C="x", V=5), 4))
    query.add(GROUPED, *((b"x", {"C": "x", "V": v}, v) for v in (5, 6, 7)))
    query.committed["q-" + GROUPED, 0] = Committed(1)
    assert query.goes_on() == [(b"x", {"N": 11}, 6), (b"x", {"N": 18}, 7)]
    assert query.taken().drained == {("q-" + GROUPED, 0): 3}


def test_changes_of_a_table_in_flight_take_back_and_add() -> None:
    query = Query("CREATE TABLE r AS SELECT c, COUNT(*) AS n, SUM(v) AS total FROM t GROUP BY c;")
    query.add("KsqlTopic-Reduce-changelog", (b"a", table_row(V=1, C="x"), 6))
    query.add(AGGREGATE, (b"x", group([2, 5], C="x", V=5), 4))
    old, new = (json.dumps({"C": "x", "V": v, "ROWTIME": 6}).encode() for v in (4, 1))
    both = bytes([2 * len(new)]) + new + old + b"\2"
    query.add(GROUPED, (b"x", both, 6), (b"x", old + b"\0", 7), (b"y", new + b"\1", 8))
    assert query.goes_on() == [
        (b"x", {"N": 2, "TOTAL": 2}, 6),
        (b"x", {"N": 1, "TOTAL": -2}, 7),
        (b"y", {"N": 1, "TOTAL": 1}, 8),
    ]


def test_answers_of_a_foreign_key_join_in_flight_are_computed_anew() -> None:
    query = Query("CREATE TABLE r AS SELECT t.k, t.v, t2.w FROM t JOIN t2 ON t.c = t2.k;")
    query.add("KafkaTopic_Left-Reduce-changelog", *((key, table_row(V=1, C="x"), 6) for key in (b"a", b"b")))
    query.add("KafkaTopic_Right-Reduce-changelog", (b"x", table_row(W=3), 4))
    query.add("KTABLE-FK-JOIN-SUBSCRIPTION-STATE-STORE-0000000010-changelog", (b"x", b"", 1))
    query.sink = [
        Record(topic="R", key=b"a", value=json.dumps({"V": 1, "W": 3}, separators=(",", ":")).encode(), timestamp=6),
        Record(topic="R", key=b"c", value=b"{}", timestamp=6),
    ]
    assert query.goes_on() == []
    query.add("KTABLE-FK-JOIN-SUBSCRIPTION-RESPONSE-0000000018-topic", (b"b", b"\x80", 6))
    assert query.goes_on() == [(b"b", {"V": 1, "W": 3}, 6), (b"c", None, 6)]


@pytest.mark.parametrize("each", REFUSED, ids=[each["kind"] for each in REFUSED])
def test_what_cannot_be_taken_over_is_refused_as_a_whole_with_what_to_try(each: Mapping[str, Any]) -> None:
    query = Query(each.get("query", ""), plan=each.get("plan", ""))
    for topic, records in each["topics"].items():
        query.add(topic, *((key.encode(), value.encode(), 5) for key, value in records))
    with pytest.raises(QueryError, match=each["why"]) as refused:
        query.taken()
    why, read = refused.value.message, {("s", 0): 9}
    with pytest.raises(QueryError) as whole:
        check_rebuild("Q", {("s", 0): 0}, read, refused.value)
    assert whole.value.message == f"Q cannot be taken over: {why}; and ksqlDB had read s-0 to 9"
    assert "--rebuild" in (whole.value.hint or "")
    with pytest.raises(QueryError) as trimmed:
        check_history("Q", {("s", 0): 4}, read, refused.value)
    assert "s-0 begins at 4, and ksqlDB had read to 9" in trimmed.value.message
    assert "drop it in ksqlDB and create it here" in (trimmed.value.hint or "")


def test_a_record_of_a_store_that_cannot_be_read_is_named() -> None:
    query = Query("CREATE TABLE r AS SELECT k, COUNT(*) AS n FROM s GROUP BY k;")
    query.add(AGGREGATE, (b"a", group([1], K="a"), 5), (b"b", b"{", 5))
    with pytest.raises(QueryError, match="partition 0, offset 1"):
        query.taken()


@pytest.mark.parametrize(("time", "is_lost"), [(DAY_MS, True), (2 * DAY_MS, False)])
def test_windows_that_the_broker_has_deleted_by_their_time_are_missed(time: int, is_lost: bool) -> None:
    query = Query("CREATE TABLE r AS SELECT k, COUNT(*) AS n FROM s WINDOW TUMBLING (SIZE 10 SECONDS) GROUP BY k;")
    query.add(AGGREGATE)
    query.committed["s", 0] = Committed(9, time)
    query.first["q-" + AGGREGATE, 0] = 4
    with pytest.raises(QueryError, match="deleted records") if is_lost else nullcontext():
        query.taken()


def test_metadata_of_an_offset_tell_stream_time_and_what_is_emitted() -> None:
    plain = struct.pack(">bq", 2, 77)
    text = b64encode(plain)
    assert Committed.of(5, text, is_final=False) == Committed(5, 77)
    # librdkafka may hand over bytes of other memory behind it.
    assert Committed.of(5, text + b"AAAAxQ\xff", is_final=False) == Committed(5, 77)
    final = b64encode(plain + struct.pack(">ii2sq", 1, 2, b"St", 60))
    assert Committed.of(5, final + b"\x01", is_final=True) == Committed(5, 77, {"St": 60})
    assert Committed.of(5, b"", is_final=True) == Committed(5)
