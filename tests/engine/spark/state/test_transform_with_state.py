from __future__ import annotations

from typing import Any, ClassVar

import pyarrow as pa
import pytest
from pyspark.sql import Row

from kestrel_sql.errors import QueryError
from kestrel_sql.operators.operator import Scope, State
from kestrel_sql.spark.io.arrow_passes import Batches, Pass, Passes
from kestrel_sql.spark.io.blobs import read_rows, write_rows
from kestrel_sql.spark.state.level import Level
from kestrel_sql.spark.state.packing import pack_batches, unpack_batches
from kestrel_sql.spark.state.transform_with_state import Host, apply_level
from tests.engine.operators.row_forms.row_operator import Output
from tests.engine.operators.row_forms.row_operator import Row as OperatorRow
from tests.engine.spark.state.level_samples import Summing, batch, level, row


class Store:
    """A state variable in memory."""

    def __init__(self) -> None:
        self.value: Any = None
        self.updates = 0

    def get(self) -> Any:
        return self.value

    def update(self, value: Any) -> None:
        self.value = value
        self.updates += 1


class Handles:
    def __init__(self, store: Store) -> None:
        self.store = store

    def getValueState(self, name: str, schema: Any) -> Store:  # noqa: N802 - Spark's name
        return self.store


class Frame:
    """Keeps the processor that Spark is to run."""

    processor: Any = None

    def mapInArrow(self, function: Pass, schema: str) -> Frame:  # noqa: N802 - Spark's name
        return self

    def groupBy(self, *columns: str) -> Frame:  # noqa: N802 - Spark's name
        return self

    def transformWithState(self, *, statefulProcessor: Any, **given: Any) -> Frame:  # noqa: N802, N803 - Spark's names
        self.processor = statefulProcessor
        return self


def processed(host: Host, chosen: Level, batches: list[pa.RecordBatch]) -> list[dict[str, Any]]:
    """Pass rows through packing and the host as Spark does, with one page."""
    packed = [
        Row(**each) for one in batches for done in pack_batches(chosen, [1])(iter([one])) for each in done.to_pylist()
    ]
    assert {(each["task"], each["page"]) for each in packed} <= {(0, 0)}
    return [out.asDict() for out in host.handleInputRows((0, 0), iter(packed), None)]


def run(store: Store, *rows: dict[str, Any], over: Level | None = None, cut: int = 1000) -> list[dict[str, Any]]:
    """Pass rows through packing, the host and unpacking as Spark does, with one page."""
    chosen = over or level()
    host = Host(chosen)
    host.init(Handles(store))  # type: ignore[arg-type]
    batches = [batch(list(rows[at : at + cut])) for at in range(0, len(rows), cut)]
    made = processed(host, chosen, batches)
    columns = {name: [out[name] for out in made] for name in ("passing", "rows")}
    given = pa.RecordBatch.from_pydict(columns, schema=pa.schema([("passing", pa.bool_()), ("rows", pa.binary())]))
    return [each for done in unpack_batches(chosen)(iter([given])) for each in done.to_pylist()]


def test_rows_are_processed_in_the_order_of_ordinals_however_they_arrive() -> None:
    for cut in (1, 2, 3):
        out = run(Store(), row(3), row(1), row(2), cut=cut)
        assert [(o["ordinal"], o["r2"]["k"], o["r2"]["v"]["A"]) for o in out] == [
            ([1, 0], {"K": "x"}, 1),
            ([2, 0], {"K": "x"}, 3),
            ([3, 0], {"K": "x"}, 6),
        ]


def test_an_output_has_headers_topic_and_offset_of_its_cause() -> None:
    headers = [{"key": "h", "value": b"1"}, {"key": "h", "value": None}]
    (out,) = run(Store(), row(1, headers=headers, topic="t", part=3, off=7, ts=99))
    assert (out["headers"], out["topic"], out["part"], out["off"], out["ts"]) == (headers, "t", 3, 7, 99)


def test_the_next_batch_sees_the_state() -> None:
    store = Store()
    run(store, row(1), row(2))
    assert [o["r2"]["v"]["A"] for o in run(store, row(3))] == [6]


def test_a_page_that_a_batch_does_not_change_is_not_written_again() -> None:
    store = Store()
    run(store, row(1))
    run(store, row(2, r1={"k": {"K": "x"}, "v": None}))
    assert store.updates == 1
    run(store, row(3))
    assert store.updates == 2


def test_the_state_of_another_plan_is_refused() -> None:
    class Counting(Summing):
        scope: ClassVar[Scope] = Scope.KEY

    store = Store()
    run(store, row(1))
    with pytest.raises(QueryError, match=r"(?s)another plan.*Summing.*Counting"):
        run(store, row(2), over=level(Counting()))


