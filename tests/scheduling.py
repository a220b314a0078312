"""Which tests stay together on a worker of pytest-xdist, and which come first."""

from __future__ import annotations

import pytest

from kestrel_qtt.plugin.xdist_chunks import ChunkScheduling

KAFKA = "tests/kafka/"
KILLS = "tests/kafka/test_run_kills.py"
"""Many kills, as every night, take as long as all else on a broker, and have a worker to themselves.

A single one stays with the others: while it waits for its processes, the other worker uses the processor. It is the
first, as it has the most processes: brokers and JVMs of other tests have not started yet, or are still small.
"""
TAKEOVER = "tests/kafka/test_takeover.py"
"""Waits for servers of its own for minutes, so that it has a worker to itself, from the beginning."""
SERVERS = tuple(
    f"{KAFKA}test_{what}"
    for what in ("answers", "cases", "headless", "plan", "remote", "serve", "shadow", "taken_state")
)
"""Servers and commands in processes of their own, which need a broker and no Spark session here: a third of what needs a
broker, so that two workers share it."""
SPLIT = ("tests/conformance/", "tests/qtt/test_pytest_plugin.py")
"""Shards of cases, each of many seconds, and tests that run pytest."""


def sort(items: list[pytest.Item]) -> None:
    """Put what is large first, then what is long: tests against a broker, other tests with Spark, cases.

    So that workers end at about the same time.
    """
    items.sort(key=_rank)


def _rank(item: pytest.Item) -> int:
    if item.nodeid.startswith(KAFKA):
        return 0 if item.nodeid.startswith((KILLS, TAKEOVER)) else 1
    if item.get_closest_marker("spark"):
        return 2
    return 4 if isinstance(item, pytest.Function) else 3


class Scheduling(ChunkScheduling):
    """Keep the tests of a file together, and those of one broker and its Spark session."""

    def _split_scope(self, nodeid: str) -> str:
        chunk = super()._split_scope(nodeid)
        if chunk != nodeid or nodeid.startswith(SPLIT):
            return chunk
        file = nodeid.partition("::")[0]
        is_apart = file == KILLS and sum(other.startswith(KILLS) for other in self.collection) > 1
        if not file.startswith(KAFKA) or is_apart or file == TAKEOVER:
            return file
        return SERVERS[0] if file.startswith(SERVERS) else KAFKA
