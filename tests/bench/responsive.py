"""How long `GET /info` takes while one request after the other keeps the server busy.

    python -m tests.bench responsive            (SIZE=1000000 letters in the largest request, as environment variable)

Each request is sent in turn over a session of its own, in memory, while another client asks for `/info` all the time.
Prints one line a request: how long it took, and the slowest and the median `/info` meanwhile, by the clock and in the
time of processors that the process took meanwhile. What else the machine does delays the clock only: while nothing else
runs, both are the same.
"""

from __future__ import annotations

import os
import statistics
import sys
import threading
import time
from collections.abc import Iterator

import httpx
import orjson

from kestrel_sql.cli.serve import SWITCH_S, spare_collector
from tests.bench.measure import machine
from tests.engine.server.servers import spark_server

SIZE = int(os.environ.get("SIZE", "1000000"))

_SETUP = """
CREATE STREAM s (id INT KEY, v STRING, d DOUBLE) WITH (KAFKA_TOPIC='s', VALUE_FORMAT='JSON', PARTITIONS=1);
CREATE TABLE t AS SELECT id, COUNT(*) AS n, MAX(v) AS mv FROM s GROUP BY id;
INSERT INTO s (id, v, d) VALUES (1, 'aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaab', 1);
"""


def _requests() -> Iterator[tuple[str, str, str]]:
    """Name, path and text of each request."""
    for size in (SIZE // 10, SIZE):
        yield f"a word of {size} letters", "/ksql", "x" * size
        yield f"a number of {size} digits", "/ksql", "1" * size
        yield f"a quoted name of {size} letters", "/ksql", f"`{'x' * size}`;"
        yield f"1+1+… of {size} bytes", "/ksql", f"SELECT {'+'.join('1' * (size // 2))} FROM s EMIT CHANGES;"
        yield f"IN (1,1,…) of {size} bytes", "/query", f"SELECT * FROM t WHERE id IN ({','.join('1' * (size // 2))});"
        yield f"brackets of {size} bytes", "/ksql", f"SELECT {'(' * (size // 2)}1{')' * (size // 2)} FROM s;"
    few, many = SIZE // 200, SIZE // 25
    for name in "t", "u":
        yield (
            f"{many:,} values for IN on {name}",
            "/query",
            f"SELECT * FROM {name} WHERE n IN ({','.join('1' * many)});",
        )
    yield f"{few:,} statements", "/query", "SELECT * FROM t;" * few
    columns = ", ".join(f"c{n} INT" for n in range(2 * few))
    yield (
        f"{2 * few:,} columns",
        "/ksql",
        f"CREATE STREAM w ({columns}) WITH (KAFKA_TOPIC='w', VALUE_FORMAT='JSON', PARTITIONS=1);",
    )
    yield "a description of them", "/ksql", "DESCRIBE w EXTENDED;"
    yield "a query of them", "/query", "SELECT * FROM w EMIT CHANGES LIMIT 0;"
    for call in (
        "REGEXP_EXTRACT('(a+)+$', mv)",
        "REGEXP_REPLACE(mv, '(a+)+$', '')",
        "REGEXP_SPLIT_TO_ARRAY(mv, '(a+)+$')",
    ):
        yield call, "/query", f"SELECT {call} FROM t;"
    yield "REGEXP_EXTRACT in WHERE", "/query", "SELECT * FROM t WHERE REGEXP_EXTRACT('(a+)+$', mv) = 'a';"
    constant = f"REGEXP_EXTRACT('(a+)+$', '{'a' * 40}b')"
    yield "REGEXP_EXTRACT of constants", "/ksql", f"INSERT INTO s (id, v) VALUES (2, {constant});"
    loop = f"REDUCE(GENERATE_SERIES(1, {SIZE}), 0, (x, y) => x + y)"
    yield "lambdas", "/ksql", f"INSERT INTO s (id, d) VALUES (2, {loop});"


_BODIES = {
    f"a body of lists, {10 * SIZE:,} bytes": b'{"ksql": "SHOW TOPICS;", "more": ['
    + b",".join([b"[]"] * (SIZE * 34 // 10))
    + b"]}",
    f"a body of members, {10 * SIZE:,} bytes": b'{"ksql": ""'
    + b"".join(b',"%07d":1' % n for n in range(SIZE * 85 // 100))
    + b"}",
    f"properties, {10 * SIZE:,} bytes": b'{"ksql": "SHOW TOPICS;", "streamsProperties": {"consumer.max.poll.records": 1'
    + b"".join(b',"consumer.%07d":1' % n for n in range(SIZE * 45 // 100))
    + b"}}",
}
"""Bodies that are large beside their statements."""


def main() -> None:
    """Print the figures."""
    print(machine())
    sys.setswitchinterval(SWITCH_S)
    with spark_server() as running, httpx.Client(timeout=300) as client:
        client.post(
            f"{running.url}/ksql", json={"ksql": _SETUP, "streamsProperties": {"auto.offset.reset": "earliest"}}
        )
        while not running.service.figures().queries[0].rows_in:
            time.sleep(0.1)
        client.post(f"{running.url}/query", json={"ksql": "SELECT * FROM t;"})
        spare_collector()
        bodies = [(name, path, orjson.dumps({"ksql": text})) for name, path, text in _requests()]
        for name, path, body in [*bodies, *((name, "/ksql", body) for name, body in _BODIES.items())]:
            seconds, status, infos = _asked(running.url, path, body)
            clock, processors = ([round(each * 1000) for each in times] for times in zip(*infos, strict=True))
            print(
                f"{name}: {seconds:.2f} s ({status}); /info {statistics.median(clock):.0f} ms, at most {max(clock)} ms;"
                f" of processors {statistics.median(processors):.0f} ms, at most {max(processors)} ms",
                flush=True,
            )


def _asked(url: str, path: str, body: bytes) -> tuple[float, int, list[tuple[float, float]]]:
    """Seconds and status of a request, and the seconds of each `/info` meanwhile, by the clock and of processors."""
    done, status = threading.Event(), 0
    infos: list[tuple[float, float]] = []

    def info() -> None:
        with httpx.Client(timeout=300) as client:
            while not done.is_set() or not infos:
                start, worked = time.perf_counter(), time.process_time()
                client.get(f"{url}/info")
                infos.append((time.perf_counter() - start, time.process_time() - worked))
                time.sleep(0.005)

    asking = threading.Thread(target=info)
    start = time.perf_counter()
    asking.start()
    status = httpx.post(f"{url}{path}", content=body, timeout=300).status_code
    seconds = time.perf_counter() - start
    done.set()
    asking.join()
    return seconds, status, infos


if __name__ == "__main__":
    main()
