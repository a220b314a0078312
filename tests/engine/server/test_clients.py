"""Clients of ksqlDB that others wrote, and the examples of their READMEs."""

from __future__ import annotations

import asyncio
import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from ksqldb import KSQLdbClient

from kestrel_sql.server.open import Running
from tests.engine.server.servers import ksql
from tests.engine.server.test_queries import eventually

pytestmark = pytest.mark.spark

CLIENTS = Path(__file__).with_name("clients")
EARLIEST = {"ksql.streams.auto.offset.reset": "earliest"}


@pytest.mark.rules("R1.2", "R10.3")
def test_the_python_client(server: Running) -> None:
    client = KSQLdbClient(server.url)
    assert client.get_properties()
    client.ksql(
        "CREATE STREAM trips (id INT KEY, fare DOUBLE) WITH (KAFKA_TOPIC='trips', VALUE_FORMAT='JSON', PARTITIONS=1);"
    )
    client.ksql(
        "CREATE TABLE fares AS SELECT id, SUM(fare) AS total FROM trips GROUP BY id;", stream_properties=EARLIEST
    )
    shown = [client.ksql(f"{text};")[0]["@type"] for text in ("show topics", "show streams", "show tables")]
    assert shown == ["kafka_topics", "streams", "tables"]
    assert client.ksql("describe trips extended;")[0]["sourceDescription"]["name"] == "TRIPS"
    acks = client.inserts_stream("trips", [{"id": 1, "fare": 2.5}, {"id": 1, "fare": 3}])
    assert acks == [{"seq": 0, "status": "ok"}, {"seq": 1, "status": "ok"}]
    eventually(lambda: server.service.figures().queries[0].rows_in == 2)
    header, *rows = client.query_sync("select * from trips;", stream_properties=EARLIEST, timeout=60)
    assert (header["columnNames"], rows) == (["ID", "FARE"], [[1, 2.5], [1, 3.0]])
    assert client.query_sync("select * from fares;", timeout=60)[1:] == [[1, 5.5]]

    async def read() -> list[Any]:
        asked = client.query_async(
            "select id from trips emit changes limit 2;", stream_properties=EARLIEST, timeout=None
        )
        return [line async for line in asked]

    header, *rows = asyncio.run(read())
    assert rows == [[1], [1]]
    assert client.close_query(header["queryId"]) is False


@pytest.mark.rules("R1.2", "R10.3")
@pytest.mark.skipif(shutil.which("node") is None, reason="Node.js is not installed")
@pytest.mark.skipif(not (CLIENTS / "node_modules").is_dir(), reason="`make clients` has not fetched ksqldb-js")
def test_the_client_of_node_js(server: Running) -> None:
    ran = subprocess.run(["node", CLIENTS / "readme.js", server.url], capture_output=True, text=True, timeout=240)
    assert ran.returncode == 0, ran.stderr
    told = json.loads(ran.stdout)
    jack, john = ["jack", "123@mail.com", 25], ["john", "456@mail.com", 20]
    assert "TESTSTREAM" in told["streams"]
    assert [ack["status"] for ack in told["acks"]] == ["ok", "ok"]
    assert told["pushed"] == [jack, john]
    assert told["pulled"] == [["jack", 25]]
    assert told["between"] > 0
    assert told["terminated"] == "terminate_query"
    assert (told["health"], told["info"], told["query"]) == (True, "RUNNING", "SUCCESS")
    assert told["property"] is True
    assert {stream["name"] for stream in ksql(server.url, "LIST STREAMS;").json()[0]["streams"]} >= {"ADULTS"}
