"""What queries of `kestrel serve` on a broker leave open once they have ended.

    python -m tests.bench leaks

Environment variable, with what it is by default: COUNT=2000, the push queries, and as many queries that are made and
dropped. Prints threads, descriptors and resident memory of the server's process and of its JVM after the first, and ten times on
the way.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Iterable
from contextlib import ExitStack
from pathlib import Path

from kestrel_sql.kafka.broker.broker import Broker
from tests.bench.measure import machine
from tests.kafka.processes import jvm_of
from tests.kafka.servers import Server, Servers, eventually

COUNT = int(os.environ.get("COUNT", "2000"))

_MADE = {
    0: ("STREAM", "SELECT * FROM s"),
    1: ("TABLE", "SELECT id, COUNT(*) AS n FROM s GROUP BY id"),
    2: ("STREAM", "SELECT s.id AS id, r.v AS v FROM s JOIN r WITHIN 1 DAY ON s.id = r.id"),
}
"""The kind and the query of what is made, by the last digit of its number."""


def main() -> None:
    """Print the figures."""
    print(machine())
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        broker = stack.enter_context(Broker.start())
        servers = Servers(broker.address, Path(folder), stack)
        server = servers.start()
        eventually(server.is_up, server)
        source, made = f"{servers.service}s", f"{servers.service}made"
        server.ksql(
            f"CREATE STREAM s (id INT KEY, v INT) WITH (KAFKA_TOPIC='{source}', VALUE_FORMAT='JSON', PARTITIONS=1);"
        )
        server.ksql(
            f"CREATE STREAM r (id INT KEY, v INT) WITH (KAFKA_TOPIC='{source}r', VALUE_FORMAT='JSON', PARTITIONS=1);"
        )
        server.ksql("INSERT INTO s VALUES (1, 1); INSERT INTO r VALUES (1, 1);")
        run(server, made, [0])
        time.sleep(5)
        print(f"after the first: {figures(server)}", flush=True)
        step = max(1, COUNT // 10)
        for first in range(1, COUNT + 1, step):
            end = min(first + step, COUNT + 1)
            run(server, made, range(first, end))
            time.sleep(5)
            print(f"after {end - 1} of each: {figures(server)}", flush=True)


def run(server: Server, topic: str, numbers: Iterable[int]) -> None:
    """Start and end a push query, then a persistent one with a numbered topic, again and again; each tenth has state."""
    for number in numbers:
        server.query("SELECT id FROM s EMIT CHANGES LIMIT 1;")
        kind, select = _MADE.get(number % 10, _MADE[0])
        query = server.ksql(f"CREATE {kind} made WITH (KAFKA_TOPIC='{topic}{number}') AS {select};")
        eventually(lambda: len(server.query("SELECT id FROM made LIMIT 1;")) == 1, server)
        server.ksql(f"TERMINATE {query[0]['commandStatus']['queryId']}; DROP {kind} made DELETE TOPIC;")


def figures(server: Server) -> str:
    """Threads, descriptors and memory of a server's process and of its JVM."""
    jvm = jvm_of(server.process)
    return f"{_figures(server.process)}; JVM: {_figures(jvm)}"


def _figures(process: int) -> str:
    place = Path(f"/proc/{process}")
    threads, descriptors = (len([*(place / kind).iterdir()]) for kind in ("task", "fd"))
    pages = int((place / "statm").read_text().split()[1])
    return f"{threads} threads, {descriptors} descriptors, {pages * os.sysconf('SC_PAGE_SIZE') >> 20} MB"
