"""`kestrel serve` on a broker under load: pull queries beside a feed, inserts, push clients.

    python -m tests.bench server

Environment variables, with what they are by default: ROWS=1000000 FEED=20000 SECONDS=20 CLIENTS=500 PUSH_SECONDS=20
PARTS=pulls,inserts,pushes,takeover STORE= (s3 or hdfs: the checkpoint is there, else in a folder).

A table counts and sums a stream by key; it has ROWS keys. `wrk` asks for random keys, without other work and beside a
feed of FEED records a second. Then rows are inserted over HTTP/2; CLIENTS clients share a push query for PUSH_SECONDS
while the feed runs, and one more client takes no rows; at last the server is killed beside the feed, and its standby takes over. Prints
one figure a line. The part `pulls` needs `wrk`.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import re
import shutil
import socket
import subprocess
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import httpx
from confluent_kafka import Producer

from kestrel_sql.kafka.broker.broker import Broker
from kestrel_sql.server.open import READY
from tests.bench.measure import descendants, machine, own_seconds, processor_seconds
from tests.kafka.servers import Server, Servers, eventually
from tests.kafka.stores import store_of

ROWS = int(os.environ.get("ROWS", "1000000"))
FEED = int(os.environ.get("FEED", "20000"))
SECONDS = int(os.environ.get("SECONDS", "20"))
CLIENTS = int(os.environ.get("CLIENTS", "500"))
PUSH_SECONDS = int(os.environ.get("PUSH_SECONDS", "20"))
PARTS = os.environ.get("PARTS", "pulls,inserts,pushes,takeover").split(",")
STORE = os.environ.get("STORE", "")
INSERTS = 20_000
SENT: Counter[str] = Counter()

LUA = """
wrk.method = "POST"
math.randomseed(os.time())
request = function()
  local key = math.random(0, {rows} - 1)
  return wrk.format(nil, "/query-stream", nil, '{{"sql":"SELECT * FROM sums WHERE id = ' .. key .. ';"}}')
end
"""


def main() -> None:
    """Print the figures."""
    if "pulls" in PARTS and shutil.which("wrk") is None:
        raise SystemExit("wrk is not installed: apt-get install wrk, or leave pulls out of PARTS")
    print(f"{machine()}, load {os.getloadavg()[0]:.0f}; {ROWS} rows, a feed of {FEED} records/s")
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        broker = stack.enter_context(Broker.start())
        store = stack.enter_context(store_of(STORE, Path(folder))) if STORE else None
        servers = Servers(broker.address, Path(folder), stack, store)
        server = servers.start("--set", "ksql.max.push.queries=10000", "--push-queue-rows", "1000")
        eventually(server.is_up, server)
        topic = f"{servers.service}events"
        server.ksql(
            f"CREATE STREAM events (id INT KEY, n INT) WITH (KAFKA_TOPIC='{topic}', VALUE_FORMAT='JSON', PARTITIONS=2);"
            f"CREATE TABLE sums AS SELECT id, COUNT(*) AS c, SUM(n) AS s FROM events GROUP BY id;"
        )
        _fill(broker.address, topic, server)
        if "pulls" in PARTS:
            _pulls(server, Path(folder), "idle")
            with _feed(broker.address, topic):
                _keeping_up(server, broker)
                _pulls(server, Path(folder), f"beside {FEED} records/s")
                lag = _metric(server, "kestrel_query_lag_records")
                print(f"lag of the query after {3 * SECONDS} s of the feed | {lag:.0f} records")
        if "inserts" in PARTS:
            _inserts(server)
        if "pushes" in PARTS:
            _pushes(server, broker.address, topic)
        if "takeover" in PARTS:
            _takeover(servers, server, broker.address, topic)


def _fill(servers: str, topic: str, server: Server) -> None:
    started = time.perf_counter()
    producer = Producer({"bootstrap.servers": servers, "linger.ms": 20})
    for key in range(ROWS):
        _send(producer, topic, key)
    producer.flush(60)
    eventually(lambda: _metric(server, "kestrel_query_rows_in_total") >= ROWS, server, 1800)
    eventually(lambda: bool(server.query(f"SELECT * FROM sums WHERE id = {ROWS - 1};")), server, 600)
    print(f"{ROWS} rows into the table and its copy | {ROWS / (time.perf_counter() - started):.0f} rows/s")
    print(f"memory of the driver with them | {_resident(server.process):.0f} MB")


def _send(producer: Producer, topic: str, key: int) -> None:
    while True:
        try:
            producer.produce(topic, key=key.to_bytes(4, "big"), value=b'{"N":1}')
            producer.poll(0)
            SENT["records"] += 1
            return
        except BufferError:
            producer.poll(0.1)


@contextmanager
def _feed(servers: str, topic: str) -> Iterator[None]:
    """Produce FEED records a second until the end of the block."""
    done = threading.Event()

    def feed() -> None:
        producer = Producer({"bootstrap.servers": servers, "linger.ms": 20})
        started, sent = time.monotonic(), 0
        while not done.wait(0.05):
            due = int((time.monotonic() - started) * FEED)
            for _ in range(sent, due):
                _send(producer, topic, random.randrange(ROWS))
            sent = due
        producer.flush(10)

    thread = threading.Thread(target=feed)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()


def _keeping_up(server: Server, broker: Broker) -> None:
    """Let the query work without pull queries, and measure whole batches: one that runs has not counted its records."""
    _batch_ends(server)
    rows = done = _batch_ends(server)
    before = _owners(server, broker)
    started = time.perf_counter()
    while time.perf_counter() - started < SECONDS:
        done = _batch_ends(server)
    seconds = time.perf_counter() - started
    used = {name: now - before[name] for name, now in _owners(server, broker).items()}
    rows = done - rows
    own = sum(used[name] for name in _OWN)
    print(f"records that the query processed, {FEED} a second sent | {rows / seconds:.0f} a second")
    print(f"processor seconds for 100,000 of them, all processes of the server | {own / max(rows, 1) * 100_000:.1f}")
    print("  processor seconds a second | " + ", ".join(f"{name} {each / seconds:.2f}" for name, each in used.items()))


def _batch_ends(server: Server) -> float:
    """Wait for the end of a batch; the records that the query has processed then."""
    rows = now = _metric(server, "kestrel_query_rows_in_total")
    while now == rows:
        time.sleep(0.2)
        now = _metric(server, "kestrel_query_rows_in_total")
    return now


_OWN = ("driver", "JVM", "workers")


def _owners(server: Server, broker: Broker) -> dict[str, float]:
    """The processor seconds of the server's processes, of the broker, and of this process, which feeds."""
    jvm = next(each for each in descendants(server.process) if Path(f"/proc/{each}/comm").read_text() == "java\n")
    whole, driver, java = processor_seconds(server.process), own_seconds(server.process), own_seconds(jvm)
    return {
        "driver": driver,
        "JVM": java,
        "workers": whole - driver - java,
        "broker": processor_seconds(broker.process.pid),
        "feed": time.process_time(),
    }


