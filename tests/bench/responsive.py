"""How long `GET /info` takes while one request after the other keeps the server busy.

    python -m tests.bench responsive

Each request is sent in turn over a session of its own, in memory, while another client asks for `/info` all the time.
Prints one line a request: how long it took, and the slowest and the median `/info` meanwhile, by the clock and in the
time of processors that the process took meanwhile. What else the machine does delays the clock only: while nothing else
runs, both are the same. At last rows come for many persistent queries, which run in the process of the server, while
the page and the metrics are asked for.

Environment variables, with what they are by default: SIZE=1000000, the letters in the largest request; QUERIES=100, the
persistent queries; ROWS=2000, the rows that each of them reads.
"""

from __future__ import annotations

import os
import statistics
import sys
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from itertools import chain

import httpx
import orjson

from kestrel_sql.cli.serve import SWITCH_S, spare_collector
from kestrel_sql.server.open import Running
from tests.bench.measure import machine
from tests.engine.server.servers import Http2Request, spark_server

SIZE = int(os.environ.get("SIZE", "1000000"))
QUERIES, ROWS = int(os.environ.get("QUERIES", "100")), int(os.environ.get("ROWS", "2000"))


def setup(topics: str = "") -> str:
    """The statements before the requests, whose topics have names that begin so."""
    return f"""
        CREATE STREAM s (id INT KEY, v STRING, d DOUBLE)
          WITH (KAFKA_TOPIC='{topics}s', VALUE_FORMAT='JSON', PARTITIONS=1);
        CREATE TABLE t WITH (KAFKA_TOPIC='{topics}t') AS
          SELECT id, COUNT(*) AS n, MAX(v) AS mv FROM s GROUP BY id;
        INSERT INTO s (id, v, d) VALUES (1, 'aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaab', 1);
    """


