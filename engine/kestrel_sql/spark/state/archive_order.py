"""Notices an archive or changelog of state that an older one has replaced (docs/adr/0041).

Spark tells the version of an archive by the name of its file alone. But RocksDB numbers its files: each start of a
store begins a manifest with a higher number, and each change that is flushed makes the manifest longer. So the
manifests of the archives of a partition only go forward. In a changelog each page has the number of its batch.
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from io import BytesIO
from itertools import pairwise
from zipfile import BadZipFile, ZipFile

import msgspec

from kestrel_sql.operators.state_codec import STAMP_SIZE, batch_and_state
from kestrel_sql.spark.state.changelog import RESTORE, archived_version, first_value
from kestrel_sql.spark.state.checkpoint_path import CheckpointPath, StorePath
from kestrel_sql.spark.state.stored_rows import BLOB_AT

_MANIFEST, _TABLES = "MANIFEST-", "SSTs"
_AT_ONCE = 16
"""How many files of a store are read at once."""


class _Manifest(msgspec.Struct, frozen=True, order=True):
    """How far RocksDB was when it wrote an archive: the number of its manifest, and how many bytes that had."""

    number: int
    size: int

    def __str__(self) -> str:
        return f"manifest {self.number} of {self.size:,} bytes"


def replaced_files(checkpoint: CheckpointPath, version: int, *, is_complete: bool) -> Iterator[str]:
    """Return which files of state that a query would load as of a version are those of earlier versions.

    Args:
        checkpoint: the folder of the checkpoint.
        version: the number of committed batches.
        is_complete: whether no later batch was begun, which may have written tables.
    """
    partitions = [
        (operator, partition) for operator in _numbered(checkpoint / "state") for partition in _numbered(operator)
    ]
    levels = len({operator for operator, _ in partitions})
    with ThreadPoolExecutor(_AT_ONCE if isinstance(checkpoint, StorePath) else 1) as pool:
        flaws = pool.map(
            lambda each: (
                _flaw(each[1], version, is_complete=is_complete) or next(_replaced_changelogs(each[1], version), None)
            ),
            partitions,
        )
        for (operator, partition), flaw in zip(partitions, flaws, strict=True):
            if flaw is not None:
                yield f"partition {partition.name} of the state of level {levels - int(operator.name)}: {flaw}"


def _flaw(partition: CheckpointPath, version: int, *, is_complete: bool) -> str | None:
    names = [entry.name.partition(".") for entry in partition.iterdir()]
    archived = sorted(int(name) for name, _, kind in names if kind == "zip" and name.isdigit() and int(name) <= version)
    for before, last in list(pairwise(archived))[-1:]:
        older, newer = (_manifest(partition / f"{number}.zip") for number in (before, last))
        if older is None or newer is None:
            # Spark says what is wrong with a file that is no archive.
            return None
        if newer < older or (newer == older and is_complete and _has_later_tables(partition, last)):
            more = f"{before}.zip has {older}" if newer < older else "the partition has tables that were written later"
            return (
                f"{last}.zip is older than version {last}: it has RocksDB's {newer}, and {more};"
                " restore the file from a copy of the checkpoint"
            )
    return None


def _replaced_changelogs(partition: CheckpointPath, version: int) -> Iterator[str]:
    for number in range(archived_version(partition, version) + 1, version + 1):
        # All pages of a changelog have the number of its batch; those of older releases have none.
        value = first_value(partition, number, BLOB_AT + STAMP_SIZE)
        batch = None if value is None else batch_and_state(value[BLOB_AT:])[0]
        if batch not in (None, number - 1):
            yield (f"{number}.changelog is that of batch {batch} and not that of batch {number - 1}; {RESTORE}")


def _has_later_tables(partition: CheckpointPath, version: int) -> bool:
    """Whether there are tables with higher numbers than those of an archive: later batches have written them."""
    with ZipFile(BytesIO((partition / f"{version}.zip").read_bytes())) as archive:
        listed = archive.read("metadata").decode("utf-8", "replace")
    tables = [entry.name for entry in (partition / _TABLES).iterdir()] if (partition / _TABLES).is_dir() else []
    numbered = {name: int(number) for name in tables if (number := name.partition("-")[0]).isdigit()}
    own = max((number for name, number in numbered.items() if name in listed), default=0)
    return any(number > own for number in numbered.values())


def _manifest(archive: CheckpointPath) -> _Manifest | None:
    try:
        with ZipFile(BytesIO(archive.read_bytes())) as opened:
            found = [
                _Manifest(int(entry.filename.removeprefix(_MANIFEST)), entry.file_size)
                for entry in opened.infolist()
                if entry.filename.startswith(_MANIFEST) and entry.filename.removeprefix(_MANIFEST).isdigit()
            ]
    except (BadZipFile, OSError, ValueError):
        return None
    return max(found, default=None)


def _numbered(folder: CheckpointPath) -> list[CheckpointPath]:
    entries = folder.iterdir() if folder.is_dir() else ()
    return sorted((entry for entry in entries if entry.name.isdigit()), key=lambda entry: int(entry.name))