def _pulls(server: Server, folder: Path, when: str) -> None:
    script = folder / "pull.lua"
    script.write_text(LUA.format(rows=ROWS))
    for connections in (1, 8):
        command = [
            "wrk",
            "-t1",
            f"-c{connections}",
            f"-d{SECONDS}s",
            "--latency",
            "--timeout",
            "30s",
            "-s",
            str(script),
        ]
        before = _scheduled(server.process)
        said = subprocess.run([*command, server.url], capture_output=True, text=True, check=True).stdout
        ran, waited = (now - then for now, then in zip(_scheduled(server.process), before, strict=True))
        median, p99 = (_ms(said, percent) for percent in ("50", "99"))
        (rate,) = re.findall(r"Requests/sec:\s+([\d.]+)", said)
        wrong = "".join(re.findall(r"Non-2xx.*", said))
        clients = f"{connections} client{'s' if connections > 1 else ''}"
        print(f"pull by key, {when}, {clients} | {median:.1f} ms median, {p99:.1f} ms p99, {rate}/s {wrong}")
        print(f"  the driver's threads ran {ran:.1f} s, and waited for a processor | {waited:.1f} s")


def _scheduled(process: int) -> tuple[float, float]:
    """How long the threads of a process ran, and how long they waited for a processor, in seconds."""
    found = [(0, 0)]
    for task in Path(f"/proc/{process}/task").iterdir():
        with suppress(OSError):
            ran, waited, _ = map(int, (task / "schedstat").read_text().split())
            found.append((ran, waited))
    return sum(ran for ran, _ in found) / 1e9, sum(waited for _, waited in found) / 1e9


def _ms(said: str, percent: str) -> float:
    (number, unit), *_ = re.findall(rf"{percent}%\s+([\d.]+)(us|ms|s)", said)
    return float(number) * {"us": 0.001, "ms": 1, "s": 1000}[unit]


def _inserts(server: Server) -> None:
    rows = "".join(f'{{"id":{n},"n":1}}\n' for n in range(INSERTS))
    with httpx.Client(http1=False, http2=True, timeout=600) as client:
        started = time.perf_counter()
        answer = client.post(f"{server.url}/inserts-stream", content='{"target":"events"}\n' + rows)
        taken = time.perf_counter() - started
    assert answer.text.count('"ok"') == INSERTS
    SENT["inserts"] += INSERTS
    print(f"inserts of one client, acknowledged by the broker | {INSERTS / taken:.0f} rows/s")


