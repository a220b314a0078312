"""`kestrel shadow` finds no difference between systems that do the same: Kestrel in other batches, ksqlDB's server."""

from __future__ import annotations

import time
from collections import Counter
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from threading import Event

import pytest

from kestrel_sql.formats.registry.memory import MemoryRegistry
from kestrel_sql.kafka.client.config import KafkaConfig
from kestrel_sql.kafka.shadow.matching import Difference
from kestrel_sql.kafka.shadow.shadow import Shadow, Sink, Verdict
from kestrel_sql.session.session import Session
from tests.kafka.applications import Applications
from tests.kafka.helpers import create
from tests.kafka.ksqldb import needs_ksqldb, start_ksqldb
from tests.kafka.servers import eventually
from tests.kafka.takeover import PARTITIONS, SOURCES, Inputs, declare, statement

OURS = ("groups", "sessions", "final", "filtered")
THEIRS = (*OURS, "aggregates", "hopping", "tables", "joined")


def compare(
    config: KafkaConfig, prefix: str, sides: tuple[str, str], queries: tuple[str, ...]
) -> tuple[Verdict, list[Difference]]:
    """Compare the sinks of queries, whose topics begin with the names of the sides."""
    session = Session()
    for parsed in session.parse("\n".join([SOURCES.format(prefix), *(statement("", query) for query in queries)])):
        session.execute(parsed)
    found: list[Difference] = []
    sinks = [
        Sink.of(session, session.catalog.sources[f"Q_{query.upper()}"], (f"{sides[0]}{query}", f"{sides[1]}{query}"))
        for query in queries
    ]
    verdict = Shadow(
        sinks=sinks,
        configs=(config, config),
        registries=(MemoryRegistry(), MemoryRegistry()),
        patience=20,
        until_caught_up=True,
        report=found.append,
        show=lambda _: None,
        stop=Event(),
    ).run()
    return verdict, found


@pytest.mark.spark
def test_other_batches_and_restarts_make_no_difference(
    kafka: KafkaConfig, applications: Applications, tmp_path: Path
) -> None:
    inputs = Inputs(kafka.servers, f"sh{time.time_ns()}", 0)
    sides = f"{inputs.prefix}l_", f"{inputs.prefix}r_"
    create(kafka.servers, PARTITIONS, *inputs.topics)
    scripts = [
        "\n".join([SOURCES.format(inputs.prefix), *(statement(side, query) for query in OURS)]) for side in sides
    ]
    earliest = {"auto.offset.reset": "earliest"}
    for part in range(2):
        inputs.streams(150, 150)
        applications.catch_up(scripts[1], tmp_path / "right", properties=earliest, batch_records=40 + 60 * part)
    run = applications.catch_up(scripts[0], tmp_path / "left", properties=earliest)
    assert run.well, run.said
    verdict, found = compare(kafka, inputs.prefix, sides, OURS)
    assert Counter((each.sink.name, each.kind) for each in found) == {}, [each.columns for each in found[:20]]
    assert verdict.progress.matched > 200


@pytest.mark.spark
@pytest.mark.nightly
def test_kestrel_equals_the_server_of_ksqldb(kafka: KafkaConfig, applications: Applications, tmp_path: Path) -> None:
    needs_ksqldb()
    inputs = Inputs(kafka.servers, f"sh{time.time_ns()}", 0.4)
    sides = f"{inputs.prefix}l_", f"{inputs.prefix}r_"
    create(kafka.servers, PARTITIONS, *inputs.topics)
    with ExitStack() as stack:
        server = start_ksqldb(kafka.servers, sides[0], tmp_path, stack)
        eventually(server.is_up, server)
        groups = declare(server, sides[0], inputs.prefix, THEIRS)
        inputs.tables()
        inputs.streams(400, 20)
        for _ in range(3):
            # It writes windows that have closed, and rows that found none to join, with a record a second later.
            for group in groups:
                eventually(partial(inputs.are_read_by, group), server)
            inputs.close_windows()
        script = "\n".join([SOURCES.format(inputs.prefix), *(statement(sides[1], query) for query in THEIRS)])
        run = applications.catch_up(script, tmp_path / "right", properties={"auto.offset.reset": "earliest"})
        assert run.well, run.said
        verdict, found = compare(kafka, inputs.prefix, sides, THEIRS)
    assert Counter((each.sink.name, each.kind) for each in found) == {}, [each.columns for each in found[:20]]
    assert verdict.progress.matched > 400
