"""Resume a query from a copy of a checkpoint that an engine left behind."""

from __future__ import annotations

import re
import shutil
from collections.abc import Sequence
from pathlib import Path

from kestrel_sql.errors import CheckpointError
from kestrel_sql.spark.checkpoint.batch_log import unfinished_batch
from kestrel_sql.spark.checkpoint.compatibility import check_start
from kestrel_sql.spark.in_memory.resumable import ResumableQuery, ResumableRunner
from kestrel_sql.spark.pipeline.pipeline import Pipeline
from kestrel_sql.topics.records import Record


def resume_copy(runner: ResumableRunner, pipeline: Pipeline, checkpoint: Path, fed: Sequence[Record]) -> ResumableQuery:
    """Copy the checkpoint of a query that processed `fed` in one `advance`, and return a query with its state.

    Raises:
        CheckpointError: another plan wrote it, it cannot be read, or its last batch was begun and not finished.
    """
    batch = unfinished_batch(checkpoint)
    if batch is not None:
        # A topic in memory would hold the records of the batch twice.
        raise CheckpointError(f"the checkpoint {checkpoint} cannot be resumed: its batch {batch} was not finished")
    query = ResumableQuery(runner, pipeline)
    shutil.copytree(checkpoint, query.checkpoint)
    _move_paths(query.checkpoint)
    check_start(lambda: runner.spark, pipeline, query.checkpoint)
    query.skip(fed)
    return query


def _move_paths(checkpoint: Path) -> None:
    """Point the metadata of a copied checkpoint to its own files. Spark writes full paths of schemas into it."""
    for file in checkpoint.glob("state/*/_metadata/v2/[!.]*"):
        try:
            text = file.read_text(encoding="utf-8")
        except UnicodeDecodeError as error:
            raise CheckpointError(
                f"the checkpoint cannot be resumed: {file.relative_to(checkpoint)} is not text"
            ) from error
        own = re.sub(r'"file:[^"]*?/state/(?=\d+/_stateSchema/)', f'"file:{checkpoint}/state/', text)
        file.write_text(own, encoding="utf-8")
        # The checksum belongs to the old text.
        file.with_name(f".{file.name}.crc").unlink(missing_ok=True)
