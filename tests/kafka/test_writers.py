"""Writers whose broker is killed in mid-transaction: they go on with it, or say so in time, and nothing is there twice."""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Event

import pyarrow as pa
import pytest
from confluent_kafka import KafkaException

from engine.kafka.config import KafkaConfig
from engine.kafka.transaction import CAUSE, SENT, WriteError, Writer
from tests.kafka.helpers import create, read
from tests.kafka.processes import ReturningBroker

pytestmark = pytest.mark.usefixtures("kafka")

WRITERS = 6
RECOVERED_S = 60


def record(writer: int, batch: int) -> pa.RecordBatch:
    row = {"topic": "out", "partition": writer, "key": b"k", "value": b"%d" % batch, "timestamp": 1 + batch, "headers": []}
    headers = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
    fields = [(name, pa.array([row[name]]).type) for name in SENT] + [("headers", headers)]
    return pa.RecordBatch.from_pylist([row | dict.fromkeys(CAUSE)], schema=pa.schema(fields + [(name, pa.string()) for name in CAUSE]))


def write(config: KafkaConfig, number: int, ended: Event, count: Callable[[int], None]) -> int:
    """Write batch after batch as a task does; give how many are committed."""
    writer, batch = None, 0
    while not ended.is_set():
        try:
            if writer is None:
                writer = Writer(config, f"q{number}", 0, frozenset({"out"}), transactional=True)
                mark = writer.mark(("out", number))
                batch = 0 if mark is None else mark.batch + 1
            writer.begin(("out", number), batch, "{}")
            writer.send(record(number, batch))
            writer.commit(batch)
        except (WriteError, KafkaException):
            writer = None
            continue
        batch += 1
        count(number)
    return batch


def test_writers_go_on_when_their_broker_comes_back(tmp_path: Path) -> None:
    broker, ended = ReturningBroker(tmp_path / "broker"), Event()
    done = [0] * WRITERS

    def count(number: int) -> None:
        done[number] += 1

    def await_more() -> None:
        before, deadline = list(done), time.monotonic() + RECOVERED_S
        while not all(now > then for now, then in zip(done, before, strict=True)):
            assert time.monotonic() < deadline, f"of {before} batches, {done} are written now"
            time.sleep(0.1)

    try:
        create(broker.address, WRITERS, "out")
        with ThreadPoolExecutor() as pool:
            config = KafkaConfig(servers=broker.address)
            writing = [pool.submit(write, config, number, ended, count) for number in range(WRITERS)]
            try:
                await_more()
                for _ in range(2):
                    broker.kill_and_return(2)
                    await_more()
            finally:
                ended.set()
            written = [each.result(60) for each in writing]
        rows = read(broker.address, "out", WRITERS)
        for number in range(WRITERS):
            assert [value for partition, _, value, _ in rows if partition == number] == [b"%d" % batch for batch in range(written[number])]
    finally:
        broker.kill()
