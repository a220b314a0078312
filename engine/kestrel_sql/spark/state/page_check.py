"""Looks for flaws in stored pages on Spark's workers.

It stands alone, because a worker imports this module, and what the function below refers to, at each start of a query.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

import pyarrow as pa

from kestrel_sql.errors import QueryError
from kestrel_sql.operators.group_columns import GroupColumns
from kestrel_sql.spark.state.level import load_page
from kestrel_sql.spark.state.packing import task_page

_FLAW = pa.schema([("task", pa.int32()), ("page", pa.int32()), ("flaw", pa.string())])


def page_check(
    fingerprint: list[str],
    *,
    tasks: int,
    pages: int,
    has_task_pages: bool,
    groups: Mapping[int, tuple[Sequence[int], Sequence[pa.DataType]]],
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Return a function for `mapInArrow` from rows (task, page, blob) to rows (task, page, flaw) of damaged pages.

    `groups` are as in `Level.groups`.
    """

    def check(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            flaws = []
            for task, page, blob in zip(*(column.to_pylist() for column in batch.columns), strict=True):
                flaw = _page_flaw(blob, fingerprint, groups)
                if flaw is None and not (
                    0 <= task < tasks and (0 <= page < pages or (has_task_pages and page == task_page(task)))
                ):
                    flaw = f"the query has {tasks} tasks of {pages} pages"
                if flaw is not None:
                    flaws.append((task, page, flaw))
            arrays = [pa.array([flaw[at] for flaw in flaws], field.type) for at, field in enumerate(_FLAW)]
            yield pa.RecordBatch.from_arrays(arrays, schema=_FLAW)

    return check


def _page_flaw(
    blob: bytes, fingerprint: list[str], groups: Mapping[int, tuple[Sequence[int], Sequence[pa.DataType]]]
) -> str | None:
    try:
        state = load_page(blob, fingerprint)
    except QueryError as error:
        return error.message
    for relation, (shape, columns) in groups.items():
        own = state.get(str(relation))
        kept = own.get("groups") if isinstance(own, dict) else None
        flaw = kept.flaw(shape, columns) if isinstance(kept, GroupColumns) else None
        if flaw is not None:
            return f"the stored state of an operator does not fit the query: {flaw}"
    return None
