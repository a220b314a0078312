from __future__ import annotations

from typing import Any

from pyspark.sql import Row

from engine.plan.step import FormatInfo
from engine.spark.group import Stateful
from engine.spark.handles import Handle, KeyCodec
from engine.spark.host import Host
from engine.spark.stage import ENVELOPE
from engine.state.operator import Output, State
from engine.state.operator import Row as OperatorRow
from engine.types import sql_types as t
from engine.types.schema import Column, Role, Schema

SCHEMA = Schema((Column("K", t.STRING, Role.KEY), Column("A", t.INTEGER)))
COLUMNS = [*ENVELOPE, "r1", "r2", "r9"]


def handle(relation: int, level: int) -> Handle:
    return Handle(relation=relation, level=level, schema=SCHEMA, key_codec=KeyCodec(format=FormatInfo("KAFKA")))


class Summing:
    """Adds up A per key; a negative number is one too many."""

    def process(self, row: OperatorRow, state: State) -> list[Output]:
        if row.value is None or row.key is None:
            return []
        if row.value[0] < 0:
            raise ValueError("negative")
        state[row.key[0]] = state.get(row.key[0], 0) + row.value[0]
        return [Output(row.key, (state[row.key[0]],), row.timestamp)]


class Store:
    """A value state in memory."""

    def __init__(self) -> None:
        self.value: Any = None

    def get(self) -> Any:
        return self.value

    def update(self, value: Any) -> None:
        self.value = value


class Handles:
    def __init__(self, store: Store) -> None:
        self.store = store

    def getValueState(self, name: str, schema: Any) -> Store:  # noqa: N802 - Spark's name
        return self.store


def row(place: int, relation: int = 1, **more: Any) -> Row:
    struct = {"k": {"K": "x"}, "v": {"A": place}}
    given: dict[str, Any] = dict.fromkeys([*ENVELOPE, "r1", "r9", "task", "page"])
    given |= {"rel": relation, "q": 0, "place": [place], "ts": place, "headers": [], "log": [], f"r{relation}": struct, **more}
    return Row(**given)


def run(store: Store, *rows: Row) -> list[dict[str, Any]]:
    level = [Stateful(query=0, operator=Summing(), inputs=(handle(1, 0),), output=handle(2, 1), logger="processing.Q.Sum")]
    host = Host(level, COLUMNS)
    host.init(Handles(store))  # type: ignore[arg-type]
    return [out.asDict() for out in host.handleInputRows((0, 0), iter(rows), None)]


def test_rows_are_handled_in_place_order_whatever_order_they_arrive_in() -> None:
    out = run(Store(), row(3), row(1), row(2))
    assert [(o["place"], o["r2"]["v"]) for o in out] == [([1, 0], (1,)), ([2, 0], (3,)), ([3, 0], (6,))]


def test_the_state_goes_on_in_the_next_batch() -> None:
    store = Store()
    run(store, row(1), row(2))
    assert [o["r2"]["v"] for o in run(store, row(3))] == [(6,)]


def test_rows_of_other_relations_pass_untouched() -> None:
    (out,) = run(Store(), row(4, relation=9))
    assert (out["rel"], out["place"], out["r9"]["v"]) == (9, [4], {"A": 4})


def test_a_failing_operator_ends_its_query_once_and_says_where() -> None:
    store = Store()
    first, last = run(store, row(1), row(2, r1={"k": {"K": "x"}, "v": {"A": -1}}), row(3))
    assert first["r2"]["v"] == (1,)
    assert last["rel"] == -1
    assert last["log"][0]["kind"] == 4
    assert "negative" in last["log"][0]["message"]
    assert run(store, row(4)) == []


def test_a_null_key_column_is_a_null_key() -> None:
    assert run(Store(), row(1, r1={"k": {"K": None}, "v": {"A": 1}})) == []


def test_log_entries_go_out_once_before_the_row_is_handled() -> None:
    entry = {"kind": 1, "logger": "l", "message": "m"}
    dead, alive = run(Store(), row(1, log=[entry]))
    assert (dead["rel"], dead["log"]) == (-1, [entry])
    assert (alive["rel"], alive["log"]) == (2, [])
