from __future__ import annotations

from collections.abc import Sequence

import pytest

from kestrel_qtt.cases.model import Crashed
from kestrel_qtt.drivers import fused
from kestrel_qtt.drivers.fused import Job, run_jobs
from kestrel_sql.functions.table import FUNCTIONS
from kestrel_sql.session.session import Session
from kestrel_sql.spark.in_memory.runner import Output
from kestrel_sql.spark.pipeline.pipeline import Pipeline, QueryRun

SOURCE = "CREATE STREAM S (ID STRING KEY, N INT) WITH (kafka_topic='s', value_format='JSON');"
STATELESS = "CREATE STREAM R AS SELECT ID, N FROM S;"
STATEFUL = "CREATE TABLE R AS SELECT ID, COUNT(*) AS C FROM S GROUP BY ID;"


def job(statement: str) -> Job:
    session = Session()
    for parsed in session.parse(f"{SOURCE} {statement}"):
        session.execute(parsed)
    (query,) = session.queries.values()
    return Job(
        run=QueryRun(plan=query.plan, settings=query.config, serde=session.serde()), functions=FUNCTIONS, feed=()
    )


def test_queries_of_equal_depth_run_together_and_not_too_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fused, "MOST_FUSED", 2)
    jobs = [job(STATELESS), job(STATEFUL), job(STATELESS), job(STATELESS)]
    ran: list[tuple[int, list[Job]]] = []

    def run_group(pipeline: Pipeline, members: Sequence[Job]) -> list[Output]:
        ran.append((pipeline.depth, list(members)))
        return [Output() for _ in members]

    run_jobs(jobs, run_group)
    assert ran == [(1, [jobs[0], jobs[2]]), (1, [jobs[3]]), (2, [jobs[1]])]
    assert all(each.output is not None for each in jobs)


def test_a_group_that_dies_is_halved_until_the_guilty_query_is_alone() -> None:
    jobs = [job(STATELESS) for _ in range(5)]
    sizes = []

    def run_group(pipeline: Pipeline, members: Sequence[Job]) -> list[Output]:
        sizes.append(len(members))
        if any(each is jobs[3] for each in members):
            raise ValueError("no")
        return [Output() for _ in members]

    run_jobs(jobs, run_group)
    assert sizes == [5, 2, 3, 1, 2, 1, 1]
    assert isinstance(jobs[3].outcome, Crashed)
    assert [each.output is not None for each in jobs] == [True, True, True, False, True]
