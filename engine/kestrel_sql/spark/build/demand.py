"""Which results a plan asks for: most tables are only written, and then nobody reads the rows that their changes replace."""

from __future__ import annotations

from kestrel_sql.plan.step import Step
from kestrel_sql.plan.steps.aggregates import TableSuppressV1
from kestrel_sql.plan.steps.sinks import TableSinkV1
from kestrel_sql.plan.steps.tables import TableSelectV1

_TRANSPARENT = (TableSelectV1, TableSuppressV1)


def unread_table(root: Step) -> Step | None:
    """Give the step whose changes reach the sink `root` through projections only, so that its old rows are never looked at."""
    if not isinstance(root, TableSinkV1):
        return None
    (step,) = root.upstream
    while isinstance(step, _TRANSPARENT):
        (step,) = step.upstream
    return step
