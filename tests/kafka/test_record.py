"""`qtt record` against a broker: what it takes, masks and writes."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from confluent_kafka import Producer

from kestrel_qtt.cli.main import ExitCode, main
from kestrel_qtt.load import load
from kestrel_sql.kafka.client.config import KafkaConfig

pytestmark = pytest.mark.spark

APP = """
CREATE STREAM ORDERS (ID INT KEY, CUSTOMER STRING, AMOUNT INT)
  WITH (kafka_topic='{orders}', value_format='JSON', partitions=2);
CREATE TABLE CUSTOMERS (ID STRING PRIMARY KEY, EMAIL STRING)
  WITH (kafka_topic='{customers}', value_format='JSON', partitions=2);
CREATE STREAM MAILS WITH (kafka_topic='mails') AS
  SELECT CUSTOMERS.ID AS CUSTOMER, ORDERS.AMOUNT AS AMOUNT, CUSTOMERS.EMAIL AS EMAIL
  FROM ORDERS JOIN CUSTOMERS ON ORDERS.CUSTOMER = CUSTOMERS.ID;
"""


def test_a_case_from_a_broker(
    kafka: KafkaConfig, topic: Callable[..., str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    orders, customers = topic(), topic()
    producer = Producer(kafka.client())

    def send(name: str, key: bytes, value: str, time: int, **more: object) -> None:
        producer.produce(name, value, key, timestamp=time, **more)

    for name in "abc":
        send(customers, name.encode(), json.dumps({"EMAIL": f"{name}@x.org"}), 10, partition=0)
    send(orders, (1).to_bytes(4), '{"CUSTOMER": "c", "AMOUNT": 1}', 20, partition=0)
    send(orders, (2).to_bytes(4), '{"CUSTOMER": "a", "AMOUNT": 2}', 30, partition=1, headers={"from": b"web"})
    send(orders, (3).to_bytes(4), "{broken", 35, partition=1)
    send(orders, (4).to_bytes(4), '{"CUSTOMER": "b", "AMOUNT": 4}', 40, partition=0)
    producer.flush()
    script, file = tmp_path / "app.sql", tmp_path / "real.yaml"
    script.write_text(APP.format(orders=orders, customers=customers))
    arguments = ["--kafka", kafka.servers, "--app", str(script), "--topic", f"{orders}=last:2"]
    assert main(["record", *arguments, "--mask", "value.EMAIL", "--write", str(file)]) == ExitCode.OK
    said = capsys.readouterr().err
    assert f"{orders}, partition 1, offset 1: left out, because it cannot be read" in said
    assert f"{customers}: 2 records whose key is in the sample" in said
    (case,) = load(file).cases
    assert case.script == script
    taken = [(each.topic, each.key, each.timestamp, each.partition, each.offset) for each in case.inputs]
    assert taken == [
        (customers, "a", 10, 0, 0),
        (customers, "b", 10, 0, 1),
        (orders, 2, 30, 1, 0),
        (orders, 4, 40, 0, 1),
    ]
    assert case.inputs[2].headers == (("from", b"web"),)
    assert "x.org" not in file.read_text()
    assert [(each.key, each.value["AMOUNT"]) for each in case.outputs or ()] == [("a", 2), ("b", 4)]  # type: ignore
    assert main(["run", str(file)]) == ExitCode.OK
    assert main(["record", *arguments, "--mask", "value.EMAIL"]) == ExitCode.OK
    printed = capsys.readouterr().out
    emails = [each.value["EMAIL"] for each in case.inputs[:2]]  # type: ignore[index,call-overload]
    assert all(str(email) in printed for email in emails), "the same masks again"
    assert main(["record", *arguments, "--write", str(file)]) == ExitCode.USAGE
    for format in ("AVRO", "JSON_SR", "PROTOBUF"):
        script.write_text(re.sub("value_format='[A-Z_]+'", f"value_format='{format}'", script.read_text()))
        capsys.readouterr()
        assert main(["record", *arguments]) != ExitCode.OK
        said = " ".join(capsys.readouterr().err.split())
        assert f"the schema of {orders}-value needs a schema registry, and none is configured" in said
        assert "--schema-registry URL" in said
