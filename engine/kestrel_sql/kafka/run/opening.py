"""Opens the checkpoint of a run, and names what is wrong with its store or disk."""

from __future__ import annotations

import errno
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from pyspark.sql import SparkSession

from kestrel_sql.errors import EngineError
from kestrel_sql.kafka.run.manifest import CheckpointFolder
from kestrel_sql.kafka.run.run import StoreUri
from kestrel_sql.spark.state.checkpoint_path import open_store
from kestrel_sql.spark.state.store_errors import error_of_text


def open_checkpoint(checkpoint: Path | StoreUri, spark: Callable[[], SparkSession]) -> CheckpointFolder:
    """Return a checkpoint; for one on a store, wait for Spark, through which it is reached.

    Raises:
        EngineError: Spark does not start, or the store does not answer or refuses the credentials.
    """
    return CheckpointFolder(open_store(spark(), checkpoint.text) if isinstance(checkpoint, StoreUri) else checkpoint)


@contextmanager
def checkpoint_errors(checkpoint: Path | StoreUri) -> Iterator[None]:
    """Turn what a store does not answer, and a full disk, into an error for the user."""
    try:
        yield
    except OSError as error:
        known = (
            _store_error(error)
            if isinstance(checkpoint, StoreUri)
            else error_of_text(str(checkpoint), str(error.strerror))
        )
        if known is None:
            raise
        raise known from error


def _store_error(error: OSError) -> EngineError | None:
    if error.errno != errno.EIO:
        return None
    return EngineError(
        str(error.strerror), hint="nothing is lost: run the same command again to resume from the checkpoint"
    )
