"""Finds tables whose old rows are never read.

Most tables are only written, without the rows that their changes replace.
"""

from __future__ import annotations

from kestrel_sql.plan.step import Step
from kestrel_sql.plan.steps.sinks import TableSinkV1


def unread_table(root: Step) -> Step | None:
    """Return the step whose changes reach the sink `root` through projections only; no step reads its old rows."""
    if not isinstance(root, TableSinkV1):
        return None
    step = root.source
    while not step.reads_old_rows:
        (step,) = step.upstream
    return step
