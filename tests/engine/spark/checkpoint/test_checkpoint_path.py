"""Tests the files of a checkpoint through Hadoop's file system: as those of a folder, for all that reads and writes it."""

from __future__ import annotations

from pathlib import Path

import pytest

from kestrel_sql.spark.checkpoint.batch_log import numbered
from kestrel_sql.spark.runtime.session import open_test_session
from kestrel_sql.spark.state.checkpoint_path import (
    StorePath,
    create_new,
    folder_session,
    hadoop_uri,
    manager_settings,
    open_store,
    plain_name,
    uri_of,
    write_whole,
)

pytestmark = pytest.mark.spark


@pytest.fixture
def root(tmp_path: Path) -> StorePath:
    return open_store(open_test_session(), (tmp_path / "root").as_uri())


def test_files_are_written_whole_read_and_listed(root: StorePath, tmp_path: Path) -> None:
    file = root / "offsets" / "7"
    assert not file.exists()
    assert numbered(root / "offsets") == []
    (root / "offsets").mkdir(parents=True, exist_ok=True)
    for text in ("ä", "newer"):
        write_whole(file, text)
        assert file.read_text("utf-8") == text
    assert (tmp_path / "root" / "offsets" / "7").read_bytes() == b"newer"
    write_whole(root / "offsets" / "10", "")
    assert numbered(root / "offsets") == [7, 10]
    assert (file.name, str(file.parent), uri_of(file)) == ("7", f"{root}/offsets", f"{root}/offsets/7")
    assert (root / "offsets").is_dir()
    assert not file.is_dir()
    file.unlink()
    assert not file.exists()


@pytest.mark.parametrize("name", ["plain", "50% é", "%41"])
def test_a_folder_has_one_name_for_hadoop_and_for_sparks_reader_of_state(tmp_path: Path, name: str) -> None:
    folder = tmp_path / name
    folder.mkdir()
    (folder / "file").write_text("here")
    assert open_store(open_test_session(), uri_of(folder)).is_dir()
    assert not (tmp_path / folder.as_uri().rpartition("/")[2]).exists() or name == "plain"
    with plain_name(folder) as plain:
        assert plain.as_uri() == hadoop_uri(plain)
        assert (plain / "file").read_text("utf-8") == "here"
    assert folder.is_dir()


def test_a_file_is_created_once(root: StorePath) -> None:
    assert [create_new(root / "lease" / "1", text) for text in ("a", "b")] == [True, False]
    assert (root / "lease" / "1").read_text("utf-8") == "a"


def test_a_file_that_is_missing_or_cannot_be_written_is_an_os_error(root: StorePath) -> None:
    with pytest.raises(FileNotFoundError):
        (root / "none").read_bytes()
    write_whole(root / "file", "")
    with pytest.raises(OSError, match=r"File exists|cannot be used"):
        write_whole(root / "file" / "below", "")


def test_queries_with_local_checkpoints_do_not_have_the_file_manager_of_s3() -> None:
    plain = open_test_session().newSession()
    assert folder_session(plain) is plain
    [(name, manager)] = manager_settings("s3a://bucket/app").items()
    on_s3 = plain.newSession()
    on_s3.conf.set(name, manager)
    on_s3.conf.set("spark.sql.shuffle.partitions", "7")
    found = folder_session(on_s3)
    assert (found.conf.get(name), found.conf.get("spark.sql.shuffle.partitions")) == (
        manager_settings("hdfs://namenode:8020/app")[name],
        "7",
    )
    assert on_s3.conf.get(name) == manager
