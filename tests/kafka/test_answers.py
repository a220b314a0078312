"""A server on a broker answers a list of requests as ksqlDB's own server does."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from pyspark.sql import SparkSession

from kestrel_sql.kafka.client.config import KafkaConfig
from tests.kafka.answers import RECORDED, REQUESTS, answers
from tests.kafka.ksqldb import needs_ksqldb, start_ksqldb
from tests.kafka.servers import Servers, eventually


def differing(found: Iterable[Any]) -> Iterator[str]:
    """The requests that are answered otherwise than ksqlDB's server did when it was asked last."""
    recorded = json.loads(RECORDED.read_text(encoding="utf-8"))
    for request, answer, wanted in zip(REQUESTS, found, recorded, strict=True):
        if answer != wanted:
            yield f"{request}\n  {json.dumps(answer)}\n  {json.dumps(wanted)}"


@pytest.mark.spark
@pytest.mark.rules("R5.9", "R6.2", "R8.3")
def test_a_server_answers_as_ksqldb_does(kafka: KafkaConfig, spark: SparkSession, tmp_path: Path) -> None:
    with ExitStack() as stack:
        servers = Servers(kafka.servers, tmp_path, stack)
        server = servers.here(spark)
        eventually(server.is_up, server)
        found = "\n".join(differing(answers(server, servers.service)))
        assert not found, found


@pytest.mark.nightly
def test_ksqldb_answers_as_it_did(kafka: KafkaConfig, tmp_path: Path) -> None:
    needs_ksqldb()
    service = f"a{uuid4().hex[:8]}_"
    with ExitStack() as stack:
        server = start_ksqldb(kafka.servers, service, tmp_path, stack)
        eventually(server.is_up, server)
        found = "\n".join(differing(answers(server, service)))
        assert not found, found
