"""Looks for flaws in stored pages on Spark's workers.

It stands alone, because a worker imports this module, and what the function below refers to, at each start of a query.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pyarrow as pa

from kestrel_sql.errors import QueryError
from kestrel_sql.spark.state.level import load_page
from kestrel_sql.spark.state.packing import task_page

_FLAW = pa.schema([("task", pa.int32()), ("page", pa.int32()), ("flaw", pa.string())])


def page_check(
    fingerprint: list[str], *, tasks: int, pages: int, has_task_pages: bool
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Return a function for `mapInArrow` from rows (task, page, blob) to rows (task, page, flaw) of damaged pages."""

    def check(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            flaws = []
            for task, page, blob in zip(*(column.to_pylist() for column in batch.columns), strict=True):
                flaw = _page_flaw(blob, fingerprint)
                if flaw is None and not (
                    0 <= task < tasks and (0 <= page < pages or (has_task_pages and page == task_page(task)))
                ):
                    flaw = f"the query has {tasks} tasks of {pages} pages"
                if flaw is not None:
                    flaws.append((task, page, flaw))
            arrays = [pa.array([flaw[at] for flaw in flaws], field.type) for at, field in enumerate(_FLAW)]
            yield pa.RecordBatch.from_arrays(arrays, schema=_FLAW)

    return check


def _page_flaw(blob: bytes, fingerprint: list[str]) -> str | None:
    try:
        load_page(blob, fingerprint)
    except QueryError as error:
        return error.message
    return None
