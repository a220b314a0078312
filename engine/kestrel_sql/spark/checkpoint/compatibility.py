"""Checks whether a query may resume from a checkpoint, before Spark starts it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from urllib.parse import unquote, urlsplit

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from kestrel_sql.errors import CheckpointError
from kestrel_sql.spark.checkpoint.batch_log import batch_log_flaws, numbered, unfinished_batch
from kestrel_sql.spark.checkpoint.metadata import CheckpointMetadata, differences, read_metadata, write_metadata
from kestrel_sql.spark.pipeline.pipeline import Pipeline
from kestrel_sql.spark.state.archive_order import replaced_files
from kestrel_sql.spark.state.checkpoint_path import CheckpointPath, plain_name
from kestrel_sql.spark.state.checkpoint_reader import committed, stored_pages
from kestrel_sql.spark.state.page_check import CHECKED, page_check
from kestrel_sql.spark.state.row_counts import PageId

_JAVA_CLASS = re.compile(r"^(?:\w+\.)+\w+: ")
_HINT = "run the statement that wrote it, or start with a new checkpoint; this one was not changed"


def check_start(
    open_spark: Callable[[], SparkSession] | None,
    pipeline: Pipeline,
    checkpoint: CheckpointPath,
    *,
    pages: int = 1,
    tasks: Sequence[int] | None = None,
    has_task_pages: bool = False,
    pages_by_task: bool = False,
    replaced: bool = False,
) -> Mapping[PageId, int]:
    """Check that a checkpoint is new or was written by the same pipeline, and write its metadata.

    Decodes every page of its state once, in parallel.

    Args:
        open_spark: opens the session; not called if there are no pages. None leaves the pages alone, and the metadata.
        pipeline: the pipeline to start.
        checkpoint: the folder; it need not exist.
        pages: as in `Pipeline.frame`.
        tasks: as in `Pipeline.frame`.
        has_task_pages: as in `Pipeline.frame`.
        pages_by_task: as in `Pipeline.frame`.
        replaced: whether the plan may differ from the one that wrote the checkpoint, as CREATE OR REPLACE allows; the
            operators
            may not.

    Returns:
        The number of rows in each page of its state.

    Raises:
        CheckpointError: the pipeline may not start; names the query, the checkpoint and the difference.
    """
    rows: dict[PageId, int] = {}
    own = CheckpointMetadata.of(
        pipeline,
        pages,
        pipeline.tasks({}) if tasks is None else tasks,
        has_task_pages=has_task_pages,
        pages_by_task=pages_by_task,
    )
    flaw = next(_flaws(open_spark, pipeline, checkpoint, own, rows, replaced=replaced), None)
    if flaw is not None:
        raise CheckpointError(
            f"{_query_names(pipeline)} cannot resume from the checkpoint {checkpoint}: {flaw}", hint=_HINT
        )
    if open_spark is not None:
        write_metadata(checkpoint, own)
    return rows


def folder_of(checkpoint: str | Path) -> Path:
    """Return the folder of a checkpoint given by its path or `file:` URI."""
    text = str(checkpoint)
    return Path(unquote(urlsplit(text).path)) if text.startswith("file:") else Path(text)


def _flaws(
    open_spark: Callable[[], SparkSession] | None,
    pipeline: Pipeline,
    folder: CheckpointPath,
    own: CheckpointMetadata,
    rows: dict[PageId, int],
    *,
    replaced: bool,
) -> Iterator[str]:
    levels = pipeline.depth - 1
    operators = numbered(folder / "state")
    yield from batch_log_flaws(folder)
    if not numbered(folder / "offsets"):
        if operators:
            yield "it contains state, but no log of the batches that wrote it"
        return
    written = read_metadata(folder)
    if written is None:
        yield "it has no kestrel.json, which says what its state is"
        return
    yield from differences(written, own, replaced=replaced)
    batches = committed(folder)
    if batches == 0:
        return
    yield from replaced_files(folder, batches, is_complete=unfinished_batch(folder) is None)
    if operators != list(range(levels)):
        yield f"it contains the state of {len(operators)} levels of operators, and the query has {levels}"
    if open_spark is None:
        return
    for number in range(1, levels + 1):
        yield from _state_flaws(open_spark(), pipeline, folder, own, number, rows)


def _state_flaws(
    spark: SparkSession,
    pipeline: Pipeline,
    folder: CheckpointPath,
    own: CheckpointMetadata,
    number: int,
    rows: dict[PageId, int],
) -> Iterator[str]:
    """What is wrong with the state of a level, page by page; adds how many rows each has."""
    check = page_check(
        list(own.operators[number - 1]),
        tasks=max(own.tasks),
        pages=own.pages,
        has_task_pages=own.has_task_pages,
        pages_by_task=own.pages_by_task,
        groups=pipeline.level(number).groups(),
    )
    try:
        with plain_name(folder) as plain:
            stored = stored_pages(spark, plain, levels=pipeline.depth - 1, level=number)
            found = stored.mapInArrow(check, CHECKED).collect()
    except (PySparkException, Py4JJavaError) as error:
        yield f"the state of level {number} cannot be read: {_cause(error)}"
        return
    rows.update({(number, row["task"], row["page"]): row["rows"] for row in found})
    for row in found:
        if row["flaw"] is not None:
            yield f"page {row['page']} of task {row['task']} of level {number}: {row['flaw']}"


def _query_names(pipeline: Pipeline) -> str:
    ids = [plan.query_id for _, plan in sorted(pipeline.graph.plans.items())]
    return f"the query {ids[0]}" if len(ids) == 1 else f"the group of queries {', '.join(ids)}"


def _cause(error: Exception) -> str:
    """The message of the innermost cause in a Java stack trace, or else the first line, without the Java class."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    causes = [line for line in lines if line.startswith("Caused by: ")]
    found = causes[-1].removeprefix("Caused by: ") if causes else lines[0] if lines else type(error).__name__
    return _JAVA_CLASS.sub("", found)
