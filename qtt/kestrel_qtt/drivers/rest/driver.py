"""Run REST-QTT cases on the engine of `kestrel shell`; the queries of all cases in a group are fused for Spark."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence

from kestrel_qtt.cases import model
from kestrel_qtt.drivers.memory import Memory
from kestrel_qtt.drivers.rest.answers import proto_answer, query_answer
from kestrel_qtt.drivers.rest.group import GroupExecution, TableJob, run_group
from kestrel_qtt.drivers.rest.run import Asked, RestRun, prepared
from kestrel_qtt.ksqldb.rest_cases import RestCase
from kestrel_sql.admin.answer import Answer
from kestrel_sql.dataflow.run import QueryRun
from kestrel_sql.errors import EngineError
from kestrel_sql.queries.running import RunningQuery
from kestrel_sql.topics.records import Record


def run_rest(cases: Sequence[RestCase], memory: Memory) -> Iterator[tuple[model.Case, model.Outcome, float]]:
    """Run a group of cases."""
    runs = [prepared(case) for case in cases]
    started = time.perf_counter()
    while due := [(run, running) for run in runs if (running := run.next_due()) is not None]:
        _advance(due, memory)
    _answer_all(runs, memory)
    share = (time.perf_counter() - started) / max(1, len(runs))
    for run in runs:
        yield run.case, run.result(), run.seconds + share
        run.engine.close()


def _advance(due: Sequence[tuple[RestRun, RunningQuery]], memory: Memory) -> None:
    """Let one persistent query of each case process what has arrived."""
    jobs = [
        (run, running, _job(run, run.engine.queries.run_of(running.query), running.pending)) for run, running in due
    ]
    run_group([job for _, _, job in jobs], memory)
    for run, running, job in jobs:
        if job.output is None:
            run.outcome = job.outcome
            continue
        running.execution = GroupExecution(job.table)
        run.engine.queries.take(running, job.output, len(running.pending))
        run.end_if_failed(running)


def _answer_all(runs: Sequence[RestRun], memory: Memory) -> None:
    """Answer the queries of all cases: from state if it holds the answer, else with Spark."""
    found = [(run, asked, _looked_up(run, asked)) for run in runs if run.outcome is None for asked in run.asked]
    run_group([job for _, _, job in found if isinstance(job, TableJob)], memory)
    for run, asked, answer in found:
        try:
            _take(run, asked, answer)
        except EngineError as error:
            run.outcome = model.Failed(str(error))


def _looked_up(run: RestRun, asked: Asked) -> Answer | TableJob | EngineError:
    try:
        found = run.engine.look_up(asked.planned, asked.since)
    except EngineError as error:
        return error
    return (
        found
        if isinstance(found, Answer)
        else _job(run, run.engine.run_of(asked.planned, run.engine.session.config), found)
    )


def _take(run: RestRun, asked: Asked, found: Answer | TableJob | EngineError) -> None:
    """Add the answer of a query to its case.

    Raises:
        EngineError: the query failed, or protobuf cannot express its rows.
    """
    if isinstance(found, EngineError):
        raise found
    if isinstance(found, TableJob):
        if found.output is None:
            run.outcome = found.outcome
            return
        found = run.engine.answer_from(asked.planned, found.output, found.window)
    kind = asked.planned.kind
    run.answers.append(query_answer(asked.planned.plan.query_id, kind, found))
    if run.case.with_proto:
        run.proto_answers.append(proto_answer(kind, found))


def _job(run: RestRun, query: QueryRun, feed: Sequence[Record]) -> TableJob:
    return TableJob(run=query, functions=run.engine.session.functions, feed=feed)
