"""An archive of state that an older one has replaced is noticed by RocksDB's numbers in it."""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from pathlib import Path
from zipfile import ZipFile

import pytest

from kestrel_sql.spark.state.archive_order import replaced_files


def archive(partition: Path, version: int, manifest: int, size: int, tables: Sequence[int]) -> None:
    """Write an archive as Spark does, and its tables."""
    names = [f"{number:06}-{partition.name}.sst" for number in tables]
    (partition / "SSTs").mkdir(parents=True, exist_ok=True)
    for name in names:
        (partition / "SSTs" / name).touch()
    with ZipFile(partition / f"{version}.zip", "w") as made:
        made.writestr(f"MANIFEST-{manifest:06}", b"m" * size)
        made.writestr("metadata", "v1\n" + json.dumps({"sstFiles": [{"dfsSstFileName": name} for name in names]}))


@pytest.fixture
def checkpoint(tmp_path: Path) -> Path:
    """A level of two partitions: the second has no rows in batch 3, and the store was opened anew for batch 4."""
    for number, sizes in enumerate(((100, 200, 300), (100, 200, 200))):
        partition = tmp_path / "state" / "0" / str(number)
        for version, size in enumerate(sizes, 1):
            archive(partition, version, 5, size, range(8, 8 + size // 100))
        archive(partition, 4, 16, 90, [*range(8, 8 + sizes[-1] // 100), *([20] if number == 0 else [])])
    return tmp_path


def replaced(checkpoint: Path, version: int, older: int, *, by: int = 4, partition: str = "0") -> list[str]:
    folder = checkpoint / "state" / "0" / partition
    shutil.copyfile(folder / f"{older}.zip", folder / f"{version}.zip")
    return list(replaced_files(checkpoint, by, is_complete=True))


@pytest.mark.parametrize("version", [1, 2, 3, 4, 9])
def test_archives_in_their_order_are_no_flaw(checkpoint: Path, version: int) -> None:
    assert list(replaced_files(checkpoint, version, is_complete=version > 3)) == []


@pytest.mark.parametrize(("version", "older"), [(4, 1), (4, 2), (4, 3), (3, 1), (3, 2)])
def test_an_archive_in_the_place_of_a_later_one(checkpoint: Path, version: int, older: int) -> None:
    manifests = {1: "manifest 5 of 100 bytes", 2: "manifest 5 of 200 bytes", 3: "manifest 5 of 300 bytes"}
    (flaw,) = replaced(checkpoint, version, older, by=version)
    more = f"{version - 1}.zip has {manifests[version - 1]}"
    if older == version - 1:
        more = "the partition has tables that were written later"
    assert flaw == (
        f"partition 0 of the state of level 1: {version}.zip is older than version {version}: it has RocksDB's"
        f" {manifests[older]}, and {more};"
        " restore the file from a copy of the checkpoint"
    )


def test_tables_of_a_batch_that_was_begun_are_no_flaw(checkpoint: Path) -> None:
    folder = checkpoint / "state" / "0" / "1"
    (folder / "4.zip").unlink()
    (folder / "SSTs" / "000010-1.sst").touch()
    assert list(replaced_files(checkpoint, 3, is_complete=False)) == []
    (flaw,) = replaced_files(checkpoint, 3, is_complete=True)
    assert flaw.startswith("partition 1 of")


def test_what_is_no_archive_is_left_to_spark(checkpoint: Path) -> None:
    (checkpoint / "state" / "0" / "0" / "4.zip").write_bytes(b"PK")
    assert list(replaced_files(checkpoint, 4, is_complete=True)) == []
