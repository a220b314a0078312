"""The files of Spark's RocksDB state stores, read and written without a JVM (docs/adr/0035).

A partition of a level is a folder with archives of some versions, `7.zip`: RocksDB's manifest and options, and Spark's
list of the table files, which lie in `SSTs/` and which versions share. A version without an archive is that of the last
one before it, changed by the changelogs since, such as `8.changelog` (docs/adr/0041).
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from io import BytesIO
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from uuid import uuid4
from zipfile import ZIP_DEFLATED, BadZipFile, ZipFile
from zlib import error as ZlibError

from kestrel_sql.errors import CheckpointError
from kestrel_sql.spark.state.changelog import RESTORE, archived_version, damaged, read_changelog
from kestrel_sql.spark.state.checkpoint_path import CheckpointPath, StorePath
from kestrel_sql.spark.state.stored_rows import StoredPage, key_of, row_key, row_value, stored_page

_VARIABLE = "page"
"""The state variable of the host, which has a column family of its own."""

_METADATA, _VERSION_LINE = "metadata", "v1"
_TABLES, _LOGS = "SSTs", "logs"
_TABLE_FORMAT = 5
"""The format of the table files that Spark 4 writes."""


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
    archived = archived_version(partition, version)
    archive = partition / f"{archived}.zip"
    with TemporaryDirectory(prefix="kestrel-state-") as name:
        listed = _unpack(archive, Path(name))
        names = _link_tables(partition, listed, Path(name))
        family = _member(archive, listed, "columnFamilyMapping").get(_VARIABLE)
        changed: set[bytes] = set()
        for number in range(version, archived, -1):
            yield from _changed_pages(partition, number, family, changed)
        found = 0
        with _opened(archive, Path(name), names) as database:
            cursor = database.iter()
            cursor.seek_to_first()
            while cursor.valid():
                key = cursor.key()
                if key_of(archive, key)[0] == family:
                    found += 1
                    if key not in changed:
                        yield stored_page(archive, key, cursor.value())
                cursor.next()
            cursor.status()
        expected = listed.get("numKeys", -1)
        if expected >= 0 and found != expected:
            raise damaged(archive, f"it has {found} pages, and its list says {expected}")


def _changed_pages(
    partition: CheckpointPath, version: int, family: int | None, changed: set[bytes]
) -> Iterator[StoredPage]:
    """Yield the pages that a batch put and no later one `changed`, and add the keys of the batch to those."""
    changelog = read_changelog(partition, version)
    for key in changelog.places.keys() - changed:
        value = changelog.value(key) if key_of(changelog.file, key)[0] == family else None
        if value is not None:
            yield stored_page(changelog.file, key, value)
    changed.update(changelog.places)


def write_pages(partition: Path, version: int, pages: Iterable[StoredPage]) -> None:
    """Write a new partition with one version, as Spark's RocksDB reads it."""
    from rocksdict import Rdict

    (partition / _TABLES).mkdir(parents=True)
    with TemporaryDirectory(prefix="kestrel-state-") as name:
        written = 0
        database = Rdict(name, _options())
        for page in pages:
            database[row_key(_FAMILIES[_VARIABLE], page)] = row_value(page)
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
        raise CheckpointError(f"{missing} does not exist", hint=RESTORE) from error
    except (BadZipFile, ZlibError, OSError, EOFError, ValueError, NotImplementedError) as error:
        raise damaged(archive, error) from error
    if version != _VERSION_LINE:
        raise CheckpointError(
            f"{archive} has version {version[:20]} of Spark's list of files; this release reads {_VERSION_LINE}",
            hint="use the release of Kestrel that wrote the checkpoint",
        )
    if not isinstance(found, dict):
        raise damaged(archive, "its list of files is no object")
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
                raise CheckpointError(f"{file} does not exist", hint=RESTORE)
            size = file.size() if isinstance(file, StorePath) else file.stat().st_size
            if size != entry["sizeBytes"]:
                raise damaged(file, f"it has {size} bytes instead of {entry['sizeBytes']}")
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
    return damaged(file, reason.partition(" in ")[0].partition(":")[0] if "Corruption" in reason else reason)


def _member(archive: CheckpointPath, listed: Mapping[str, object], name: str) -> Mapping[str, Any]:
    found = listed.get(name)
    if not isinstance(found, dict):
        raise damaged(archive, f"its list of files has no {name}")
    return found