def _pushes(server: Server, servers: str, topic: str) -> None:
    counts = [0] * CLIENTS
    memory: list[float] = []

    async def client(number: int) -> None:
        reader, writer = await _push(server, f"SELECT id, n FROM events WHERE id < {ROWS // 500} EMIT CHANGES;")
        try:
            while True:
                counts[number] += (await reader.read(65536)).count(b"\n[")
        finally:
            writer.close()

    async def clients() -> str:
        tasks = [asyncio.create_task(client(number)) for number in range(CLIENTS)]
        slow, writer = await _push(server, "SELECT id, RPAD('', 500, 'x') AS t FROM events EMIT CHANGES;")
        for _ in range(PUSH_SECONDS):
            await asyncio.sleep(1)
            memory.append(_resident(server.process))
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        # A writer that nobody holds would close the connection.
        assert not writer.is_closing()
        answer = b""
        # A small feed does not fill its buffer: then it is not dropped, and gets rows for ever.
        with suppress(TimeoutError):
            async with asyncio.timeout(10):
                while piece := await slow.read(65536):
                    answer = answer[-1000:] + piece
        return next(iter(re.findall(rb'"message":"([^"]*)', answer)), answer[-100:]).decode()

    with _feed(servers, topic):
        last = asyncio.run(clients())
    tenth = max(1, len(memory) // 10)
    start, end = (sum(part) / tenth for part in (memory[tenth : 2 * tenth] or memory, memory[-tenth:]))
    print(f"push clients that share a query | {CLIENTS} for {PUSH_SECONDS} s, {sum(counts)} rows")
    print(f"memory of the driver in the second and the last tenth of that time | {start:.0f} MB, {end:.0f} MB")
    print(f"clients that were dropped | {_metric(server, 'kestrel_clients_dropped_total'):.0f}")
    print(f"the last that a client gets that takes no rows | {last}")
    eventually(lambda: _metric(server, "kestrel_push_clients") == 0, server)
    print(f"push queries after they have left | {_metric(server, 'kestrel_push_queries'):.0f}")


async def _push(server: Server, text: str) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """Send a push query; a client that does not read soon has a full buffer."""
    host, port = server.url.removeprefix("http://").split(":")
    connection = socket.socket()
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 8192)
    connection.setblocking(False)
    await asyncio.get_running_loop().sock_connect(connection, (host, int(port)))
    reader, writer = await asyncio.open_connection(sock=connection, limit=8192)
    body = json.dumps({"sql": text, "properties": {}})
    head = f"POST /query-stream HTTP/1.1\r\nHost: {host}:{port}\r\nContent-Length: {len(body)}\r\n\r\n"
    writer.write((head + body).encode())
    return reader, writer


def _takeover(servers: Servers, server: Server, address: str, topic: str) -> None:
    """Kill the server in the middle of the feed."""
    standby = servers.start("--push-queue-rows", "1000")
    eventually(lambda: (READY if os.environ.get("WARM", "1") == "1" else "as its standby") in standby.said(), standby)
    with _feed(address, topic):
        time.sleep(SECONDS)
        print(f"memory of the standby that waits, with its JVM and workers | {_resident_all(standby.process):.0f} MB")
        server.end()
        started = time.perf_counter()
        eventually(standby.is_up, standby)
        answers = time.perf_counter() - started
        eventually(lambda: bool(standby.query("SELECT * FROM sums WHERE id = 1;")), standby)
        pulls = time.perf_counter() - started
        eventually(lambda: _metric(standby, "kestrel_query_rows_in_total") > 0, standby)
        batch = time.perf_counter() - started
    print(
        "takeover by the standby: it answers /info, a pull query, and has done the next batch |"
        f" {answers:.1f} s, {pulls:.1f} s, {batch:.1f} s"
    )
    eventually(lambda: _metric(standby, "kestrel_query_lag_records") == 0, standby, 600)
    # The copy of the table takes over the last batch a moment later.
    time.sleep(2)
    counted = sum(row[0] for row in standby.query("SELECT c FROM sums;"))
    sent = SENT.total()
    print(
        f"records that the table counts, of all that were sent | {counted} of {sent}{'' if counted == sent else ' WRONG'}"
    )


def _metric(server: Server, name: str) -> float:
    text = httpx.get(f"{server.url}/metrics", timeout=60).text
    return sum(float(value) for value in re.findall(rf"^{name}(?:{{[^}}]*}})? ([\d.e+]+)$", text, re.MULTILINE))


def _resident_all(process: int) -> float:
    return sum(_resident(each) for each in descendants(process))


def _resident(process: int) -> float:
    """The resident memory of a driver without its JVM and workers, in MB."""
    pages = int(Path(f"/proc/{process}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6
