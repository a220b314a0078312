"""Rescales the checkpoint of a stopped run: new states are written beside the old ones, and the manifest names them."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from msgspec.structs import replace

from kestrel_sql.errors import CheckpointError, EngineError
from kestrel_sql.functions.registry import Registry
from kestrel_sql.kafka.run.manifest import MANIFEST, RESCALED, CheckpointFolder
from kestrel_sql.kafka.run.stored_queries import stored_queries
from kestrel_sql.spark.checkpoint.batch_log import unfinished_batch
from kestrel_sql.spark.state.checkpoint_path import CheckpointPath, remove_folder
from kestrel_sql.spark.state_tools.rescale import Rescaled, rescale


def rescale_checkpoint(
    folder: CheckpointPath,
    functions: Registry,
    *,
    partitions: int,
    pages: int | None,
    wanted: str | None,
    say: Callable[[str], None] = lambda _: None,
) -> list[Rescaled]:
    """Rewrite the state of the queries of a run for other numbers.

    A process that is killed on the way leaves the old or the new states whole; the next start deletes the others.

    Args:
        folder: the folder or the store of `--checkpoint`.
        functions: the functions of the queries.
        partitions: the number of partitions of each stateful level.
        pages: the number of pages of each task; None leaves it.
        wanted: the id of the only query to rescale.
        say: gets what the user should know while the command waits.

    Raises:
        CheckpointError: a query cannot be rescaled, or a file is damaged; nothing has changed.
        CheckpointInUseError: a run holds the checkpoint, or took it meanwhile.
        EngineError: the folder or the store cannot be written.
    """
    if not (folder / MANIFEST).is_file():
        raise CheckpointError(
            f"{folder} is not the checkpoint of a run: it has no {MANIFEST}",
            hint="name the --checkpoint of a run",
        )
    checkpoint = CheckpointFolder(folder)
    with checkpoint.locked(say) as check:
        manifest = checkpoint.load()
        for stored in manifest.queries.values():
            if stored.level_writes and wanted in (None, stored.id):
                _check_finished(stored.id, checkpoint.folder_of(stored))
        number = 1 + max((stored.rescaled for stored in manifest.queries.values()), default=0)
        try:
            found = _copied(folder, functions, folder / RESCALED / str(number), partitions, pages, wanted)
            if not found:
                return found
            check()
        except OSError as error:
            raise EngineError(
                f"{error.filename or folder} cannot be written: {error.strerror or error}",
                hint="the states are as they were; make room and try again",
            ) from error
        after = {rescaled.query.id: rescaled.query.metadata for rescaled in found}
        for stored in [*manifest.queries.values()]:
            if stored.id in after:
                manifest = manifest.with_query(replace(stored.with_pages(after[stored.id]), rescaled=number))
        try:
            # This one write decides which states count.
            checkpoint.save(manifest)
            check()
        except OSError as error:
            raise EngineError(
                f"{error.filename or folder} cannot be written: {error.strerror or error}",
                hint="the states are whole, and are the old or the new ones: `kestrel state ls` says which",
            ) from error
        checkpoint.settle()
    return found


def _check_finished(query: str, folder: CheckpointPath) -> None:
    """Refuse a query that has begun a batch: some of its slots may be written, and would have other outputs then."""
    if unfinished_batch(folder) is not None:
        raise CheckpointError(
            f"the query {query} has begun a batch that is not finished, and cannot be rescaled before it is",
            hint="start it once more, and stop it with Ctrl-C",
        )


def _copied(
    folder: CheckpointPath,
    functions: Registry,
    copies: CheckpointPath,
    partitions: int,
    pages: int | None,
    wanted: str | None,
) -> list[Rescaled]:
    found = []
    try:
        for query in stored_queries(folder, functions, wanted):
            if query.steps and query.batches:
                number = query.metadata.pages if pages is None else pages
                found.append(rescale(query, copies / query.folder.name, partitions=partitions, pages=number))
    except BaseException:
        with suppress(OSError):
            remove_folder(copies)
        raise
    if found and isinstance(copies, Path):
        sync(copies)
    return found


def sync(folder: Path) -> None:
    """Force all files of a folder to the disk, before one write makes them count."""
    for entry in [folder.parent, folder, *folder.rglob("*")]:
        descriptor = os.open(entry, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
