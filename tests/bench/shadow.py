"""How fast `kestrel shadow` compares two topics that hold the same in another order, and what memory it takes.

    RECORDS=10000000 INTO=docs/performance.md python -m tests.bench shadow

Environment variables, with what they are by default: RECORDS=200000, those of both topics together; KEYS=100000;
PARTITIONS=2. The right topic has the records of each key in the same order, and those of different keys in another one.
"""

from __future__ import annotations

import os
import random
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

from confluent_kafka import Producer

from kestrel_sql.kafka.broker.broker import Broker
from kestrel_sql.topics.partitioner import partition_of
from tests.bench.measure import machine
from tests.bench.tables import write_rows
from tests.kafka.helpers import create, environment

RECORDS, KEYS, PARTITIONS = (
    int(os.environ.get(name, default))
    for name, default in (("RECORDS", "200000"), ("KEYS", "100000"), ("PARTITIONS", "2"))
)
TOPICS = ("left", "right")
_APART, _MOST_WAITING = 20_000, 50_000
"""Within how many records another order begins anew, and how many may wait in the producer."""

_SCRIPT = """
CREATE STREAM s (k STRING KEY, v BIGINT) WITH (KAFKA_TOPIC='s', VALUE_FORMAT='JSON', PARTITIONS=2);
CREATE STREAM f WITH (KAFKA_TOPIC='f') AS SELECT k, v, v * 2 AS w FROM s;
"""

Written = tuple[str, str, int]
"""The key and value of a record, and its time (ms)."""


def main() -> None:
    """Print the figures."""
    print(machine())
    with tempfile.TemporaryDirectory() as folder, Broker.start() as broker:
        create(broker.address, PARTITIONS, *TOPICS)
        for topic in TOPICS:
            _fill(broker.address, topic)
        seconds, megabytes, compared = _compare(broker.address, Path(folder))
    assert compared == RECORDS // 2, compared
    row = (f"{RECORDS:,}", f"{seconds:.0f}", f"{RECORDS / seconds:,.0f}", f"{megabytes:,.0f}")
    write_rows("shadow", ["Records of both sides", "Seconds", "Records a second", "MB"], [row])


def _blocks() -> Iterator[list[Written]]:
    rng = random.Random(7)
    for begin in range(0, RECORDS // 2, _APART):
        numbers = range(begin, min(begin + _APART, RECORDS // 2))
        yield [(f"k{rng.randrange(KEYS)}", f'{{"V":{at},"W":{at * 2}}}', 1_700_000_000_000 + at) for at in numbers]


def _fill(servers: str, topic: str) -> None:
    producer = Producer({"bootstrap.servers": servers, "linger.ms": 50, "queue.buffering.max.messages": 200_000})
    for block in _blocks():
        records: Iterable[Written] = block if topic == TOPICS[0] else sorted(block, key=lambda record: record[0])
        for key, value, timestamp in records:
            place = partition_of(key.encode(), PARTITIONS)
            producer.produce(topic, key=key, value=value, timestamp=timestamp, partition=place)
        while len(producer) > _MOST_WAITING:
            producer.poll(0.1)
        producer.poll(0)
    assert producer.flush(120) == 0
    print(f"{topic} is written", flush=True)


def _compare(servers: str, folder: Path) -> tuple[float, float, int]:
    """Compare both topics; the time (s) that it took, the most memory (MB) that it had, and how many were equal."""
    script, out = folder / "app.sql", folder / "verdict"
    script.write_text(_SCRIPT, encoding="utf-8")
    command = [sys.executable, "-m", "kestrel_sql.cli.main", "shadow", "--app", str(script), "--sink", "F"]
    command += ["--left", f"{servers}/{TOPICS[0]}", "--right", f"{servers}/{TOPICS[1]}", "--until-caught-up"]
    begun = time.monotonic()
    with out.open("wb") as verdict:
        process = subprocess.Popen(command, stdout=verdict, env=environment())
        _, status, used = os.wait4(process.pid, 0)
    seconds, text = time.monotonic() - begun, out.read_text(encoding="utf-8")
    found = re.search(r"equal up to these offsets: ([\d,]+) records", text)
    assert status == 0, text
    assert found is not None, text
    return seconds, used.ru_maxrss / 1024, int(found[1].replace(",", ""))
