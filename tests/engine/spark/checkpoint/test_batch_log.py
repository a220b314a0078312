"""The files of a checkpoint in which Spark keeps how far a query is (rules E12.10)."""

from __future__ import annotations

import shutil
import struct
import zlib
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from kestrel_sql.errors import CheckpointError
from kestrel_sql.kafka.run.manifest import CheckpointFolder
from kestrel_sql.spark.checkpoint.batch_log import batch_log_flaws, unfinished_batch

OFFSETS = 'v1\n{"batchWatermarkMs":0}\n{"in":{"0":%d}}'


def write(file: Path, text: str) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text, encoding="utf-8")
    data = file.read_bytes()
    sums = b"".join(struct.pack(">I", zlib.crc32(data[at : at + 8])) for at in range(0, len(data), 8))
    file.with_name(f".{file.name}.crc").write_bytes(b"crc\0" + struct.pack(">I", 8) + sums)


@pytest.fixture
def checkpoint(tmp_path: Path) -> Path:
    folder = tmp_path / "queries" / "Q"
    write(folder / "metadata", '{"id":"9046563c-1f8b-42ae-8dd3-68f265be9a75"}')
    for number in range(3):
        write(folder / "offsets" / str(number), OFFSETS % number)
        write(folder / "commits" / str(number), "v1\n{}")
    return folder


def replace_(name: str, text: str) -> Callable[[Path], None]:
    return lambda folder: write(folder / name, text)


def damage(name: str, data: bytes) -> Callable[[Path], None]:
    def change(folder: Path) -> None:
        (folder / name).write_bytes(data)
        (folder / name).with_name(f".{(folder / name).name}.crc").unlink()

    return change


def spoil(folder: Path) -> None:
    (folder / "offsets" / "1").write_text(OFFSETS % 7, encoding="utf-8")


def remove(*names: str) -> Callable[[Path], None]:
    def change(folder: Path) -> None:
        for name in names:
            (folder / name).unlink()

    return change


def nothing(folder: Path) -> None:
    pass


@pytest.mark.parametrize(
    "change",
    [
        nothing,
        remove("commits/2"),
        remove("offsets/0", "commits/0"),
        replace_("offsets/2", 'v1\n{}\n{"logOffset":2}'),
    ],
)
def test_what_spark_leaves_has_no_flaw(checkpoint: Path, change: Callable[[Path], None]) -> None:
    change(checkpoint)
    assert list(batch_log_flaws(checkpoint)) == []


@pytest.mark.parametrize(
    ("change", "flaw"),
    [
        (remove("metadata"), "metadata is missing"),
        (damage("metadata", b""), "metadata names no query"),
        (damage("metadata", b"\xff\xfe"), "metadata is not text"),
        (replace_("metadata", "[1]"), "metadata names no query"),
        (replace_("metadata", '{"id":5}'), "metadata names no query"),
        (replace_("metadata", '{"id":"9046563c-1f8b-42ae-8dd3-68f265be9a7x"}'), "metadata names no query"),
        (replace_("metadata", '{"ie":"9046563c-1f8b-42ae-8dd3-68f265be9a75"}'), "metadata names no query"),
        (replace_("offsets/2", 'v1\n{"conf":{"a":1}}\n{}'), "offsets/2 is not a list of offsets"),
        (replace_("offsets/2", 'v1\n{"batchTimestampMs":"1"}\n{}'), "offsets/2 is not a list of offsets"),
        (replace_("offsets/2", 'v1\n{}\n{"in":{"0":"1"}}'), "offsets/2 is not a list of offsets"),
        (replace_("offsets/2", 'v1\n{}\n{"in":{"x":1}}'), "offsets/2 is not a list of offsets"),
        (replace_("offsets/2", 'v1\n{}\n{"logOffset":"2"}'), "offsets/2 is not a list of offsets"),
        (replace_("offsets/2", 'v1\n{}\n"in"'), "offsets/2 is not a list of offsets"),
        (replace_("commits/1", 'v1\n{"nextBatchWatermarkMs":"0"}'), "commits/1 is not a record of a batch"),
        (damage("offsets/2", b""), "offsets/2 is not a list of offsets"),
        (replace_("offsets/2", "v1"), "offsets/2 is not a list of offsets"),
        (replace_("offsets/2", "v1\n{}"), "offsets/2 is not a list of offsets"),
        (replace_("offsets/2", "vX\n{}\n{}"), "offsets/2 is not a list of offsets"),
        (replace_("offsets/2", "v0\n{}\n{}"), "offsets/2 is not a list of offsets"),
        (replace_("offsets/2", "v2\n{}\n{}"), "offsets/2 is not a list of offsets"),
        (replace_("commits/1", "v0\n{}"), "commits/1 is not a record of a batch"),
        (replace_("commits/1", "v2\n{}"), "commits/1 is not a record of a batch"),
        (replace_("commits/1", 'v1\n{"stateUniqueIds":{}}'), "commits/1 is not a record of a batch"),
        (replace_("offsets/2", 'v1\n{}\n{"in":'), "offsets/2 is not a list of offsets"),
        (damage("offsets/2", b"v1\n{}\n\xc3"), "offsets/2 is not text"),
        (spoil, "offsets/1 does not fit its checksum"),
        (damage("commits/1", b"v1"), "commits/1 is not a record of a batch"),
        (replace_("commits/1", "v1\n7"), "commits/1 is not a record of a batch"),
        (remove("offsets/1"), "offsets has no file 1"),
        (remove("commits/1"), "commits has no file 1"),
        (remove("offsets/2"), "commits ends with batch 2, and offsets with 1"),
        (remove("commits/1", "commits/2"), "commits ends with batch 0, and offsets with 2"),
        (lambda folder: shutil.rmtree(folder / "offsets"), "commits ends with batch 2, and offsets with none"),
    ],
)
@pytest.mark.rules("E12.10")
def test_a_damage_is_named_with_its_file(checkpoint: Path, change: Callable[[Path], None], flaw: str) -> None:
    change(checkpoint)
    assert next(batch_log_flaws(checkpoint), None) == flaw
    folder = CheckpointFolder(checkpoint.parent.parent)
    query: Any = SimpleNamespace(id="Q", rescaled=0, shared="")
    with pytest.raises(CheckpointError, match=f"the query Q cannot resume from the checkpoint .*: {flaw}"):
        folder.next_offsets(query)


def test_a_batch_that_was_begun_and_not_committed_is_unfinished(checkpoint: Path) -> None:
    assert unfinished_batch(checkpoint) is None
    (checkpoint / "commits" / "2").unlink()
    assert unfinished_batch(checkpoint) == 2
