"""A user's view of a broker, without Kestrel's code: produce records, read committed records, run the command."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

SUBMIT_ARGUMENTS = "PYSPARK_SUBMIT_ARGS"
"""The environment variable with arguments for the JVM of this process; commands that tests start do not need it."""

_LONGEST_S = 600.0
_MOST_WAITING = 50_000

Row = tuple[str | None, str | None, int]
"""Key, value and timestamp (ms, above 0, because 0 means now in librdkafka)."""


def create(servers: str, partitions: int, *topics: str, replicas: int = 1) -> None:
    admin = AdminClient({"bootstrap.servers": servers})
    for future in admin.create_topics([NewTopic(topic, partitions, replicas) for topic in topics]).values():
        future.result()
    # The controller says that they are there before the leaders of their partitions know of them.
    places = [TopicPartition(topic, number) for topic in topics for number in range(partitions)]
    deadline = time.monotonic() + 20
    asking: Any = Consumer({"bootstrap.servers": servers, "group.id": "test", "log_level": 0})
    with closing(asking):
        while not all(_is_led(asking, place) for place in places):
            assert time.monotonic() < deadline, f"no leader knows of {topics}"
            time.sleep(0.02)


def _is_led(consumer: Any, place: TopicPartition) -> bool:
    try:
        consumer.get_watermark_offsets(place, timeout=10)
    except KafkaException:
        return False
    return True


def delete(servers: str, *topics: str) -> None:
    admin = AdminClient({"bootstrap.servers": servers})
    for future in admin.delete_topics(list(topics), operation_timeout=10).values():
        future.result()


def renew(servers: str, topic: str) -> None:
    """Delete a topic, and create it again with one partition."""
    delete(servers, topic)
    deadline = time.monotonic() + 20
    while True:
        try:
            return create(servers, 1, topic)
        except KafkaException:
            assert time.monotonic() < deadline
            time.sleep(0.05)


def produce(servers: str, topic: str, rows: Iterable[Row]) -> None:
    """Write rows in order.

    Without idempotence, resending a batch to a leader that does not know a new topic yet changes the order.
    """
    settings = {
        "bootstrap.servers": servers,
        "partitioner": "murmur2_random",
        "linger.ms": 5,
        "enable.idempotence": True,
    }
    producer = Producer(settings)
    for key, value, timestamp in rows:
        producer.produce(topic, key=key, value=value, timestamp=timestamp)
        producer.poll(0.1 if len(producer) > _MOST_WAITING else 0)
    assert producer.flush(30) == 0


def read(servers: str, topic: str, partitions: int) -> list[tuple[int, bytes | None, bytes | None, int]]:
    """The committed records: partition, key, value and timestamp, in offset order."""
    settings = {
        "group.id": "test",
        "isolation.level": "read_committed",
        "enable.partition.eof": True,
        "auto.offset.reset": "earliest",
        # A broker says that a partition ends when it has waited for more.
        "fetch.wait.max.ms": 10,
    }
    consumer: Any = Consumer({"bootstrap.servers": servers, **settings})
    found: list[tuple[int, bytes | None, bytes | None, int]] = []
    with closing(consumer):
        if topic not in consumer.list_topics(timeout=10).topics:
            return []
        consumer.assign([TopicPartition(topic, number, 0) for number in range(partitions)])
        ended: set[int] = set()
        deadline = time.monotonic() + 60
        while len(ended) < partitions:
            assert time.monotonic() < deadline, f"{topic} gives nothing"
            for message in consumer.consume(1000, timeout=0.1):
                if message.error() is None:
                    found.append((message.partition(), message.key(), message.value(), message.timestamp()[1]))
                else:
                    assert message.error().code() == KafkaError._PARTITION_EOF, message.error()
                    ended.add(message.partition())
    return sorted(found, key=lambda row: row[0])


@contextmanager
def reach(servers: str, topics: Iterable[str], partitions: int) -> Iterator[Callable[[], int]]:
    """Return a function that counts the offsets of topics, including those of open transactions."""
    consumer: Any = Consumer(
        {"bootstrap.servers": servers, "group.id": "test", "isolation.level": "read_uncommitted", "log_level": 0}
    )
    places = [TopicPartition(topic, number) for topic in topics for number in range(partitions)]

    def end(place: TopicPartition) -> int:
        try:
            return int(consumer.get_watermark_offsets(place, timeout=10)[1])
        except KafkaException:
            # A topic that does not exist yet.
            return 0

    try:
        yield lambda: sum(map(end, places))
    finally:
        consumer.close()


def command(script: Path, servers: str, checkpoint: Path | str, *options: str) -> list[str]:
    own = ["--bootstrap-servers", servers, "--checkpoint", str(checkpoint)]
    return [sys.executable, "-m", "kestrel_sql.cli.main", "run", str(script), *own, *options]


def environment() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if name != SUBMIT_ARGUMENTS}


def run(script: Path, servers: str, checkpoint: Path | str, *options: str) -> subprocess.CompletedProcess[str]:
    whole = command(script, servers, checkpoint, *options)
    try:
        return subprocess.run(whole, capture_output=True, text=True, timeout=_LONGEST_S, check=False, env=environment())
    except subprocess.TimeoutExpired as error:
        said = (error.stderr or b"").decode(errors="replace")
        raise AssertionError(f"{script.name} did not end within {_LONGEST_S:.0f} s; it said: {said[-6000:]}") from None


def spark_options(settings: Mapping[str, str]) -> list[str]:
    """The options of a run for settings of Spark."""
    return [word for item in settings.items() for word in ("--spark-conf", "=".join(item))]


def states(checkpoint: str, settings: Mapping[str, str]) -> list[dict[str, Any]]:
    """What `kestrel state ls` says of the steps of a checkpoint."""
    command = [
        sys.executable,
        "-m",
        "kestrel_sql.cli.main",
        "state",
        "ls",
        checkpoint,
        "--json",
        *spark_options(settings),
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=_LONGEST_S, check=False, env=environment())
    assert (done.returncode, done.stderr) == (0, ""), done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def start(
    script: Path, servers: str, checkpoint: Path | str, *options: str, log: Path | None = None
) -> subprocess.Popen[bytes]:
    """Start a run in its own process group, with its output in `log`."""
    with (log or Path(os.devnull)).open("ab") as said:
        whole = command(script, servers, checkpoint, *options)
        return subprocess.Popen(whole, stdout=said, stderr=said, start_new_session=True, env=environment())


def await_rows(servers: str, topics: Sequence[str], partitions: int, least: int, seconds: float = 120) -> int:
    """Wait until the topics have more than `least` offsets together; return the number."""
    deadline = time.monotonic() + seconds
    while True:
        count = sum(len(read(servers, topic, partitions)) for topic in topics)
        if count > least or time.monotonic() > deadline:
            return count
        time.sleep(0.3)
