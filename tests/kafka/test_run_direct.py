"""Queries without state over a broker: their tasks read and write, and commit what they have read (ADR 47)."""

from __future__ import annotations

import os
import random
import time
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from itertools import count, islice
from pathlib import Path
from threading import Event, Thread

import pytest

from kestrel_sql.errors import QueryError
from kestrel_sql.kafka import direct
from kestrel_sql.kafka.client.config import KafkaConfig
from kestrel_sql.kafka.client.offsets import BrokerOffsets
from kestrel_sql.kafka.direct import DirectBatches
from kestrel_sql.kafka.run import running_query
from kestrel_sql.kafka.run.manifest import CheckpointFolder
from kestrel_sql.kafka.sink.sink import Written
from kestrel_sql.kafka.sink.task import Job, ReportRow
from kestrel_sql.kafka.source.reading import Reading
from kestrel_sql.spark.checkpoint.batch_log import numbered, offsets_of
from kestrel_sql.spark.io.arrow_passes import Batches
from tests.kafka.applications import Applications, Run
from tests.kafka.helpers import await_rows, create, produce, read, start
from tests.kafka.processes import ending, kill

pytestmark = pytest.mark.spark

PARTITIONS = 3
KILLS = int(os.environ.get("KESTREL_KILLS", "20"))
"""The number of kills in the long test."""

FILTER = """
    CREATE STREAM S (K STRING KEY, V INT) WITH (KAFKA_TOPIC='{0}_s', VALUE_FORMAT='JSON');
    CREATE STREAM A WITH (KAFKA_TOPIC='{0}_a') AS SELECT K, V * 2 AS V FROM S WHERE V >= 10;
"""
LOOP = """
    CREATE STREAM S (K STRING KEY, V INT) WITH (KAFKA_TOPIC='{0}_s', VALUE_FORMAT='JSON');
    INSERT INTO S SELECT K, V + 1 AS V FROM S WHERE V < 3;
"""


def repeat_last_batch(checkpoint: Path) -> None:
    """Let Spark begin its last batch again, as after a process that died before Spark had committed it."""
    folder = CheckpointFolder(checkpoint)
    (query,) = folder.load().queries.values()
    assert query.reading == Reading.DIRECT
    commits = Path(str(folder.folder_of(query))) / "commits"
    last = numbered(commits)[-1]
    for name in (f"{last}", f".{last}.crc"):
        (commits / name).unlink()


def values(servers: str, topic: str) -> list[str]:
    return sorted((value or b"").decode() for _, _, value, _ in read(servers, topic, PARTITIONS))


@pytest.mark.parametrize("begun_by_sink", [False, True], ids=["by a task", "by the sink of an earlier release"])
def test_a_batch_that_is_repeated_is_not_written_again(
    applications: Applications, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, begun_by_sink: bool
) -> None:
    name, servers = f"direct{time.time_ns()}", applications.config.servers
    create(servers, PARTITIONS, f"{name}_s")
    produce(servers, f"{name}_s", ((f"k{at % 7}", f'{{"V":{at}}}', at + 1) for at in range(40)))
    script, checkpoint = FILTER.format(name), tmp_path / "checkpoint"
    with monkeypatch.context() as patched:
        if begun_by_sink:
            patched.setattr(DirectBatches, "is_begun_by_sink", lambda *_: True)
        assert applications.catch_up(script, checkpoint).well
    expected = values(servers, f"{name}_a")
    assert len(expected) == 30
    repeat_last_batch(checkpoint)
    assert applications.catch_up(script, checkpoint).well
    assert values(servers, f"{name}_a") == expected
    produce(servers, f"{name}_s", [("k1", '{"V":100}', 41)])
    done = applications.catch_up(script, checkpoint)
    assert done.said[-1] == "CSAS_A_0: 1 record read, 1 written, 0 bad"
    assert len(read(servers, f"{name}_a", PARTITIONS)) == 31


def test_a_query_that_writes_the_topic_it_reads_repeats_nothing(applications: Applications, tmp_path: Path) -> None:
    name, servers = f"loop{time.time_ns()}", applications.config.servers
    create(servers, PARTITIONS, f"{name}_s")
    produce(servers, f"{name}_s", ((f"k{at}", '{"V":0}', at + 1) for at in range(5)))
    checkpoint, counts = tmp_path / "checkpoint", []
    for _ in range(4):
        assert applications.catch_up(LOOP.format(name), checkpoint).well
        counts.append(len(read(servers, f"{name}_s", PARTITIONS)))
        repeat_last_batch(checkpoint)
    assert counts[-1] == 20, counts
    assert values(servers, f"{name}_s") == sorted(f'{{"V":{value}}}' for value in range(4) for _ in range(5))


