"""Checkpoints as Spark leaves them, made without Spark: operators run over rows, and their state is written."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from kestrel_sql.arrow.types import to_arrow
from kestrel_sql.operators.aggregates.group_rows import new_group
from kestrel_sql.operators.group_columns import GroupColumns
from kestrel_sql.operators.operator import Scope
from kestrel_sql.operators.state_codec import bucket_rows, dump_state
from kestrel_sql.spark.checkpoint.metadata import CheckpointMetadata, write_metadata
from kestrel_sql.spark.pipeline.pipeline import Pipeline
from kestrel_sql.spark.state.hashing import hash_row
from kestrel_sql.spark.state.level import PLAN
from kestrel_sql.spark.state.packing import task_page, task_pages
from kestrel_sql.spark.state.stored_rows import StoredPage
from kestrel_sql.spark.state_tools.store_files import write_pages
from kestrel_sql.topics.partitioner import partition_of
from kestrel_sql.types.schema import Column
from kestrel_sql.types.sql_types import INTEGER
from tests.engine.operators.row_forms.row_operator import Row
from tests.engine.operators.state_replay import process

PAGE_KEY = (Column("task", INTEGER), Column("page", INTEGER))
"""By which Spark chooses the partition of a page."""


def fabricate(
    folder: Path,
    pipeline: Pipeline,
    rows: Iterable[Row],
    *,
    pages: int = 4,
    tasks: int = 2,
    partitions: int = 2,
    in_columns: bool = False,
    pages_by_task: bool = False,
) -> Path:
    """Write the checkpoint of a pipeline with one operator that has processed rows, as its first batch.

    `in_columns` says that it is an aggregate, whose groups are columns.
    """
    (stateful,) = pipeline.graph.levels[0]
    operator: Any = stateful.operator
    states: dict[tuple[int, int], dict[str, Any]] = defaultdict(dict)
    for row in rows:
        assert row.key is not None
        task = 0 if operator.scope is Scope.QUERY else partition_of(operator.key_bytes(row.key), tasks)
        page = task_page(task)
        if operator.scope is Scope.KEY:
            number = hash_row(row.key, stateful.inputs[0].schema.key) % pages
            page = task_pages(task, pages)[number] if pages_by_task else number
        process(operator, row, states[task, page])
    if operator.scope is not Scope.TASK:
        for state in states.values():
            bucket_rows(state)
    if in_columns:
        fresh = new_group(operator.columns, operator.calls, None)
        kinds = [to_arrow(each.type) for each in stateful.output.schema.value[: len(operator.columns)]]
        for state in states.values():
            state["groups"] = GroupColumns.of(state["groups"], fresh, kinds)
    for partition in range(partitions):
        own = [
            StoredPage(task, page, dump_state({PLAN: pipeline.level(1).fingerprint(), _relation(pipeline): state}))
            for (task, page), state in sorted(states.items())
            if hash_row((task, page), PAGE_KEY) % partitions == partition
        ]
        write_pages(folder / "state" / "0" / str(partition), 1, own)
    write_logs(folder, partitions)
    metadata = CheckpointMetadata.of(pipeline, pages, [tasks], has_task_pages=True, pages_by_task=pages_by_task)
    write_metadata(folder, metadata)
    return folder


def _relation(pipeline: Pipeline) -> str:
    return str(pipeline.graph.levels[0][0].output.number)


def write_logs(folder: Path, partitions: int) -> None:
    """Write the logs of one committed batch, and the metadata of the operator."""
    conf = {"spark.sql.shuffle.partitions": str(partitions)}
    head = json.dumps({"batchWatermarkMs": 0, "batchTimestampMs": 1, "conf": conf})
    operator = {
        "operatorInfo": {"operatorId": 0, "operatorName": "transformWithStateInPySparkExec"},
        "stateStoreInfo": [{"storeName": "default", "numColsPrefixKey": 0, "numPartitions": partitions}],
    }
    for name, text in {
        "metadata": json.dumps({"id": "6f2e7a0c-1f8b-42ae-8dd3-68f265be9a75"}),
        "offsets/0": f"v1\n{head}\n0",
        "commits/0": 'v1\n{"nextBatchWatermarkMs":0}',
        "state/0/_metadata/v2/0": f"v2\n{json.dumps(operator)}",
    }.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
