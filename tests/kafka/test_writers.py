"""Tests writers whose broker is killed in a transaction: they continue or fail in time, and write nothing twice."""

from __future__ import annotations

import time
from pathlib import Path
from threading import Event, Thread

import pyarrow as pa
import pytest
from confluent_kafka import KafkaException

from kestrel_sql.kafka.client.config import KafkaConfig
from kestrel_sql.kafka.sink.transaction import CAUSE, SENT, WriteError, Writer
from tests.kafka.helpers import create, read
from tests.kafka.processes import ReturningBroker

pytestmark = [pytest.mark.nightly, pytest.mark.usefixtures("connector")]

RECOVERED_S = 60


def record(writer: int, batch: int) -> pa.RecordBatch:
    row = {
        "topic": "out",
        "partition": writer,
        "key": b"k",
        "value": b"%d" % batch,
        "timestamp": 1 + batch,
        "headers": [],
    }
    headers = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
    fields = [(name, pa.array([row[name]]).type) for name in SENT] + [("headers", headers)]
    return pa.RecordBatch.from_pylist(
        [row | dict.fromkeys(CAUSE)], schema=pa.schema(fields + [(name, pa.string()) for name in CAUSE])
    )


def write(config: KafkaConfig, number: int, ended: Event, done: list[int]) -> None:
    """Write batches as a task does, and add the committed ones to `done`."""
    writer = None
    while not ended.is_set():
        try:
            if writer is None:
                writer = Writer(config, f"q{number}", 0, frozenset({"out"}), transactional=True)
                (mark,) = writer.committed([("out", number)])
                done[number] = 0 if mark is None else mark.number + 1
            marks = {("out", number): done[number]}
            writer.begin(marks, "{}")
            writer.send(record(number, done[number]))
            writer.commit(marks)
            done[number] += 1
        except (WriteError, KafkaException):
            writer = None


def await_more(done: list[int]) -> None:
    before, deadline = list(done), time.monotonic() + RECOVERED_S
    while not all(now > then for now, then in zip(done, before, strict=True)):
        assert time.monotonic() < deadline, f"of {before} batches, {done} are written now"
        time.sleep(0.1)


@pytest.mark.parametrize(("writers", "kills"), [(3, 1), (6, 2)])
def test_writers_go_on_when_their_broker_comes_back(tmp_path: Path, writers: int, kills: int) -> None:
    broker, ended, done = ReturningBroker(tmp_path / "broker"), Event(), [0] * writers
    try:
        create(broker.address, writers, "out")
        config = KafkaConfig(servers=broker.address)
        # One that does not go on is not waited for.
        threads = [Thread(target=write, args=(config, number, ended, done), daemon=True) for number in range(writers)]
        for thread in threads:
            thread.start()
        await_more(done)
        for _ in range(kills):
            broker.kill()
            time.sleep(2)
            broker.restart()
            await_more(done)
        ended.set()
        for thread in threads:
            thread.join(RECOVERED_S)
        rows = read(broker.address, "out", writers)
        for number in range(writers):
            assert [value for partition, _, value, _ in rows if partition == number] == [
                b"%d" % batch for batch in range(done[number])
            ]
    finally:
        ended.set()
        broker.kill()
