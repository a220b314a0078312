"""Tests an edited script with the checkpoint of the previous one.

Which queries resume, start, are refused, or fail alone.
"""

from __future__ import annotations

import json
import random
import time
from pathlib import Path

import pytest
from confluent_kafka.admin import NewTopic

from kestrel_sql.kafka.client.admin import admin_client
from tests.kafka.applications import Applications
from tests.kafka.helpers import create, produce, read

pytestmark = pytest.mark.spark

SOURCE = "CREATE STREAM S (K STRING KEY, V STRING, N INT) WITH (KAFKA_TOPIC='{0}_s', VALUE_FORMAT='JSON');"
COUNT = "CREATE TABLE A WITH (KAFKA_TOPIC='{0}_a') AS SELECT K, COUNT(*) AS N FROM S GROUP BY K;"
KEPT = "CREATE {1}STREAM C WITH (KAFKA_TOPIC='{0}_c') AS SELECT K, N FROM S WHERE N > {2};"
NEW = "CREATE STREAM B WITH (KAFKA_TOPIC='{0}_b') AS SELECT K, N FROM S;"
LARGE = "CREATE STREAM L WITH (KAFKA_TOPIC='{0}_l') AS SELECT * FROM S;"


def test_an_edited_script_resumes_where_it_can(applications: Applications, tmp_path: Path) -> None:
    name, servers = f"edited_{time.time_ns()}", applications.config.servers
    # Of records of 1970 a compacted topic keeps the last of each key only.
    now = int(time.time() * 1000)
    create(servers, 1, f"{name}_s")
    small = NewTopic(f"{name}_l", 1, config={"max.message.bytes": "1000"})
    admin = admin_client(applications.config)
    admin.create_topics([small])[small.topic].result()

    def start(*statements: str) -> tuple[bool, str]:
        run = applications.catch_up("\n".join((SOURCE, *statements)).format(name), tmp_path)
        return run.well, run.text

    def values(sink: str) -> list[dict[str, object]]:
        return [json.loads(value or b"") for _, _, value, _ in read(servers, f"{name}_{sink}", 1)]

    produce(servers, f"{name}_s", [("k", json.dumps({"V": "x", "N": n}), now + n) for n in range(3)])
    well, said = start(COUNT, KEPT.format("{0}", "", 1))
    assert well, said
    assert [row["N"] for row in values("a")] == [1, 2, 3]
    assert [row["N"] for row in values("c")] == [2]

    well, said = start(COUNT, KEPT.format("{0}", "", 0))
    assert not well
    assert "CSAS_C_1 differs from that in the checkpoint" in said
    assert "N > 1" in said
    assert "N > 0" in said
    assert "CREATE OR REPLACE" in said

    # What compresses well is not large.
    large = random.Random(1).randbytes(3000).hex()
    produce(
        servers,
        f"{name}_s",
        [("k", json.dumps({"V": "x", "N": 1}), now + 8), ("k", json.dumps({"V": large, "N": 0}), now + 9)],
    )
    well, said = start(NEW, COUNT, KEPT.format("{0}", "OR REPLACE ", 0), LARGE)
    assert not well, said
    assert f"a record for {name}_l-0, caused by {name}_s-0 at offset 4, was refused" in said
    assert "Traceback" not in said
    assert values("l") == [], "nothing is half written"
    assert [row["N"] for row in values("a")] == [1, 2, 3, 4, 5], "the state is that of the first run"
    assert [row["N"] for row in values("b")] == [0, 1, 2, 1, 0], "a new query begins at the beginning"
    assert [row["N"] for row in values("c")] == [2, 1], "a replaced one goes on where it was"
