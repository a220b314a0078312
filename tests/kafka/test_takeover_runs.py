"""Random queries that are taken over: each kind runs here, the same for the same seed, and differences are told."""

from __future__ import annotations

import re
from collections import Counter

import pytest

from kestrel_sql.session.session import Session
from tests.kafka.takeover_kinds import KINDS, Run
from tests.kafka.takeover_runs import _sorted, difference


@pytest.mark.parametrize(
    "number", range(3 * len(KINDS)), ids=lambda number: f"{[*KINDS][number % len(KINDS)]}-{number}"
)
def test_each_kind_is_a_query_with_records_the_same_for_the_same_seed(number: int) -> None:
    run, again = (Run(5, number, 1000) for _ in range(2))
    text = re.sub(r"VALUE_FORMAT='\w+'", "PARTITIONS=1, VALUE_FORMAT='JSON'", run.statements("p", "service"))
    session = Session()
    for parsed in session.parse(text):
        session.execute(parsed)
    (query,) = session.queries.values()
    assert query.plan.sink == f"P{number}_Q"
    rows = [*run.table_rows(), *run.stream_rows(30), *run.closing_rows()]
    assert rows == [*again.table_rows(), *again.stream_rows(30), *again.closing_rows()]
    assert {source for source, _, _ in rows} == {*run.kind.sources}


def test_a_difference_is_told_with_what_was_written_of_its_key() -> None:
    run = Run(1, 0, 1000)
    run.written += [("s", {"K": "a", "V": 3}, 5), ("s", {"K": "b", "V": 4}, 6)]
    told = difference(run, {(0, b"a"): (b"1", 5), (0, b"b"): (b"2", 6)}, {(0, b"a"): (b"3", 5), (0, b"b"): (b"2", 6)})
    assert told.startswith(f"{run} differs in 1 and 1 records of 2\n  + (0, b'a', b'1', 5)\n  - (0, b'a', b'3', 5)")
    assert "given ('s', {'K': 'a', 'V': 3}, 5)" in told
    assert "'b'" not in told
    told = difference(run, Counter([(0, b"b", b"1", 6)]), Counter([(0, b"b", b"1", 6), (0, b"a", b"1", 5)]))
    assert "differs in 0 and 1 records" in told
    assert difference(run, "it has no store", "goes on") == f"{run} is refused: it has no store"


def test_the_order_of_members_and_the_sign_of_nan_do_not_count() -> None:
    for frame in (b"", b"\0\0\0\0t"):
        assert _sorted(frame + b'{"a":{"y":1,"x":2},"b":1.50}') == frame + b'{"a": {"x": "2", "y": "1"}, "b": "1.50"}'
    assert _sorted(bytes.fromhex("0000000083000000000000f8ff")) == bytes.fromhex("0000000083000000000000f87f")
    assert _sorted(b"{oops") == b"{oops"
    assert _sorted(None) is None
