"""Checks the files in which Spark keeps how far a query is, before Spark reads them: its errors name no file."""

from __future__ import annotations

import json
import re
import struct
import zlib
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from pathlib import Path

from kestrel_sql.spark.state.checkpoint_path import CheckpointPath, StorePath, write_whole

_V1 = "v1"
_IDS, _WITH_IDS = "stateUniqueIds", re.compile("v[23]")
"""What a record of a batch has if Spark tells versions of its state by ids, and the versions of such records."""
_CHECKSUM_HEADER = b"crc\x00"
_AT_ONCE = 16
"""How many files of a store are read at once."""

_UUID = re.compile("[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")
_TIMES = ("batchWatermarkMs", "batchTimestampMs", "nextBatchWatermarkMs")

_NOTHING = "-"
"""What stands for a source that has given nothing."""


def numbered(folder: CheckpointPath) -> list[int]:
    """The numbers that files of a folder have for names, in their order."""
    return sorted(int(entry.name) for entry in folder.iterdir() if entry.name.isdigit()) if folder.is_dir() else []


def batch_log_flaws(folder: CheckpointPath) -> Iterator[str]:
    """Return what is wrong with `metadata`, `offsets` and `commits` of a checkpoint, by file (rules E12.10)."""
    metadata = folder / "metadata"
    offsets, commits = numbered(folder / "offsets"), numbered(folder / "commits")
    if metadata.exists():
        yield from _flaws(metadata, _metadata_flaw)
    elif offsets:
        yield "metadata is missing"
    files = [(folder / "offsets" / str(number), _offsets_flaw) for number in offsets]
    files += [(folder / "commits" / str(number), _commit_flaw) for number in commits]
    # Spark keeps a hundred batches, and a request to a store takes tens of milliseconds.
    with ThreadPoolExecutor(_AT_ONCE if isinstance(folder, StorePath) else 1) as pool:
        for found in pool.map(lambda file: [*_flaws(*file)], files):
            yield from found
    for name, numbers in (("offsets", offsets), ("commits", commits)):
        for before, after in pairwise(numbers):
            if after != before + 1:
                yield f"{name} has no file {before + 1}"
    if commits and (not offsets or not commits[-1] <= offsets[-1] <= commits[-1] + 1):
        yield f"commits ends with batch {commits[-1]}, and offsets with {offsets[-1] if offsets else 'none'}"


def unfinished_batch(folder: CheckpointPath) -> int | None:
    """The number of a batch that was begun and not committed, None if there is none."""
    begun, done = numbered(folder / "offsets"), numbered(folder / "commits")
    return begun[-1] if begun and (not done or done[-1] < begun[-1]) else None


def offsets_of(folder: CheckpointPath, number: int) -> dict[tuple[str, int], int]:
    """The offsets of topic-partitions at which a batch ends; empty if the batch is not in the checkpoint."""
    file = folder / "offsets" / str(number)
    if number < 0 or not file.exists():
        return {}
    lines = file.read_bytes().decode("utf-8").split("\n")[2:]
    members = (json.loads(line) for line in lines if line not in ("", _NOTHING))
    return {
        (topic, int(partition)): offset
        for topics in members
        for topic, offsets in topics.items()
        for partition, offset in offsets.items()
    }


def extend_batch(folder: CheckpointPath, number: int, ends: Mapping[tuple[str, int], int]) -> None:
    """Say that a batch ends where its tasks have read to, before Spark commits it.

    Spark plans the next batch by what it remembers, and reads the file when it starts again.
    """
    file = folder / "offsets" / str(number)
    version, about, *_ = file.read_bytes().decode("utf-8").split("\n")
    topics: dict[str, dict[str, int]] = defaultdict(dict)
    for (topic, partition), offset in sorted(ends.items()):
        topics[topic][str(partition)] = offset
    if isinstance(file, Path):
        _checksum_of(file).unlink(missing_ok=True)
    write_whole(file, "\n".join([version, about, json.dumps(topics, separators=(",", ":"))]))


def partitions_of_state(folder: CheckpointPath) -> int | None:
    """The number of partitions of Spark's state, which the first batch fixes; None if it is not there."""
    begun = numbered(folder / "offsets")
    if not begun:
        return None
    lines = (folder / "offsets" / str(begun[-1])).read_text(encoding="utf-8").split("\n")
    found = json.loads(lines[1]).get("conf", {}).get("spark.sql.shuffle.partitions")
    return None if found is None else int(found)


def _flaws(file: CheckpointPath, flaw: Callable[[str], str | None]) -> Iterator[str]:
    name = f"{file.parent.name}/{file.name}" if file.name.isdigit() else file.name
    try:
        data = file.read_bytes()
        found = "does not fit its checksum" if not _fits_checksum(file, data) else flaw(data.decode("utf-8"))
    except OSError as error:
        found = f"cannot be read: {error.strerror}"
    except UnicodeDecodeError:
        found = "is not text"
    if found is not None:
        yield f"{name} {found}"


def _fits_checksum(file: CheckpointPath, data: bytes) -> bool:
    """Whether a file is the one that the file beside it was made for.

    Without one, Hadoop checks nothing; stores check what they hold themselves.
    """
    if isinstance(file, StorePath):
        return True
    beside = _checksum_of(file)
    if not beside.exists():
        return True
    stored = beside.read_bytes()
    if len(stored) < 8 or not stored.startswith(_CHECKSUM_HEADER):
        return False
    (size,) = struct.unpack(">I", stored[4:8])
    parts = [data[at : at + size] for at in range(0, len(data), size)] if size else []
    return stored[8:] == b"".join(struct.pack(">I", zlib.crc32(part)) for part in parts)


def _checksum_of(file: Path) -> Path:
    """Where Hadoop has the checksum of a file in a folder."""
    return file.with_name(f".{file.name}.crc")


def _metadata_flaw(text: str) -> str | None:
    found = _object(text)
    return None if found is not None and _UUID.fullmatch(str(found.get("id"))) else "names no query"


def _offsets_flaw(text: str) -> str | None:
    version, _, rest = text.partition("\n")
    lines = rest.split("\n")
    about = _object(lines[0])
    if version != _V1 or about is None or not _has_types(about) or len(lines) < 2:
        return "is not a list of offsets"
    return None if all(line == _NOTHING or _is_offset(line) for line in lines[1:]) else "is not a list of offsets"


def _commit_flaw(text: str) -> str | None:
    version, _, rest = text.partition("\n")
    found = _object(rest)
    if found is None or not _has_types(found):
        return "is not a record of a batch"
    return None if (_WITH_IDS.fullmatch(version) if _IDS in found else version == _V1) else "is not a record of a batch"


def _has_types(found: dict[str, object]) -> bool:
    """Whether times are whole numbers and settings texts, as Spark reads them."""
    times = (found[name] for name in _TIMES if name in found)
    settings = found.get("conf", {})
    return all(type(each) is int for each in times) and (
        isinstance(settings, dict) and all(isinstance(value, str) for value in settings.values())
    )


def _object(text: str) -> dict[str, object] | None:
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def _is_offset(text: str) -> bool:
    """Whether it is the offset of a source: a number, that of files, or one for each partition of each topic."""
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return False
    if not isinstance(found, dict):
        return type(found) is int
    if found.keys() == {"logOffset"}:
        return type(found["logOffset"]) is int
    places = [place for each in found.values() for place in (each.items() if isinstance(each, dict) else [("", None)])]
    return all(partition.isdecimal() and type(offset) is int for partition, offset in places)
