"""Finds tables whose old rows are never read.

Most tables are only written, without the rows that their changes replace.
"""

from __future__ import annotations

from kestrel_sql.plan.step import Step
from kestrel_sql.plan.steps.aggregates import TableSuppressV1
from kestrel_sql.plan.steps.joins import FkTableTableJoinV1
from kestrel_sql.plan.steps.sinks import TableSinkV1
from kestrel_sql.plan.steps.tables import TableFilterV1, TableSelectV1

_TRANSPARENT = (TableSelectV1, TableSuppressV1)


def unread_table(root: Step) -> Step | None:
    """Return the step whose changes reach the sink `root` through projections only; no step reads its old rows."""
    if not isinstance(root, TableSinkV1):
        return None
    (step,) = root.upstream
    while isinstance(step, _TRANSPARENT) or (isinstance(step, TableFilterV1) and not knows_old_rows(step)):
        (step,) = step.upstream
    return step


def knows_old_rows(step: TableFilterV1) -> bool:
    """Whether a filter knows the rows that changes replace: no foreign-key join stores its result (rule O4.4)."""
    source: Step = step.source
    while isinstance(source, TableSelectV1 | TableFilterV1):
        source = source.source
    return not isinstance(source, FkTableTableJoinV1)
