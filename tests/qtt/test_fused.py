from __future__ import annotations

from collections.abc import Hashable, Sequence
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace
from pyspark.sql.streaming.readwriter import DataStreamWriter

from kestrel_qtt.cases.model import Case, Crashed, InputRecord, Produced
from kestrel_qtt.drivers import fused
from kestrel_qtt.drivers.driver import RunOptions
from kestrel_qtt.drivers.fused import run_jobs
from kestrel_qtt.drivers.job import Job
from kestrel_qtt.drivers.open import open_driver
from kestrel_qtt.drivers.records.memory_topics import GroupRunner
from kestrel_qtt.drivers.records.prepare import prepared
from kestrel_qtt.load import load
from kestrel_sql.dataflow.query_run import QueryRun
from kestrel_sql.dataflow.rows import Output
from kestrel_sql.functions.table import FUNCTIONS
from kestrel_sql.session.session import Session
from kestrel_sql.spark.pipeline.pipeline import Pipeline

SOURCE = "CREATE STREAM S (ID STRING KEY, N INT) WITH (kafka_topic='s', value_format='JSON');"
STATELESS = "CREATE STREAM R AS SELECT ID, N FROM S;"
STATEFUL = "CREATE TABLE R AS SELECT ID, COUNT(*) AS C FROM S GROUP BY ID;"


def job(statement: str, kind: type[Job] = Job) -> Job:
    session = Session()
    for parsed in session.parse(f"{SOURCE} {statement}"):
        session.execute(parsed)
    (query,) = session.queries.values()
    return kind(
        run=QueryRun(plan=query.plan, settings=query.config, serde=session.serde()), functions=FUNCTIONS, feed=()
    )


def test_queries_run_together_the_deepest_first_and_not_too_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fused, "MOST_FUSED", 2)
    jobs = [job(STATELESS), job(STATEFUL), job(STATELESS), job(STATELESS)]
    ran: list[tuple[int, list[Job]]] = []

    def run_group(pipeline: Pipeline, members: Sequence[Job]) -> list[Output]:
        ran.append((pipeline.depth, list(members)))
        return [Output() for _ in members]

    run_jobs(jobs, run_group)
    assert ran == [(2, [jobs[1], jobs[0]]), (1, [jobs[2], jobs[3]])]
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


class Shared(Job):
    """A job whose query other jobs run, too."""

    @property
    def shared(self) -> str:
        return self.run.plan.query_id


def test_jobs_that_share_a_query_count_as_one_and_fail_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fused, "MOST_FUSED", 1)
    jobs = [job(STATELESS, Shared), job(STATELESS), job(STATELESS, Shared)]
    ran: list[tuple[int, list[int], list[Job]]] = []

    def run_group(pipeline: Pipeline, members: Sequence[Job]) -> list[Output]:
        ran.append((len(pipeline.graph.plans), [each.number for each in members], list(members)))
        if jobs[2] in members:
            raise ValueError("no")
        return [Output() for _ in members]

    run_jobs(jobs, run_group)
    assert ran == [
        (1, [0, 0], [jobs[0], jobs[2]]),
        (1, [0], [jobs[0]]),
        (1, [0], [jobs[2]]),
        (1, [0], [jobs[1]]),
    ]
    assert [each.output is not None for each in jobs] == [True, True, False]


ROOT = Path(__file__).resolve().parents[2]
STATEMENTS = (
    "CREATE STREAM S (ID STRING KEY, N INT) WITH (kafka_topic='s', value_format='JSON', partitions=1);",
    "CREATE STREAM R AS SELECT ID, 10 / N AS Q, ROWOFFSET AS O FROM S WHERE N IS NOT NULL;",
    "CREATE TABLE C AS SELECT ID, COUNT(*) AS N FROM R GROUP BY ID;",
)


def query_identity(case: Case) -> Hashable:
    """What determines the output of the only query of a case."""
    run = prepared(case)
    (query,) = run.pending
    return run.job(query, may_share=True).identity


@pytest.mark.parametrize(
    ("properties", "is_equal"),
    [
        ({}, True),
        ({"ksql.nested.error.set.null": "true"}, True),
        ({"ksql.nested.error.set.null": "false"}, False),
        ({"ksql.timestamp.throw.on.invalid": "true"}, False),
    ],
)
def test_only_queries_with_equal_settings_are_equal(properties: dict[str, str], is_equal: bool) -> None:
    changed = replace(case(0, 1), statements=STATEMENTS[:2], properties=properties)
    assert (query_identity(changed) == query_identity(replace(case(1, 1), statements=STATEMENTS[:2]))) is is_equal


def test_the_query_of_a_stored_plan_equals_that_of_its_case() -> None:
    name = "a-pattern-matches-no-line-break"
    (ours,) = (
        each for each in load(ROOT / "test-cases/filters/patterns-and-times.yaml").cases if each.id.endswith(name)
    )
    (stored,) = load(ROOT / f"historic-plans/filters/patterns-and-times/{name}/0.1.0/spec.json").cases
    assert query_identity(stored) == query_identity(ours)


def case(number: int, *values: int | None) -> Case:
    inputs = tuple(
        InputRecord(topic="s", key=f"k{at % 2}", value={"N": n}, timestamp=at) for at, n in enumerate(values)
    )
    return Case(id=f"{number}", file=Path("x"), line=number, name="x", statements=STATEMENTS, inputs=inputs)


@pytest.mark.spark
def test_cases_that_share_queries_have_the_outcomes_of_each_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    cases = [case(0, 1, 0, 3), case(1, 2, None, 5, 1), case(2, 1, 0, 3), case(3), case(4, 0)]
    ran: list[tuple[int, int]] = []
    run_group = GroupRunner.run_group

    def counted(self: GroupRunner, pipeline: Pipeline, feeds: Sequence[Any], *given: Any, **options: Any) -> Any:
        ran.append((len(pipeline.graph.plans), len(feeds)))
        return run_group(self, pipeline, feeds, *given, **options)

    monkeypatch.setattr(GroupRunner, "run_group", counted)
    started: list[bool] = []
    start = DataStreamWriter.start

    def noted(self: DataStreamWriter, *given: Any, **options: Any) -> Any:
        started.append(True)
        return start(self, *given, **options)

    monkeypatch.setattr(DataStreamWriter, "start", noted)
    driver = open_driver()
    alone = [outcome for each in cases for _, outcome, _ in driver.run([each], RunOptions(cut="random:3"))]
    ran.clear()
    started.clear()
    together = [outcome for _, outcome, _ in driver.run(cases, RunOptions())]
    assert ran == [(1, 5), (5, 5)], "the stateless query once, that with state once for each case"
    assert len(started) == len(ran), "each group is a StreamingQuery of Spark"
    ran.clear()
    reused = [outcome for _ in range(2) for _, outcome, _ in driver.run(cases, RunOptions(reuse=True))]
    assert ran == [(1, 4), (4, 4)], "the third case has the records of the first"
    driver.close()
    assert together == alone
    assert reused == alone * 2
    assert [len(each.log) for each in alone if isinstance(each, Produced)] == [1, 0, 1, 0, 1]
