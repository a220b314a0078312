"""The clients that a process keeps open: of one broker, and not too many."""

from __future__ import annotations

import sys
from concurrent.futures import ThreadPoolExecutor

from kestrel_sql.kafka.client.client_cache import Kept
from kestrel_sql.kafka.client.config import KafkaConfig

ONE, OTHER = KafkaConfig(servers="one:1"), KafkaConfig(servers="other:1")


def test_a_client_stays_open_and_becomes_the_youngest() -> None:
    kept: Kept[str, object] = Kept(2)
    first = kept.get(ONE, "a", object)
    kept.get(ONE, "b", object)
    assert kept.get(ONE, "a", object) is first
    kept.get(ONE, "c", object)
    assert [*kept] == ["a", "c"]


def test_a_client_of_another_broker_closes_all() -> None:
    kept: Kept[str, object] = Kept(9)
    first = kept.get(ONE, "a", object)
    kept.keep(ONE, "b", object())
    assert kept.get(OTHER, "a", object) is not first
    assert [*kept] == ["a"]


def test_a_client_that_was_taken_is_not_kept() -> None:
    kept: Kept[str, object] = Kept(9)
    first = kept.get(ONE, "a", object)
    assert kept.take(OTHER, "a") is None
    assert kept.take(ONE, "a") is first
    assert (kept.take(ONE, "a"), [*kept]) == (None, [])


def test_queries_in_many_threads_may_ask_at_once() -> None:
    kept: Kept[int, object] = Kept(3)
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        with ThreadPoolExecutor(8) as threads:
            assert all(threads.map(lambda number: kept.get(ONE, number % 50, object) is not None, range(30_000)))
    finally:
        sys.setswitchinterval(before)
    assert len([*kept]) == 3
