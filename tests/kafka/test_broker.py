"""Tests `kestrel broker`: it starts with packages from pip only, stops with its command, and can keep its data."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from kestrel_qtt.drivers.kafka.scratch_topics import AHEAD_MS, ScratchTopics
from kestrel_sql.errors import EngineError
from kestrel_sql.kafka.broker.broker import Broker
from kestrel_sql.kafka.client.config import KafkaConfig
from kestrel_sql.kafka.client.consume import partition_counts, read_topics
from kestrel_sql.topics.records import Record

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("kafka")]


USE = """
import os
from confluent_kafka import Producer
delivered = []
producer = Producer({"bootstrap.servers": os.environ["KESTREL_KAFKA"]})
producer.produce("new", value=b"v", on_delivery=lambda error, _: delivered.append(error))
producer.flush(30)
raise SystemExit(7 if delivered == [None] else 1)
"""


def test_a_command_beside_it_uses_topics_at_once_and_gives_its_exit_code() -> None:
    command = [
        sys.executable,
        "-m",
        "kestrel_sql.cli.main",
        "broker",
        "--port",
        "0",
        "--once",
        sys.executable,
        "-c",
        USE,
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 7
    assert "not for production" in " ".join(done.stderr.split())


@pytest.mark.nightly
def test_its_topics_outlast_it_where_a_folder_is_given(tmp_path: Path) -> None:
    with Broker.start(data=tmp_path) as broker:
        config = KafkaConfig(servers=broker.address)
        topics = ScratchTopics(config)
        topics.make({"kept": 2})
        headers = (("h", None), ("h", b"1"))
        topics.send([Record(topic="kept", key=b"k", value=b"v", timestamp=5, partition=1, headers=headers)])
        topics.close()
    with Broker.start(data=tmp_path) as broker:
        config = KafkaConfig(servers=broker.address)
        assert partition_counts(config, ["kept", "other"]) == {"kept": 2}
        [record] = read_topics(config, ["kept"])["kept"]
        assert (record.partition, record.key, record.value, record.timestamp, record.headers) == (
            1,
            b"k",
            b"v",
            5 + AHEAD_MS,
            headers,
        )


def test_a_port_that_is_taken_is_named(kafka: KafkaConfig) -> None:
    port = int(kafka.servers.rpartition(":")[2])
    with pytest.raises(EngineError, match=f"port {port}"):
        Broker.start(port=port)
