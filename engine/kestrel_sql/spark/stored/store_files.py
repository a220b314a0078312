"""The files of Spark's RocksDB state stores, read and written without a JVM (docs/adr/0035).

A partition of a level is a folder with one archive for each version, `7.zip`: RocksDB's manifest and options, and
Spark's list of the table files, which lie in `SSTs/` and which versions share.
"""

from __future__ import annotations

import json
import os
import shutil
import struct
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from uuid import uuid4
from zipfile import ZIP_DEFLATED, BadZipFile, ZipFile
from zlib import error as ZlibError

from kestrel_sql.errors import CheckpointError
from kestrel_sql.spark.state.checkpoint_path import CheckpointPath, StorePath

_VARIABLE = "page"
"""The state variable of the host, which has a column family of its own."""

_METADATA, _VERSION_LINE = "metadata", "v1"
_TABLES, _LOGS = "SSTs", "logs"
_ENCODING = b"\x00"
"""The version of Spark's encoding of rows, in front of each key and value."""

_KEY = struct.Struct("<h1sqqq")
"""The number of the column family, the encoding, and an UnsafeRow: NULL flags, task and page."""

_BLOB = struct.Struct("<1sqii")
"""The encoding, and the head of an UnsafeRow of one binary column: NULL flags, size and offset."""

_HEAD = 16
"""The size of the head of that row, without the encoding; the bytes follow, filled up to words of 8 bytes."""

_TABLE_FORMAT = 5
"""The format of the table files that Spark 4 writes."""


@dataclass(frozen=True, slots=True)
class StoredPage:
    """The blob of one page."""

    task: int
    page: int
    blob: bytes


def partition_folders(operator: CheckpointPath) -> list[CheckpointPath]:
    """Return the folders of the partitions of a stateful level, in their order."""
    if not operator.is_dir():
        return []
    return sorted((entry for entry in operator.iterdir() if entry.name.isdigit()), key=lambda entry: int(entry.name))


def read_pages(partition: CheckpointPath, version: int) -> Iterator[StoredPage]:
    """Yield the pages of a partition as of a version; nothing in the folder changes.

    Raises:
        CheckpointError: a file is missing or damaged; names it.
    """
    archive = partition / f"{version}.zip"
    with TemporaryDirectory(prefix="kestrel-state-") as name:
        listed = _unpack(archive, Path(name))
        names = _link_tables(partition, listed, Path(name))
        family = _member(archive, listed, "columnFamilyMapping").get(_VARIABLE)
        found = 0
        with _opened(archive, Path(name), names) as database:
            cursor = database.iter()
            cursor.seek_to_first()
            while cursor.valid():
                page = _page(archive, family, cursor.key(), cursor.value())
                if page is not None:
                    found += 1
                    yield page
                cursor.next()
            cursor.status()
        expected = listed.get("numKeys", -1)
        if expected >= 0 and found != expected:
            raise _damaged(archive, f"it has {found} pages, and its list says {expected}")


def write_pages(partition: Path, version: int, pages: Iterable[StoredPage]) -> None:
    """Write a new partition with one version, as Spark's RocksDB reads it."""
    from rocksdict import Rdict

    (partition / _TABLES).mkdir(parents=True)
    with TemporaryDirectory(prefix="kestrel-state-") as name:
        written = 0
        database = Rdict(name, _options())
        for page in pages:
            database[_KEY.pack(_FAMILIES[_VARIABLE], _ENCODING, 0, page.task, page.page)] = _value(page.blob)
            written += 1
        database.flush()
        database.close()
        tables = []
        for file in sorted(Path(name).glob("*.sst")):
            kept = f"{file.stem}-{uuid4()}.sst"
            shutil.move(file, partition / _TABLES / kept)
            size = (partition / _TABLES / kept).stat().st_size
            tables.append({"localFileName": file.name, "dfsSstFileName": kept, "sizeBytes": size})
        listed = {
            "sstFiles": tables,
            "numKeys": written,
            "numInternalKeys": 0,
            "columnFamilyMapping": _FAMILIES,
            "columnFamilyTypeMap": dict.fromkeys(_FAMILIES, False),
            "maxColumnFamilyId": max(_FAMILIES.values()),
        }
        with ZipFile(partition / f"{version}.zip", "w", ZIP_DEFLATED) as archive:
            for file in sorted(Path(name).iterdir()):
                if file.name.startswith(("MANIFEST-", "CURRENT", "OPTIONS-")):
                    archive.write(file, file.name)
            archive.writestr(_METADATA, f"{_VERSION_LINE}\n{json.dumps(listed, separators=(',', ':'))}")


_FAMILIES = {"default": 1, _VARIABLE: 2}
"""Spark's numbers of the column families of a store with one state variable."""


