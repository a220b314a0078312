"""What a batch costs by records, keys, tasks and queries, and a model fitted to it (docs/performance.md).

`KEYS`, `RECORDS`, `TASKS` and `QUERIES` are lists of numbers; `ROUNDS` batches are measured at each point, and the
fastest counts, for others use the machine. The points replace those in tests/bench/scale_points.json, but for those of
more keys, which `python -m tests.bench keys` adds.
"""

from __future__ import annotations

import os
import random
import time
from typing import Any

from kestrel_sql.dataflow.query_run import QueryRun
from kestrel_sql.kafka.run.broker_session import SESSION
from kestrel_sql.session.session import Session
from kestrel_sql.spark.in_memory.runner import MemoryRunner, input_row
from kestrel_sql.spark.pipeline.pipeline import build_pipeline, pages_of
from kestrel_sql.spark.runtime.session import open_session
from kestrel_sql.topics.partitioner import partition_of
from kestrel_sql.topics.records import Record
from tests.bench.scale_model import Point, read_points, write_model, write_points

_SQL = """
CREATE STREAM S (K STRING KEY, V INT) WITH (kafka_topic='s', value_format='JSON');
CREATE TABLE A AS SELECT K, COUNT(*) AS N, SUM(V) AS X FROM S GROUP BY K;
"""

_PART = 100_000
"""The most keys that a batch brings; a memory stream keeps all its rows in the driver's heap."""

_MANY = 20
"""The number of queries from which fewer rounds are measured."""


def main() -> None:
    """Measure the grid, print the points with the model's predictions, and store the points."""
    settings = {
        # As in a run on a broker. Without its polling delay, queries that wait take half the time of those that work.
        **SESSION,
        "spark.sql.shuffle.partitions": "1",
        # Memory streams keep all rows: those of 200 queries filled the usual heap.
        "spark.driver.memory": "6g",
    }
    runner = MemoryRunner(open_session("local[*]", settings))
    # Java compiles what a first query runs.
    for tasks in (1, 2, 1):
        _measure(runner, 1, tasks, _PART)
    points = []
    for queries, tasks, keys in _grid():
        points += _measure(runner, queries, tasks, keys)
    runner.close()
    points += [point for point in read_points() if point.keys > max(each.keys for each in points)]
    write_points(points)
    write_model(points)


def _grid() -> list[tuple[int, int, int]]:
    """Queries, tasks and keys: each varies alone."""
    keys, tasks, queries = (
        _numbers("KEYS", "1000 10000 100000"),
        _numbers("TASKS", "1 2"),
        _numbers("QUERIES", "1 8 50 200"),
    )
    found = [(1, task, key) for task in tasks for key in keys]
    return [*found, *((query, 1, keys[0]) for query in queries if query > 1)]


def _numbers(name: str, default: str) -> list[int]:
    return [int(number) for number in os.environ.get(name, default).split()]


def _measure(runner: MemoryRunner, queries: int, tasks: int, keys: int) -> list[Point]:
    """Run equal queries at once, fill their states, and measure a batch of each number of records."""
    streams = [runner.stream() for _ in range(queries)]
    started = [_start(runner, stream, tasks) for stream in streams]
    random_, found = random.Random(7), []
    try:
        for first in range(0, keys, _PART):
            _round(runner, streams, started, [f"k{at}" for at in range(first, min(keys, first + _PART))], tasks)
        for records in _numbers("RECORDS", "1000 10000"):
            taken = [
                _round(runner, streams, started, [f"k{random_.randrange(keys)}" for _ in range(records)], tasks)
                for _ in range(int(os.environ.get("ROUNDS", "5" if queries < _MANY else "2")))
            ]
            found.append(
                Point(
                    queries=queries,
                    tasks=tasks,
                    pages=pages_of(tasks),
                    keys=keys,
                    records=records,
                    seconds=min(taken),
                )
            )
            print(found[-1], flush=True)
    finally:
        for query in started:
            query.stop()
    return found


def _start(runner: MemoryRunner, stream: Any, tasks: int) -> Any:
    session = Session()
    for parsed in session.parse(_SQL):
        session.execute(parsed)
    pipeline = build_pipeline([QueryRun(plan=query.plan) for query in session.queries.values()])
    frame = pipeline.frame(runner.read(stream), pages=pages_of(tasks), tasks=[tasks], has_task_pages=True)
    writer = frame.writeStream.format("noop").outputMode("update")
    return writer.option("checkpointLocation", str(runner.folder(runner.name()))).start()


def _round(runner: MemoryRunner, streams: list[Any], started: list[Any], keys: list[str], tasks: int) -> float:
    """Give each query a batch; returns the seconds until all have committed it."""
    rows = [
        input_row(
            0,
            at,
            Record(
                topic="s",
                key=key.encode(),
                value=b'{"V": %d}' % at,
                timestamp=at,
                partition=partition_of(key.encode(), tasks),
                offset=at,
            ),
        )
        for at, key in enumerate(keys)
    ]
    rows_in_java = runner.in_java(rows)
    begun = time.perf_counter()
    for stream in streams:
        stream.addData(rows_in_java)
    for query in started:
        query.processAllAvailable()
    return time.perf_counter() - begun
