"""Rescales the checkpoint of a stopped run: all new states are written beside the old ones, then take their place."""

from __future__ import annotations

import os
import shutil
from dataclasses import replace
from pathlib import Path

from kestrel_sql.errors import CheckpointError, EngineError
from kestrel_sql.functions.registry import Registry
from kestrel_sql.kafka.run.layout import MANIFEST, PARTIAL, QUERIES, READY
from kestrel_sql.kafka.run.manifest import CheckpointFolder
from kestrel_sql.kafka.run.rescale_switch import finish_rescale
from kestrel_sql.kafka.run.stored_queries import stored_queries
from kestrel_sql.spark.stored.rescale import Rescaled, rescale


def rescale_checkpoint(
    folder: Path, functions: Registry, *, partitions: int, pages: int | None, wanted: str | None
) -> list[Rescaled]:
    """Rewrite the state of the queries of a run for other numbers.

    A process that is killed on the way leaves the old states whole, or new ones that the next start puts in place.

    Args:
        folder: the folder of `--checkpoint`.
        functions: the functions of the queries.
        partitions: the number of partitions of each stateful level.
        pages: the number of pages of each task; None leaves it.
        wanted: the id of the only query to rescale.

    Raises:
        CheckpointError: a query cannot be rescaled, or a file is damaged; nothing has changed.
        CheckpointInUseError: a run holds the checkpoint.
        EngineError: the folder cannot be written.
    """
    if not (folder / MANIFEST).is_file():
        raise CheckpointError(
            f"{folder} is not the checkpoint of a run: it has no {MANIFEST}",
            hint="name the folder of --checkpoint of a run",
        )
    with CheckpointFolder(folder).locked():
        try:
            return _rescaled(folder, functions, partitions, pages, wanted)
        except OSError as error:
            raise EngineError(
                f"{error.filename or folder} cannot be written: {error.strerror or error}",
                hint="the states are as they were; make room and try again",
            ) from error


def _rescaled(
    folder: Path, functions: Registry, partitions: int, pages: int | None, wanted: str | None
) -> list[Rescaled]:
    found, partial = [], folder / PARTIAL
    if partial.exists():
        shutil.rmtree(partial)
    try:
        for query in stored_queries(folder, functions, wanted):
            if query.steps and query.batches:
                number = query.metadata.pages if pages is None else pages
                target = partial / QUERIES / query.folder.name
                found.append(rescale(query, target, partitions=partitions, pages=number))
        if not found:
            return found
        manifest = CheckpointFolder(folder).load()
        pages_of = {rescaled.query.id: rescaled.query.metadata.pages for rescaled in found}
        for stored in manifest.queries.values():
            manifest = manifest.with_query(replace(stored, pages=pages_of.get(stored.id, stored.pages)))
        CheckpointFolder(partial).save(manifest)
    except BaseException:
        shutil.rmtree(partial, ignore_errors=True)
        raise
    _sync(partial)
    partial.rename(folder / READY)
    finish_rescale(folder)
    return found


def _sync(folder: Path) -> None:
    """Force all files of a folder to the disk, before one rename makes them count."""
    for entry in [folder, *folder.rglob("*")]:
        descriptor = os.open(entry, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
