"""Queries with state whose last level writes what it makes (docs/adr/0053)."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from kestrel_sql.errors import QueryError
from kestrel_sql.kafka.client.config import KafkaConfig
from kestrel_sql.kafka.level_batches import LevelBatches
from kestrel_sql.kafka.run import prepare_query, running_query
from kestrel_sql.kafka.run.manifest import CheckpointFolder
from kestrel_sql.kafka.run.run import RunSettings
from kestrel_sql.kafka.sink.sink import Written, fence
from kestrel_sql.queries.bad_records import BadLimit
from kestrel_sql.spark.checkpoint.batch_log import numbered
from kestrel_sql.spark.io.arrow_passes import Batches, Pass
from tests.kafka.applications import Applications, Run
from tests.kafka.helpers import create, produce, read

pytestmark = pytest.mark.spark

SOURCES = """
CREATE STREAM A (K STRING KEY, V INT) WITH (KAFKA_TOPIC='{0}_a', VALUE_FORMAT='JSON');
CREATE STREAM B (K STRING KEY, W INT) WITH (KAFKA_TOPIC='{0}_b', VALUE_FORMAT='JSON');
CREATE TABLE T (K STRING PRIMARY KEY, V INT) WITH (KAFKA_TOPIC='{0}_a', VALUE_FORMAT='JSON');
CREATE TABLE U (K STRING PRIMARY KEY, W INT) WITH (KAFKA_TOPIC='{0}_b', VALUE_FORMAT='JSON');
"""
QUERIES = {
    "count": "CREATE TABLE C WITH (KAFKA_TOPIC='{0}') AS SELECT K, COUNT(*) AS N FROM A GROUP BY K;",
    "regrouped": "CREATE TABLE R WITH (KAFKA_TOPIC='{0}') AS SELECT V % 5 AS M, COUNT(*) AS N FROM A GROUP BY V % 5;",
    "window": (
        "CREATE TABLE W WITH (KAFKA_TOPIC='{0}') AS"
        " SELECT K, COUNT(*) AS N FROM A WINDOW TUMBLING (SIZE 20 MILLISECONDS) GROUP BY K;"
    ),
    "final": (
        "CREATE TABLE E WITH (KAFKA_TOPIC='{0}') AS SELECT K, COUNT(*) AS N FROM A"
        " WINDOW TUMBLING (SIZE 20 MILLISECONDS, GRACE PERIOD 0 SECONDS) GROUP BY K EMIT FINAL;"
    ),
    "session": (
        "CREATE TABLE X WITH (KAFKA_TOPIC='{0}') AS"
        " SELECT K, COUNT(*) AS N FROM A WINDOW SESSION (9 MILLISECONDS) GROUP BY K;"
    ),
    "stream-table": "CREATE STREAM L WITH (KAFKA_TOPIC='{0}') AS SELECT A.K AS K, V, W FROM A JOIN U ON A.K = U.K;",
    "stream-stream": (
        "CREATE STREAM J WITH (KAFKA_TOPIC='{0}') AS"
        " SELECT A.K AS K, V, W FROM A JOIN B WITHIN 5 MILLISECONDS ON A.K = B.K;"
    ),
    "table-table": "CREATE TABLE M WITH (KAFKA_TOPIC='{0}') AS SELECT T.K AS K, V, W FROM T JOIN U ON T.K = U.K;",
    "foreign-key": (
        "CREATE TABLE F WITH (KAFKA_TOPIC='{0}') AS"
        " SELECT T.K AS K, V, U.K AS O, W FROM T JOIN U ON CONCAT('k', CAST(V AS STRING)) = U.K;"
    ),
    "joined-count": (
        "CREATE TABLE P WITH (KAFKA_TOPIC='{0}') AS"
        " SELECT A.K AS K, COUNT(*) AS N FROM A JOIN U ON A.K = U.K GROUP BY A.K;"
    ),
}
FEW = ("count", "window", "stream-stream")

STEPS = ("computed", "begun", "produced", "committed", "reported", "written", "passed")
"""Where a batch may end: when the first outputs are there, and Spark's state is not committed; when the offsets are sent,
the records are produced, the transaction is committed, the task is done, or before the batch is committed; or when the
worker that has the writer ends, which has got all records of another one.
"""
SLOTS = 2
ROWS = 90

Outputs = dict[str, list[list[tuple[bytes | int | None, ...]]]]
"""Keys, values and timestamps (ms) in offset order, by query and partition."""


class Scene:
    """Some queries over two topics."""

    def __init__(self, applications: Applications, folder: Path, partitions: int, kinds: Sequence[str]) -> None:
        self.applications, self.folder = applications, folder
        self.partitions, self.kinds = partitions, kinds
        self.name = f"levels{time.time_ns()}"
        self.began = int(time.time() * 1000)
        create(applications.config.servers, partitions, f"{self.name}_a", f"{self.name}_b")
        for topic, column in (("a", "V"), ("b", "W")):
            values = ((f"k{at * 7 % 11}", f'{{"{column}": {at}}}', self.began + at) for at in range(ROWS))
            produce(applications.config.servers, f"{self.name}_{topic}", values)

    def run(self, way: str, **settings: Any) -> Run:
        """Run until all records are read, in batches of a third of them."""
        text = SOURCES + "".join(QUERIES[kind].replace("{0}", self._topic(way, kind)) for kind in self.kinds)
        more = {"batch_records": ROWS // 3, "spark": {"spark.sql.shuffle.partitions": str(SLOTS)}, **settings}
        return self.applications.catch_up(text.replace("{0}", self.name), self.folder / way, **more)

    def outputs(self, way: str) -> Outputs:
        found: Outputs = {}
        for kind in self.kinds:
            found[kind] = [[] for _ in range(self.partitions)]
            for partition, *record in read(self.applications.config.servers, self._topic(way, kind), self.partitions):
                found[kind][partition].append(tuple(record))
        return found

    def level_writes(self, way: str) -> set[str]:
        """The kinds of the queries whose last level writes."""
        stored = CheckpointFolder(self.folder / way).load().queries.values()
        return {kind for kind, query in zip(self.kinds, stored, strict=True) if query.level_writes}

    def _topic(self, way: str, kind: str) -> str:
        return f"{self.name}_{way}_{kind}"


@pytest.fixture(scope="module")
def scene(
    kafka: KafkaConfig, spark: SparkSession, tmp_path_factory: pytest.TempPathFactory
) -> Callable[[int, Sequence[str]], tuple[Scene, Outputs]]:
    """Returns a scene, and what the sink writes that gets all outputs by a shuffle."""

    @cache
    def made(partitions: int, kinds: Sequence[str]) -> tuple[Scene, Outputs]:
        scene = Scene(Applications(spark, kafka), tmp_path_factory.mktemp("levels"), partitions, kinds)
        with pytest.MonkeyPatch.context() as patched:
            # As an earlier release does.
            patched.setattr(prepare_query, "writes_alone", lambda *_, **__: False)
            patched.setattr(RunSettings, "slots", None)
            done = scene.run("shuffled")
        assert done.well, done.said
        return scene, scene.outputs("shuffled")

    return made


EVERY = pytest.mark.parametrize(
    ("partitions", "kinds"),
    [
        pytest.param(2, FEW, id="two slots"),
        pytest.param(1, tuple(QUERIES), id="one slot, all operators", marks=pytest.mark.nightly),
        pytest.param(2, tuple(QUERIES), id="two slots, all operators", marks=pytest.mark.nightly),
    ],
)


@EVERY
@pytest.mark.parametrize("settings", [{}, {"max_bad": BadLimit.of("5")}], ids=["written", "looked at first"])
def test_a_level_writes_what_the_sink_would_in_the_same_order(
    scene: Any, partitions: int, kinds: Sequence[str], settings: dict[str, Any], request: pytest.FixtureRequest
) -> None:
    made, expected = scene(partitions, kinds)
    way = f"own{len(settings)}"
    done = made.run(way, **settings)
    assert done.well, done.said
    assert made.outputs(way) == expected
    alone = {"window", "final", "session", "stream-stream", "foreign-key"} if partitions == 1 else set(QUERIES)
    assert made.level_writes(way) == alone & set(kinds)


@pytest.mark.parametrize(
    ("partitions", "kinds", "first"),
    [
        # With three queries, all steps but the one that is almost the next.
        *((2, FEW, first) for first in (0, len(FEW) + 1)),
        *(
            pytest.param(partitions, tuple(QUERIES), first, marks=pytest.mark.nightly)
            for partitions in (1, 2)
            for first in range(len(STEPS))
        ),
    ],
    ids=lambda given: str(len(given)) if isinstance(given, tuple) else str(given),
)
def test_a_batch_that_ends_anywhere_loses_nothing_and_repeats_nothing(
    scene: Any, partitions: int, kinds: Sequence[str], first: int, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Each query ends at another step, in its second batch: once in all slots, and once in one of them."""
    made, expected = scene(partitions, kinds)
    steps = {kind: STEPS[(first + at) % len(STEPS)] for at, kind in enumerate(kinds)}
    ids = dict(zip(_ids(made), kinds, strict=True))

    def step_of(batches: LevelBatches) -> str:
        return next(steps[kind] for query, kind in ids.items() if batches.query.endswith(query))

    writing, write = LevelBatches._writing, LevelBatches.write

    def ending(batches: LevelBatches) -> Pass:
        return ended(writing(batches), step_of(batches), tmp_path / batches.query)

    def write_and_fail(batches: LevelBatches, frame: Any, number: int, *given: Any) -> Written:
        written = write(batches, frame, number, *given)
        if step_of(batches) == "written" and number == 1 and once(tmp_path / f"{batches.query}-driver"):
            raise RuntimeError("the driver dies")
        return written

    monkeypatch.setattr(LevelBatches, "_writing", ending)
    monkeypatch.setattr(LevelBatches, "write", write_and_fail)
    way = f"ended{first}"
    for _ in range(2 * len(kinds)):
        if made.run(way).well:
            break
    assert made.outputs(way) == expected
    begun = {file.name.rpartition("-")[0] for file in tmp_path.iterdir()}
    assert len(begun) == len(made.level_writes(way)), "each query that writes itself has ended once"


