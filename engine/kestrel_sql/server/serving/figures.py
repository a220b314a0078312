"""What is counted of each persistent query."""

from __future__ import annotations

from collections.abc import Mapping

from kestrel_sql.server.service import QueryFigures
from kestrel_sql.server.serving.backend import Backend


def query_figures(engine: Backend, lines: Mapping[str, int]) -> list[QueryFigures]:
    """The figures of all persistent queries, whose statements stand on these lines; any thread may ask."""
    view, progress, lags, batches = engine.view(), engine.progress(), engine.lags(), engine.batches()
    figures = []
    for query in [*engine.session.queries.values()]:
        batch, state_rows = batches.get(query.id, (None, None))
        rows_in, rows_out, lag, error = progress.get(query.id, (0, 0, 0, ""))
        figures.append(
            QueryFigures(
                id=query.id,
                state=view.state(query),
                statement=query.statement_text,
                line=lines.get(query.id),
                sources=query.plan.sources,
                sink=query.plan.sink,
                rows_in=rows_in,
                rows_out=rows_out,
                lag=lag,
                lags=lags.get(query.id, {}),
                bad_records=engine.errors.bad.counts[query.id],
                late_records=engine.errors.bad.late[query.id],
                error=error,
                batch=batch,
                state_rows=state_rows,
            )
        )
    return figures
