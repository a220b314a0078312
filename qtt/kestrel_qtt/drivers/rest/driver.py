"""Run REST-QTT cases on the engine of `kestrel shell`."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence

from kestrel_qtt.cases import model
from kestrel_qtt.drivers.job import crashed
from kestrel_qtt.drivers.rest.answers import proto_answer, query_answer
from kestrel_qtt.drivers.rest.run import RestRun, prepared
from kestrel_qtt.ksqldb.rest_cases import RestCase
from kestrel_sql.errors import EngineError


def run_rest(cases: Sequence[RestCase]) -> Iterator[tuple[model.Case, model.Outcome, float]]:
    """Run cases one by one, each on its own engine."""
    for case in cases:
        started = time.perf_counter()
        run = prepared(case)
        try:
            run.advance()
            _answer(run)
        except EngineError as error:
            run.outcome = model.Failed(str(error))
        except Exception as error:  # noqa: BLE001 - a bug on one case must not end the run
            run.outcome = crashed(error)
        yield case, run.result(), time.perf_counter() - started
        run.engine.close()


def _answer(run: RestRun) -> None:
    """Answer the queries of a case.

    Raises:
        EngineError: a query failed, or protobuf cannot express its rows.
    """
    config = run.engine.session.config
    for asked in run.asked if run.outcome is None else ():
        found = run.engine.answer(asked.planned, config, asked.since)
        kind = asked.planned.kind
        run.answers.append(query_answer(asked.planned.plan.query_id, kind, found))
        if run.case.with_proto:
            run.proto_answers.append(proto_answer(kind, found))
