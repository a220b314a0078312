"""A service is taken over from ksqlDB's real server, `../shared/oracle/server.sh`, right after its end."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from kestrel_sql.kafka.broker.broker import HOST
from kestrel_sql.kafka.client.config import KafkaConfig
from tests.kafka.helpers import create, produce, read
from tests.kafka.processes import ending
from tests.kafka.servers import Server, Servers, eventually, free_port

COMMAND = Path(__file__).resolve().parents[3] / "shared" / "oracle" / "server.sh"
EXACTLY_ONCE = ("processing.guarantee=exactly_once_v2", "commit.interval.ms=100", "num.stream.threads=1")
ROWS = 100

pytestmark = [pytest.mark.spark, pytest.mark.nightly]


@pytest.mark.rules("R5.1")
@pytest.mark.parametrize("adopts_again", [True, False])
def test_a_service_that_is_adopted_right_after_its_end_repeats_nothing(
    kafka: KafkaConfig, spark: SparkSession, tmp_path: Path, adopts_again: bool
) -> None:
    if not COMMAND.exists():
        pytest.skip(f"{COMMAND.parent} is absent: no server of ksqlDB was taken over")
    with ExitStack() as stack:
        servers = Servers(kafka.servers, tmp_path, stack)
        source, sink = f"{servers.service}in", f"{servers.service}out"
        create(kafka.servers, 1, source)
        write(servers, source, range(ROWS))
        ksqldb = started(servers)
        eventually(ksqldb.is_up, ksqldb)
        found = ksqldb.ksql(f"""
            CREATE STREAM events (id INT KEY, n INT) WITH (KAFKA_TOPIC='{source}', VALUE_FORMAT='JSON');
            CREATE STREAM big WITH (KAFKA_TOPIC='{sink}') AS SELECT id, n FROM events WHERE n >= 0;
            CREATE TABLE sums WITH (KAFKA_TOPIC='{servers.service}sums', PARTITIONS=1) AS
              SELECT id, COUNT(*) AS c FROM events GROUP BY id;
        """)
        query, counting = (each["commandStatus"]["queryId"] for each in found[1:])
        eventually(lambda: len(read(kafka.servers, sink, 1)) == ROWS, ksqldb)
        # What has read nothing begins at the beginning unasked.
        eventually(lambda: bool(read(kafka.servers, f"{servers.service}sums", 1)), ksqldb)
        ksqldb.end()

        first = servers.here(spark, adopts=True)
        eventually(lambda: f"{query} waits until the group" in first.said(), first)
        first.end()
        second = servers.here(spark, adopts=adopts_again)
        eventually(lambda: f"{query} goes on from the offsets that ksqlDB committed" in second.said(), second)
        eventually(lambda: f"{counting} has state, which is not taken over" in errors_of(second), second)
        second.end()
        second = servers.here(spark, adopts=adopts_again, rebuilds=True)
        write(servers, source, [ROWS])
        eventually(lambda: len(read(kafka.servers, sink, 1)) > ROWS, second)
        eventually(lambda: second.query("SELECT c FROM sums WHERE id = 1;") == [[ROWS + 1]], second)
        numbers = [json.loads(value or b"{}")["N"] for _, _, value, _ in read(kafka.servers, sink, 1)]
        assert numbers == [*range(ROWS + 1)]


def errors_of(server: Server) -> str:
    found = server.ksql("SHOW QUERIES EXTENDED;")[0]["queryDescriptions"] if server.is_up() else []
    return " ".join(error["errorMessage"] for query in found for error in query["queryErrors"])


def write(servers: Servers, topic: str, numbers: Sequence[int]) -> None:
    produce(servers.servers, topic, [("\0\0\0\1", json.dumps({"n": number}), number + 1) for number in numbers])


def started(servers: Servers) -> Server:
    """Start ksqlDB's server; `end` stops it as its own scripts do."""
    port, log = free_port(), servers.folder / "ksqldb.log"
    properties = [f"ksql.service.id={servers.service}", "auto.offset.reset=earliest", *EXACTLY_ONCE]
    command = [COMMAND, "rest", servers.servers, str(port), *properties]
    with log.open("wb") as out:
        process = subprocess.Popen(command, stdout=out, stderr=out, env={**os.environ, "HEAP": "384m"})
    servers.stack.enter_context(ending(process))

    def end() -> None:
        process.send_signal(signal.SIGTERM)
        process.wait(120)

    return Server(f"http://{HOST}:{port}", log.read_text, lambda: process.poll() is None, end, process.pid)
