"""How long `GET /info` takes while one request after the other keeps the server busy.

    python -m tests.bench responsive

Each request is sent in turn over a session of its own, in memory, while another client asks for `/info` all the time.
Prints one line a request: how long it took, and the slowest and the median `/info` meanwhile.
"""

from __future__ import annotations

import statistics
import sys
import threading
import time
from collections.abc import Iterator

import httpx

from kestrel_sql.cli.serve import SWITCH_S
from tests.bench.measure import machine
from tests.engine.server.servers import spark_server

_SETUP = """
CREATE STREAM s (id INT KEY, v STRING, d DOUBLE) WITH (KAFKA_TOPIC='s', VALUE_FORMAT='JSON', PARTITIONS=1);
CREATE TABLE t AS SELECT id, COUNT(*) AS n, MAX(v) AS mv FROM s GROUP BY id;
INSERT INTO s (id, v, d) VALUES (1, 'aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaab', 1);
"""


def _requests() -> Iterator[tuple[str, str, str]]:
    """Name, path and text of each request."""
    for size in (100_000, 1_000_000):
        yield f"a word of {size} letters", "/ksql", "x" * size
        yield f"a number of {size} digits", "/ksql", "1" * size
        yield f"a quoted name of {size} letters", "/ksql", f"`{'x' * size}`;"
        yield f"1+1+… of {size} bytes", "/ksql", f"SELECT {'+'.join('1' * (size // 2))} FROM s EMIT CHANGES;"
        yield f"IN (1,1,…) of {size} bytes", "/query", f"SELECT * FROM t WHERE id IN ({','.join('1' * (size // 2))});"
        yield f"brackets of {size} bytes", "/ksql", f"SELECT {'(' * (size // 2)}1{')' * (size // 2)} FROM s;"
    columns = ", ".join(f"c{n} INT" for n in range(10_000))
    yield (
        "10,000 columns",
        "/ksql",
        f"CREATE STREAM w ({columns}) WITH (KAFKA_TOPIC='w', VALUE_FORMAT='JSON', PARTITIONS=1);",
    )
    for call in (
        "REGEXP_EXTRACT('(a+)+$', mv)",
        "REGEXP_REPLACE(mv, '(a+)+$', '')",
        "REGEXP_SPLIT_TO_ARRAY(mv, '(a+)+$')",
    ):
        yield call, "/query", f"SELECT {call} FROM t;"
    yield "REGEXP_EXTRACT in WHERE", "/query", "SELECT * FROM t WHERE REGEXP_EXTRACT('(a+)+$', mv) = 'a';"
    constant = f"REGEXP_EXTRACT('(a+)+$', '{'a' * 40}b')"
    yield "REGEXP_EXTRACT of constants", "/ksql", f"INSERT INTO s (id, v) VALUES (2, {constant});"
    loop = "REDUCE(GENERATE_SERIES(1, 1000000), 0, (x, y) => x + y)"
    yield "lambdas", "/ksql", f"INSERT INTO s (id, d) VALUES (2, {loop});"


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
        for name, path, text in _requests():
            seconds, status, infos = _asked(running.url, path, text)
            median, most = statistics.median(infos) * 1000, max(infos) * 1000
            print(f"{name}: {seconds:.2f} s ({status}); /info {median:.0f} ms, at most {most:.0f} ms", flush=True)


def _asked(url: str, path: str, text: str) -> tuple[float, int, list[float]]:
    """Seconds and status of a request, and the seconds of each `/info` meanwhile."""
    done, status = threading.Event(), 0
    infos: list[float] = []

    def info() -> None:
        with httpx.Client(timeout=300) as client:
            while not done.is_set() or not infos:
                start = time.perf_counter()
                client.get(f"{url}/info")
                infos.append(time.perf_counter() - start)
                time.sleep(0.005)

    asking = threading.Thread(target=info)
    start = time.perf_counter()
    asking.start()
    status = httpx.post(f"{url}{path}", json={"ksql": text}, timeout=300).status_code
    seconds = time.perf_counter() - start
    done.set()
    asking.join()
    return seconds, status, infos


if __name__ == "__main__":
    main()
