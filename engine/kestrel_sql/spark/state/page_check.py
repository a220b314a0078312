"""Looks for flaws in stored pages, and counts their rows, on Spark's workers.

It stands alone, because a worker imports this module, and what the function below refers to, at each start of a query.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

import pyarrow as pa

from kestrel_sql.errors import QueryError
from kestrel_sql.operators.group_columns import GroupColumns
from kestrel_sql.spark.state.level import load_page
from kestrel_sql.spark.state.packing import task_page, task_pages
from kestrel_sql.spark.state.row_counts import page_rows

_CHECKED = pa.schema([("task", pa.int32()), ("page", pa.int32()), ("rows", pa.int64()), ("flaw", pa.string())])
CHECKED = "task INT, page INT, rows BIGINT, flaw STRING"
"""What is found of each page; `flaw` is NULL if it is sound."""


def page_check(
    fingerprint: list[str],
    *,
    tasks: int,
    pages: int,
    has_task_pages: bool,
    pages_by_task: bool = False,
    groups: Mapping[int, tuple[Sequence[int], Sequence[pa.DataType]]],
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Return a function for `mapInArrow` from rows (task, page, blob) to rows of `CHECKED`.

    `groups` are as in `Level.groups`.
    """

    def is_page(task: int, page: int) -> bool:
        if pages_by_task:
            return page in task_pages(task, pages)
        return 0 <= page < pages or (has_task_pages and page == task_page(task))

    def check(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            found = []
            for task, page, blob in zip(*(column.to_pylist() for column in batch.columns), strict=True):
                rows, flaw = _page(blob, fingerprint, groups)
                if flaw is None and not (0 <= task < tasks and is_page(task, page)):
                    flaw = f"the query has {tasks} tasks of {pages} pages"
                found.append((task, page, rows, flaw))
            arrays = [pa.array([each[at] for each in found], field.type) for at, field in enumerate(_CHECKED)]
            yield pa.RecordBatch.from_arrays(arrays, schema=_CHECKED)

    return check


def _page(
    blob: bytes, fingerprint: list[str], groups: Mapping[int, tuple[Sequence[int], Sequence[pa.DataType]]]
) -> tuple[int, str | None]:
    """How many rows a page has, and what is wrong with it."""
    try:
        state = load_page(blob, fingerprint)
    except QueryError as error:
        return 0, error.message
    for relation, (shape, columns) in groups.items():
        own = state.get(str(relation))
        kept = own.get("groups") if isinstance(own, dict) else None
        flaw = kept.flaw(shape, columns) if isinstance(kept, GroupColumns) else None
        if flaw is not None:
            return 0, f"the stored state of an operator does not fit the query: {flaw}"
    return page_rows(state), None