class Staying:
    """A filter whose tasks stay for records that are produced piece by piece."""

    def __init__(self, applications: Applications, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(direct, "STAY_S", 4.0)
        self.applications, self.checkpoint = applications, folder / "checkpoint"
        self.name, self.servers, self.produced = f"stay{time.time_ns()}", applications.config.servers, 0
        create(self.servers, PARTITIONS, f"{self.name}_s")

    def going(self) -> AbstractContextManager[Run]:
        earliest = {"auto.offset.reset": "earliest"}
        return self.applications.running(FILTER.format(self.name), self.checkpoint, properties=earliest)

    def produce(self, pieces: int) -> None:
        for _ in range(pieces):
            rows = range(self.produced, self.produced + 20)
            produce(self.servers, f"{self.name}_s", ((f"k{at % 7}", f'{{"V":{at}}}', at + 1) for at in rows))
            self.produced += 20
            time.sleep(0.1)

    @property
    def written(self) -> list[str]:
        return values(self.servers, f"{self.name}_a")

    @property
    def expected(self) -> list[str]:
        return sorted(f'{{"V":{2 * at}}}' for at in range(10, self.produced))

    def batches(self) -> tuple[int, dict[tuple[str, int], int]]:
        """The number of batches in Spark's log, and where the last one ends."""
        folder = CheckpointFolder(self.checkpoint)
        (query,) = folder.load().queries.values()
        log = folder.folder_of(query)
        begun = numbered(log / "offsets")
        return len(begun), offsets_of(log, begun[-1])

    def ends(self) -> dict[tuple[str, int], int]:
        return BrokerOffsets(self.applications.config).ends([(f"{self.name}_s", at) for at in range(PARTITIONS)])


@pytest.fixture
def staying(applications: Applications, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Staying]:
    conf = applications.spark.conf
    before = conf.get("spark.sql.shuffle.partitions") or ""
    # The session of the tests has room for a single task.
    conf.set("spark.sql.shuffle.partitions", "1")
    yield Staying(applications, tmp_path, monkeypatch)
    conf.set("spark.sql.shuffle.partitions", before)


def test_tasks_stay_for_what_comes_behind_their_records(staying: Staying) -> None:
    with staying.going() as going:
        staying.produce(8)
        going.await_(lambda: staying.written == staying.expected)
        assert staying.batches()[0] < 8
    assert staying.batches()[1] == staying.ends()
    with staying.going() as going:
        staying.produce(2)
        going.await_(lambda: staying.written == staying.expected)
        going.await_(lambda: [state.rows_in for state in going.states.values()] == [40])
    assert staying.written == staying.expected


def test_a_worker_that_dies_while_it_stays_loses_and_repeats_nothing(
    staying: Staying, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    dead, chained = tmp_path / "dead", running_query.chained

    def dies(batches: Batches) -> Batches:
        for batch in batches:
            if b'{"V":130}' in batch.column("value").to_pylist() and not dead.exists():
                dead.touch()
                os._exit(1)
            yield batch

    monkeypatch.setattr(running_query, "chained", lambda passes: chained((dies, *passes)))
    with staying.going() as going:
        staying.produce(8)
        going.await_(lambda: staying.written == staying.expected)
    assert dead.exists()
    with staying.going() as going:
        staying.produce(2)
        going.await_(lambda: staying.written == staying.expected)
    assert staying.written == staying.expected


def test_what_tasks_wrote_while_they_stayed_is_counted_once_where_nobody_was_told(
    staying: Staying, monkeypatch: pytest.MonkeyPatch
) -> None:
    failed, outcome = [], direct.outcome

    def fails(job: Job, rows: Sequence[ReportRow]) -> Written:
        if not failed:
            failed.append(job)
            raise QueryError("the broker does not answer")
        return outcome(job, rows)

    monkeypatch.setattr(direct, "outcome", fails)
    with staying.going() as going:
        staying.produce(8)
        going.await_(lambda: staying.written == staying.expected)
        going.await_(lambda: [(state.rows_in, state.rows_out) for state in going.states.values()] == [(160, 150)])
    assert failed
    assert staying.written == staying.expected


@pytest.mark.nightly
def test_kills_while_tasks_stay_lose_and_repeat_nothing(kafka: KafkaConfig, tmp_path: Path) -> None:
    name, servers, chance, produced = f"killed{time.time_ns()}", kafka.servers, random.Random(1), count()
    create(servers, PARTITIONS, f"{name}_s", f"{name}_a")
    script, ended = tmp_path / "app.sql", Event()
    script.write_text(FILTER.format(name), encoding="utf-8")

    def feed() -> None:
        while not ended.wait(0.05):
            rows = islice(produced, 20)
            produce(servers, f"{name}_s", ((f"k{at % 7}", f'{{"V":{at}}}', at + 1) for at in rows))

    feeding = Thread(target=feed)
    feeding.start()
    options = ("--property", "auto.offset.reset=earliest", "--master", "local[2]")
    try:
        for _ in range(KILLS):
            with ending(start(script, servers, tmp_path / "checkpoint", *options)) as process:
                await_rows(servers, [f"{name}_a"], PARTITIONS, len(values(servers, f"{name}_a")))
                time.sleep(chance.uniform(0.1, 5))
                kill(process, whole=chance.random() < 0.7)
    finally:
        ended.set()
        feeding.join()
    with ending(start(script, servers, tmp_path / "checkpoint", *options)):
        wanted = next(produced) - 10
        await_rows(servers, [f"{name}_a"], PARTITIONS, wanted - 1)
    found = read(servers, f"{name}_a", PARTITIONS)
    assert sorted(value or b"" for _, _, value, _ in found) == sorted(
        f'{{"V":{2 * at}}}'.encode() for at in range(10, wanted + 10)
    )
    for key in {key for _, key, _, _ in found}:
        times = [moment for _, own, _, moment in found if own == key]
        assert times == sorted(times)