@pytest.mark.parametrize("blob", [b"", b"\x09\x80", b"\x01\xc1"])
def test_a_state_that_cannot_be_read_is_refused(blob: bytes) -> None:
    store = Store()
    store.value = (blob,)
    with pytest.raises(QueryError, match="the stored state of an operator"):
        run(store, row(1))


def test_rows_of_other_relations_pass_unchanged() -> None:
    store = Store()
    (out,) = run(store, row(4, relation=9, log=[{"kind": 1, "logger": "l", "message": "m"}]))
    assert (out["rel"], out["ordinal"], out["r9"]["v"], len(out["log"])) == (9, [4], {"A": 4}, 1)
    assert store.value is None


def test_a_failing_operator_ends_its_query_once_and_says_where() -> None:
    store = Store()
    first, last = run(store, row(1), row(2, topic="t", off=5, r1={"k": {"K": "x"}, "v": {"A": -1}}), row(3))
    assert first["r2"]["v"] == {"A": 1}
    assert (last["rel"], last["topic"], last["off"]) == (-1, "t", 5)
    assert last["log"][0]["kind"] == 4
    assert "negative" in last["log"][0]["message"]
    assert run(store, row(4)) == []


def test_a_result_that_does_not_fit_its_column_ends_its_query_once() -> None:
    store = Store()
    big = {"k": {"K": "x"}, "v": {"A": 2**31 - 1}}
    first, last = run(store, row(1, r1=big), row(2, r1=big), row(3))
    assert first["r2"]["v"] == {"A": 2**31 - 1}
    assert last["ordinal"] == [2]
    assert last["log"][0]["kind"] == 4
    assert run(store, row(4)) == []


def test_a_key_whose_column_is_null_is_a_key() -> None:
    assert run(Store(), row(1, r1={"k": None, "v": {"A": 1}})) == []
    (found,) = run(Store(), row(1, r1={"k": {"K": None}, "v": {"A": 1}}))
    assert found["r2"]["k"] == {"K": None}


def test_log_entries_are_written_once_before_the_row_is_processed() -> None:
    entry = {"kind": 1, "logger": "l", "message": "m", "cause": ["c"], "record": "[1]"}
    dead, alive = run(Store(), row(1, log=[entry]))
    assert (dead["rel"], dead["log"]) == (-1, [entry])
    assert (alive["rel"], alive["log"]) == (2, [])


def test_an_operator_may_give_many_rows_or_a_tombstone() -> None:
    class Twice(Summing):
        scope: ClassVar[Scope] = Scope.KEY

        def process_row(self, row: OperatorRow, state: State) -> list[Output]:
            return [Output(row.key, None, 5, window=(1, 2)), Output(None, (7,), 6)]

    first, second = run(Store(), row(1), over=level(Twice()))
    assert (first["r2"], first["ws"], first["we"], first["ts"]) == ({"k": {"K": "x"}, "v": None}, 1, 2, 5)
    assert (second["r2"], second["ws"], second["ordinal"]) == ({"k": None, "v": {"A": 7}}, None, [1, 1])
    assert second["ts"] == 6


def in_blobs(batches: Batches) -> Batches:
    for each in batches:
        yield pa.RecordBatch.from_pydict({"size": [each.num_rows], "rows": [write_rows(each)]})


def test_a_host_can_take_the_passes_that_follow_and_gives_them_the_same_rows() -> None:
    rows = [row(2), row(4, relation=9), row(1, log=[{"kind": 1, "logger": "l", "message": "m"}])]
    store, chosen = Store(), level()
    host = Host(chosen, in_blobs)
    host.init(Handles(store))  # type: ignore[arg-type]
    made = processed(host, chosen, [batch(rows)])
    assert [each["size"] for each in made] == [4]
    assert read_rows(made[0]["rows"], chosen.after()).to_pylist() == run(Store(), *rows)
    assert store.updates == 1


@pytest.mark.parametrize(
    ("scope", "schema", "takes"),
    [
        (Scope.TASK, "slot INT, rows BINARY", True),
        (Scope.QUERY, "slot INT, rows BINARY", True),
        (Scope.KEY, "slot INT, rows BINARY", True),
        (Scope.TASK, "key BINARY, value BINARY", False),
    ],
)
def test_a_page_takes_the_passes_that_follow_only_to_make_blobs(scope: Scope, schema: str, takes: bool) -> None:
    class Scoped(Summing):
        pass

    Scoped.scope = scope
    frame: Any = Frame()
    apply_level(Passes(frame), level(Scoped()), [1]).through(in_blobs).frame(schema)
    frame.processor.init(Handles(Store()))
    (made,) = processed(frame.processor, level(), [batch([row(1)])])
    assert ("size" in made) == takes
