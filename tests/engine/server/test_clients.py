"""Clients of ksqlDB that others wrote, and the examples of their READMEs."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
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


def told(*command: object, env: Mapping[str, str] | None = None) -> Any:
    """What a client's script prints."""
    ran = subprocess.run(
        [*map(str, command)],
        capture_output=True,
        text=True,
        timeout=900,
        check=False,
        env={**os.environ, **(env or {})},
    )
    assert ran.returncode == 0, ran.stderr
    return json.loads(ran.stdout)


@pytest.mark.nightly
@pytest.mark.rules("R1.2", "R10.3")
def test_ksql_python_ng(server: Running, tmp_path: Path) -> None:
    # It calls httpx as releases before 0.28 let it.
    packages = ("ksql-python-ng", "httpx[http2]<0.28")
    subprocess.run([sys.executable, "-m", "uv", "pip", "install", "-q", "--target", tmp_path, *packages], check=True)
    said = told(sys.executable, CLIENTS / "ksql_python_ng.py", server.url, env={"PYTHONPATH": os.fspath(tmp_path)})
    rows = [[1, 23.5, "abc"], [2, 3.7, "xyz"]]
    assert (said["version"], said["properties"], said["created"], said["as"]) == ("0.29.0", True, True, True)
    assert said["acks"] == ["ok", "ok"]
    assert [*map(json.loads, said["http1"][1:])] == [*map(json.loads, said["http2"][1:])] == rows
    assert said["parsed"] == [
        dict(zip(("ORDER_ID", "TOTAL_AMOUNT", "CUSTOMER_NAME"), row, strict=True)) for row in rows
    ]
    assert said["closed"] is False
    assert "COUNTS" in said["tables"]
    assert said["refused"] == "Cannot add stream 'ORDERS': A stream with the same name already exists"


@pytest.mark.nightly
@pytest.mark.rules("R1.2", "R10.3")
@pytest.mark.skipif(shutil.which("npm") is None, reason="Node.js is not installed")
def test_the_driver_of_cube(server: Running, tmp_path: Path) -> None:
    subprocess.run(
        ["npm", "install", "--silent", "--no-audit", "--no-fund", "@cubejs-backend/ksql-driver"],
        cwd=tmp_path,
        check=True,
    )
    said = told("node", CLIENTS / "cube.js", server.url, env={"NODE_PATH": str(tmp_path / "node_modules")})
    assert said["schema"]["SHOP"]["SALES"] == [{"name": "ID", "type": "INTEGER"}, {"name": "PRICE", "type": "DOUBLE"}]
    assert [each["name"] for each in said["types"]] == ["ID", "WINDOWSTART", "WINDOWEND", "N"]
    assert (said["tables"], said["left"]) == (["totals", "SALES"], ["SALES"])
    assert said["streaming"] == ["shop-totals", 1, "ksql"]
    assert "Could not find STREAM/TABLE 'nothing'" in said["refused"]


@pytest.mark.nightly
@pytest.mark.rules("R1.2", "R10.3")
@pytest.mark.skipif(shutil.which("cargo") is None, reason="Rust is not installed")
def test_the_crate_ksqldb(server: Running, tmp_path: Path) -> None:
    said = told(
        *("cargo", "run", "--quiet", "--manifest-path", CLIENTS / "crate" / "Cargo.toml", "--"),
        server.url.removeprefix("http://"),
        env={"CARGO_TARGET_DIR": str(tmp_path)},
    )
    assert said == {"streams": ["CRATE_TRIPS"], "fields": ["ID", "FARE"], "trips": [[1, 2.5], [2, 3.5]]}


@pytest.mark.rules("R1.2", "R10.3")
@pytest.mark.skipif(shutil.which("node") is None, reason="Node.js is not installed")
@pytest.mark.skipif(not (CLIENTS / "node_modules").is_dir(), reason="`make clients` has not fetched ksqldb-js")
def test_the_client_of_node_js(server: Running) -> None:
    said = told("node", CLIENTS / "readme.js", server.url)
    jack, john = ["jack", "123@mail.com", 25], ["john", "456@mail.com", 20]
    assert "TESTSTREAM" in said["streams"]
    assert [ack["status"] for ack in said["acks"]] == ["ok", "ok"]
    assert said["pushed"] == [jack, john]
    assert said["pulled"] == [["jack", 25]]
    assert said["between"] > 0
    assert said["terminated"] == "terminate_query"
    assert (said["health"], said["info"], said["query"]) == (True, "RUNNING", "SUCCESS")
    assert said["property"] is True
    assert {stream["name"] for stream in ksql(server.url, "LIST STREAMS;").json()[0]["streams"]} >= {"ADULTS"}