def test_a_batch_that_the_sink_has_begun_is_finished_by_it(scene: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """As an earlier release leaves it: records and the number of the batch are committed, and the batch is not."""
    made, expected = scene(2, FEW)
    checkpoint = made.folder / "shuffled"
    folder = CheckpointFolder(checkpoint)
    for stored in folder.load().queries.values():
        commits = Path(str(folder.folder_of(stored))) / "commits"
        for name in (f"{numbered(commits)[-1]}", f".{numbered(commits)[-1]}.crc"):
            (commits / name).unlink()
    failed: list[bool] = []

    def away_once(*given: Any) -> bool:
        if not failed:
            failed.append(True)
            raise QueryError("the broker does not answer")
        return fence(*given)

    monkeypatch.setattr(running_query, "fence", away_once)
    done = made.run("shuffled")
    assert done.well, done.said
    assert failed
    assert made.outputs("shuffled") == expected
    # The count has its pages where they were.
    assert made.level_writes("shuffled") == {*FEW} - {"count"}


def once(file: Path) -> bool:
    """Whether nobody was here before."""
    try:
        file.touch(exist_ok=False)
    except FileExistsError:
        return False
    return True


def ended(write: Pass, step: str, place: Path) -> Pass:
    """A pass whose task ends its process at a step of the second batch, the first time."""
    is_due, kill_other = due(step, place), other_killed()

    def ending(batches: Batches) -> Batches:
        import os
        from contextlib import ExitStack
        from unittest.mock import patch

        from kestrel_sql.kafka.sink import task
        from kestrel_sql.kafka.sink.transaction import Writer

        methods = {"begun": "begin", "produced": "flush", "committed": "commit"}

        def end_at(reached: str) -> None:
            if is_due(reached):
                os._exit(1)

        def ending_after(name: str, method: Any) -> Any:
            def call(*given: Any, **named: Any) -> Any:
                found = method(*given, **named)
                end_at(name)
                return found

            return call

        def computed() -> Batches:
            for batch in batches:
                end_at("computed")
                yield batch

        answered = task._answer
        changed: dict[str, Any] = {
            "_answer": lambda owner: (is_due("passed") and kill_other(owner), answered(owner))[1]
        }
        if step in methods:
            # The steps of a writer are those of this process.
            changed["_connected"] = lambda _: None
        with ExitStack() as patched:
            for name, method in methods.items():
                patched.enter_context(patch.object(Writer, method, ending_after(name, getattr(Writer, method))))
            patched.enter_context(patch.multiple(task, **changed))
            yield from write(computed())
            end_at("reported")
            # The writer was that of this process.
            end_at("passed")

    return ending


def due(step: str, place: Path) -> Callable[[str], bool]:
    """Return a function for tasks that tells whether a step is that of the end, in the second batch for the first time."""

    def is_due(reached: str) -> bool:
        import os

        from pyspark import TaskContext

        context: Any = TaskContext.get()
        file = f"{place}-{context.partitionId()}"
        if reached != step or context.getLocalProperty("streaming.sql.batchId") != "1" or os.path.exists(file):
            return False
        open(file, "x").close()
        return True

    return is_due


def other_killed() -> Callable[[Any], None]:
    """Return a function for tasks that kills the process at the other end of a connection."""

    def kill(connection: Any) -> None:
        import os
        import signal
        import socket
        import struct

        with socket.socket(fileno=os.dup(connection.fileno())) as own:
            (process,) = struct.unpack("i8x", own.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))
        os.kill(process, signal.SIGKILL)

    return kill


def _ids(made: Scene) -> list[str]:
    """The ids of the queries, in their order."""
    return [query.id for query in CheckpointFolder(made.folder / "shuffled").load().queries.values()]