def _options() -> Any:
    from rocksdict import BlockBasedOptions, DBCompressionType, Options

    tables = BlockBasedOptions()
    tables.set_format_version(_TABLE_FORMAT)
    options = Options(raw_mode=True)
    options.create_if_missing(True)
    options.set_block_based_table_factory(tables)
    options.set_compression_type(DBCompressionType.lz4())
    return options


def _unpack(archive: CheckpointPath, target: Path) -> Mapping[str, Any]:
    """Unpack an archive, and return Spark's list of its table files."""
    try:
        with ZipFile(BytesIO(archive.read_bytes())) as stored:
            for name in stored.namelist():
                (target / Path(name).name).write_bytes(stored.read(name))
        version, _, listed = (target / _METADATA).read_text(encoding="utf-8").partition("\n")
        found = json.loads(listed)
    except FileNotFoundError as error:
        missing = archive if not archive.exists() else f"{archive} has no {Path(error.filename).name}, so it"
        raise CheckpointError(f"{missing} does not exist", hint=_RESTORE) from error
    except (BadZipFile, ZlibError, OSError, EOFError, ValueError, NotImplementedError) as error:
        raise _damaged(archive, error) from error
    if version != _VERSION_LINE:
        raise CheckpointError(
            f"{archive} has version {version[:20]} of Spark's list of files; this release reads {_VERSION_LINE}",
            hint="use the release of Kestrel that wrote the checkpoint",
        )
    if not isinstance(found, dict):
        raise _damaged(archive, "its list of files is no object")
    return found


def _link_tables(partition: CheckpointPath, listed: Mapping[str, Any], target: Path) -> Mapping[str, CheckpointPath]:
    """Link the shared files of a version under the names that RocksDB gives them, or fetch them from a store.

    Returns:
        the files by these names.
    """
    names = {}
    for member, folder, stored in (("sstFiles", _TABLES, "dfsSstFileName"), ("logFiles", _LOGS, "dfsLogFileName")):
        for entry in listed.get(member, ()):
            local, file = entry["localFileName"], partition / folder / entry[stored]
            if not file.is_file():
                raise CheckpointError(f"{file} does not exist", hint=_RESTORE)
            size = file.size() if isinstance(file, StorePath) else file.stat().st_size
            if size != entry["sizeBytes"]:
                raise _damaged(file, f"it has {size} bytes instead of {entry['sizeBytes']}")
            if isinstance(file, StorePath):
                file.fetch(target / Path(local).name)
            else:
                os.symlink(file.resolve(), target / Path(local).name)
            names[local] = file
    return names


@contextmanager
def _opened(archive: CheckpointPath, folder: Path, names: Mapping[str, CheckpointPath]) -> Iterator[Any]:
    """Open the database of a version; errors of RocksDB name the file of the checkpoint."""
    # Every command would load the library, which takes 20 ms.
    from rocksdict import AccessType, Options, Rdict

    options = Options(raw_mode=True)
    options.set_paranoid_checks(True)
    try:
        database = Rdict(str(folder), options, access_type=AccessType.read_only())
    except Exception as error:
        raise _failed(archive, names, error) from error
    try:
        yield database
    except CheckpointError:
        raise
    except Exception as error:
        raise _failed(archive, names, error) from error
    finally:
        database.close()


def _failed(archive: CheckpointPath, names: Mapping[str, CheckpointPath], error: Exception) -> CheckpointError:
    reason = str(error)
    file = next((file for local, file in names.items() if local in reason), archive)
    return _damaged(file, reason.partition(" in ")[0].partition(":")[0] if "Corruption" in reason else reason)


def _page(archive: CheckpointPath, family: int | None, key: bytes, value: bytes) -> StoredPage | None:
    try:
        own, encoding, _, task, page = _KEY.unpack(key)
        if own != family:
            return None
        value_encoding, _, size, offset = _BLOB.unpack_from(value)
    except struct.error as error:
        raise _damaged(archive, error) from error
    blob = value[1 + offset : 1 + offset + size]
    if encoding != _ENCODING or value_encoding != _ENCODING or len(blob) != size:
        raise _damaged(archive, f"page {page} of task {task} is not in the encoding of Spark 4")
    return StoredPage(task, page, blob)


def _value(blob: bytes) -> bytes:
    filled = b"\x00" * (-len(blob) % 8)
    return _BLOB.pack(_ENCODING, 0, len(blob), _HEAD) + blob + filled


def _member(archive: CheckpointPath, listed: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    found = listed.get(name)
    if not isinstance(found, dict):
        raise _damaged(archive, f"its list of files has no {name}")
    return found


_RESTORE = "restore the file from a copy of the checkpoint"


def _damaged(file: CheckpointPath, reason: object) -> CheckpointError:
    return CheckpointError(f"{file} is damaged: {reason}", hint=_RESTORE)