def requests(largest: int, topics: str = "") -> Iterator[tuple[str, str, str]]:
    """Name, path and text of each request; the largest text has so many letters."""
    for size in (largest // 10, largest):
        yield f"a word of {size} letters", "/ksql", "x" * size
        yield f"a number of {size} digits", "/ksql", "1" * size
        yield f"a quoted name of {size} letters", "/ksql", f"`{'x' * size}`;"
        yield f"1+1+… of {size} bytes", "/ksql", f"SELECT {'+'.join('1' * (size // 2))} FROM s EMIT CHANGES;"
        yield f"IN (1,1,…) of {size} bytes", "/query", f"SELECT * FROM t WHERE id IN ({','.join('1' * (size // 2))});"
        yield f"brackets of {size} bytes", "/ksql", f"SELECT {'(' * (size // 2)}1{')' * (size // 2)} FROM s;"
    few, many = largest // 200, largest // 25
    for name in "t", "u":
        yield (
            f"{many:,} values for IN on {name}",
            "/query",
            f"SELECT * FROM {name} WHERE n IN ({','.join('1' * many)});",
        )
    yield f"{few:,} statements", "/query", "SELECT * FROM t;" * few
    declared = ", ".join(f"c{n} INT" for n in range(2 * few))
    yield (
        f"{2 * few:,} columns",
        "/ksql",
        f"CREATE STREAM w ({declared}) WITH (KAFKA_TOPIC='{topics}w', VALUE_FORMAT='JSON', PARTITIONS=1);",
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
    loop = "REDUCE(GENERATE_SERIES(1, 65000), 0, (x, y) => x + y)"
    yield "lambdas", "/ksql", f"INSERT INTO s (id, d) VALUES (2, {loop} + {loop});"
    ß = f"LPAD('', {largest}, 'ß')"
    calls = (
        f"UCASE({ß}), CAST(LPAD('', {largest}, '1') AS DECIMAL(38, 0)), URL_DECODE_PARAM(LPAD('', {largest}, '%41'))"
    )
    yield "functions of long texts", "/query", f"SELECT {calls}, LEN(INITCAP({ß})) FROM t;"
    for nth in "first", "second":
        yield f"lambdas of a key for the {nth} time", "/query", f"SELECT n + {loop} AS n FROM t WHERE id = 1;"
    yield "rows of a table function", "/query", f"SELECT EXPLODE(GENERATE_SERIES(1, {largest // 20})) FROM s;"


def bodies(largest: int) -> Iterator[tuple[str, bytes]]:
    """Name and body of requests that are large beside their statements, ten times the largest text."""
    size = f"{10 * largest:,} bytes"
    yield (
        f"a body of lists, {size}",
        b'{"ksql": "SHOW TOPICS;", "more": [' + b",".join([b"[]"] * (largest * 34 // 10)) + b"]}",
    )
    members = b"".join(b',"%07d":1' % n for n in range(largest * 85 // 100))
    yield f"a body of members, {size}", b'{"ksql": ""' + members + b"}"
    variables = b"".join(b',"%07d":1' % n for n in range(largest * 80 // 100))
    yield f"variables, {size}", b'{"ksql": "SHOW TOPICS;", "sessionVariables": {"a": "b"' + variables + b"}}"
    properties = b"".join(b',"consumer.%07d":1' % n for n in range(largest * 45 // 100))
    opened = b'{"ksql": "SHOW TOPICS;", "streamsProperties": {"consumer.max.poll.records": 1'
    yield f"properties, {size}", opened + properties + b"}}"


_SHAPES = (
    "CREATE STREAM {} AS SELECT id, UCASE(v) AS v, d * 2 AS d FROM s WHERE d >= 0;",
    "CREATE TABLE {} AS SELECT id, COUNT(*) AS n, COLLECT_LIST(v) AS vs FROM s GROUP BY id;",
    "CREATE TABLE {} AS SELECT id, SUM(d) AS d FROM s WINDOW TUMBLING (SIZE 1 HOUR) GROUP BY id;",
    "CREATE STREAM {} AS SELECT s.id AS id, s.v AS v, t.n AS n FROM s JOIN t ON s.id = t.id;",
)
"""Persistent queries, which make what they are told the name of."""


def main() -> None:
    """Print the figures."""
    print(machine())
    sys.setswitchinterval(SWITCH_S)
    with spark_server() as running, httpx.Client(timeout=300) as client:
        client.post(
            f"{running.url}/ksql", json={"ksql": setup(), "streamsProperties": {"auto.offset.reset": "earliest"}}
        )
        while not running.service.figures().queries[0].rows_in:
            time.sleep(0.1)
        client.post(f"{running.url}/query", json={"ksql": "SELECT * FROM t;"})
        spare_collector()
        for name, path, body in chain(
            ((name, path, _ksql(text)) for name, path, text in requests(SIZE)),
            ((name, "/ksql", body) for name, body in bodies(SIZE)),
        ):
            _print(name, running.url, partial(_status, f"{running.url}{path}", body))
        made = "".join(_SHAPES[number % len(_SHAPES)].format(f"q{number}") for number in range(QUERIES))
        _print(f"{QUERIES} queries are created", running.url, partial(_status, f"{running.url}/ksql", _ksql(made)))
        _print(f"{QUERIES} queries read {ROWS} rows", running.url, partial(_feed, running))


def _print(name: str, url: str, work: Callable[[], object]) -> None:
    seconds, what, infos = _asked(url, work)
    clock, processors = ([round(each * 1000) for each in times] for times in zip(*infos, strict=True))
    print(
        f"{name}: {seconds:.2f} s ({what}); /info {statistics.median(clock):.0f} ms, at most {max(clock)} ms;"
        f" of processors {statistics.median(processors):.0f} ms, at most {max(processors)} ms",
        flush=True,
    )


def _ksql(text: str) -> bytes:
    return orjson.dumps({"ksql": text})


def _status(url: str, body: bytes) -> int:
    return httpx.post(url, content=body, timeout=300).status_code


def _feed(running: Running) -> str:
    """Insert rows, and wait until all queries have read them; how many they have read, and what failed."""
    with Http2Request(running.url, "/inserts-stream") as request:
        request.send(b'{"target": "s"}\n')
        for number in range(ROWS):
            request.send(b'{"id": %d, "v": "%d", "d": %d}\n' % (number % 100, number, number))
        request.data(request.stream, b"", ends=True)
        request.answer(request.stream)
    with httpx.Client(timeout=300) as client:
        while any(query.lag for query in running.service.figures().queries):
            for path in ("/metrics", "/ui/data"):
                client.get(f"{running.url}{path}").raise_for_status()
            time.sleep(1)
    figures = running.service.figures().queries
    return (
        f"{sum(query.rows_in for query in figures)} in all, {[query.error for query in figures if query.error]} failed"
    )


def _asked(url: str, work: Callable[[], object]) -> tuple[float, object, list[tuple[float, float]]]:
    """Seconds and result of work, and the seconds of each `/info` meanwhile, by the clock and of processors."""
    done = threading.Event()
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
    try:
        result = work()
    finally:
        done.set()
        asking.join()
    return time.perf_counter() - start, result, infos


if __name__ == "__main__":
    main()
