"""What queries of `kestrel serve` leave open once they have ended, in memory and on a broker.

    INTO=docs/reliability.md python -m tests.bench leaks

Environment variables, with what they are by default: COUNT=2000, the push queries, and as many queries that are made
and dropped; AT_ONCE=4, how many of them at a time; PLACES="memory broker", where. Prints threads, descriptors and
resident memory of the server's process, and on a broker of its JVM, after the first few, and ten times on the way; then
a table of them for each place.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from functools import partial
from pathlib import Path

from kestrel_sql.kafka.broker.broker import HOST, Broker
from tests.bench.measure import machine
from tests.bench.tables import write_table
from tests.kafka.helpers import environment
from tests.kafka.processes import ending, jvm_of, kill
from tests.kafka.servers import Server, Servers, eventually, free_port

COUNT, AT_ONCE = int(os.environ.get("COUNT", "2000")), int(os.environ.get("AT_ONCE", "4"))
PLACES = os.environ.get("PLACES", "memory broker").split()

_MADE = {
    0: ("STREAM", "SELECT * FROM s"),
    1: ("TABLE", "SELECT id, COUNT(*) AS n FROM s GROUP BY id"),
    2: ("STREAM", "SELECT s.id AS id, r.v AS v FROM s JOIN r WITHIN 1 DAY ON s.id = r.id"),
}
"""The kind and the query of what is made, by the last digit of its number."""


def main() -> None:
    """Print the figures."""
    print(machine())
    for place in PLACES:
        with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
            server, prefix = _STARTED[place](Path(folder), stack)
            print(f"-- {place}", flush=True)
            _measure(server, prefix, place)


def _in_memory(folder: Path, stack: ExitStack) -> tuple[Server, str]:
    port, log = free_port(), folder / "serve.log"
    command = [sys.executable, "-m", "kestrel_sql.cli.main", "serve", "--listen", f"{HOST}:{port}"]
    with log.open("wb") as out:
        process = stack.enter_context(ending(subprocess.Popen(command, stdout=out, stderr=out, env=environment())))
    lives = partial(_lives, process)
    return Server(f"http://{HOST}:{port}", log.read_text, lives, partial(kill, process), process.pid), ""


def _lives(process: subprocess.Popen[bytes]) -> bool:
    return process.poll() is None


def _on_a_broker(folder: Path, stack: ExitStack) -> tuple[Server, str]:
    servers = Servers(stack.enter_context(Broker.start()).address, folder, stack)
    return servers.start(), servers.service


_STARTED = {"memory": _in_memory, "broker": _on_a_broker}


def _measure(server: Server, prefix: str, place: str) -> None:
    eventually(server.is_up, server)
    for name in ("s", "r"):
        server.ksql(
            f"CREATE STREAM {name} (id INT KEY, v INT)"
            f" WITH (KAFKA_TOPIC='{prefix}{name}', VALUE_FORMAT='JSON', PARTITIONS=1);"
        )
    server.ksql("INSERT INTO s VALUES (1, 1); INSERT INTO r VALUES (1, 1);")
    run(server, f"{prefix}made", range(AT_ONCE))
    rows = [_row(AT_ONCE, server, place)]
    step = max(1, COUNT // 10)
    for first in range(AT_ONCE, COUNT, step):
        end = min(first + step, COUNT)
        run(server, f"{prefix}made", range(first, end))
        rows.append(_row(end, server, place))
    processes = ("Server", "JVM")[: len(rows[0]) - 1]
    write_table(f"leaks-{place}", ("Of each", *(f"{each}: threads, descriptors, MB" for each in processes)), rows)


def _row(count: int, server: Server, place: str) -> tuple[str, ...]:
    time.sleep(5)
    row = (f"{count:,}", *figures(server, place))
    print(" | ".join(row), flush=True)
    return row


def run(server: Server, topic: str, numbers: Iterable[int]) -> None:
    """Start and end a push query, then a persistent one with a numbered topic, again and again; two of ten have state."""

    def one(number: int) -> None:
        server.query("SELECT id FROM s EMIT CHANGES LIMIT 1;")
        kind, select = _MADE.get(number % 10, _MADE[0])
        made = server.ksql(f"CREATE {kind} made{number} WITH (KAFKA_TOPIC='{topic}{number}') AS {select};")
        query = made[0]["commandStatus"]["queryId"]
        try:
            eventually(lambda: len(server.query(f"SELECT id FROM made{number} LIMIT 1;")) == 1, server)
        except AssertionError:
            print(f"query {number}: {server.ksql(f'EXPLAIN {query};')}", flush=True)
            raise
        server.ksql(f"TERMINATE {query}; DROP {kind} made{number} DELETE TOPIC;")

    with ThreadPoolExecutor(AT_ONCE) as threads:
        list(threads.map(one, numbers))


def figures(server: Server, place: str) -> list[str]:
    """Threads, descriptors and memory of a server's process and, on a broker, of its JVM."""
    processes = [server.process] if place == "memory" else [server.process, jvm_of(server.process)]
    return list(map(_figures, processes))


def _figures(process: int) -> str:
    place = Path(f"/proc/{process}")
    threads, descriptors = (len([*(place / kind).iterdir()]) for kind in ("task", "fd"))
    pages = int((place / "statm").read_text().split()[1])
    return f"{threads}, {descriptors:,}, {pages * os.sysconf('SC_PAGE_SIZE') >> 20}"
