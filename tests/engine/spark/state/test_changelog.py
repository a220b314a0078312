"""Tests reading changelogs of state that Spark wrote: each change of a key, large values, and damaged files."""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import Any

import pytest

from kestrel_sql.errors import CheckpointError
from kestrel_sql.spark.runtime.session import open_test_session
from kestrel_sql.spark.state.changelog import read_changelog

pytestmark = pytest.mark.spark

SIZES = (0, 1, 15, 16, 1000, 32_767, 32_768, 32_769, 100_000, 300_001)


class Writer:
    """Spark's writer of changelogs."""

    def __init__(self, codec: str = "lz4", version: int = 2) -> None:
        spark = open_test_session()
        jvm: Any = spark._jvm
        session: Any = spark._jsparkSession
        self._path = jvm.org.apache.hadoop.fs.Path
        streaming = jvm.org.apache.spark.sql.execution.streaming
        self._codec = jvm.org.apache.spark.io.CompressionCodec.createCodec(spark.sparkContext._jsc.sc().conf(), codec)
        self._manager = lambda file: streaming.checkpointing.CheckpointFileManager.create(
            file, session.sessionState().newHadoopConf()
        )
        self._class = getattr(streaming.state, f"StateStoreChangelogWriterV{version}")

    def write(self, file: Path, *changes: tuple[str, bytes, bytes]) -> Path:
        """Write changes: the name of the writer's method, the key and the value."""
        path = self._path(str(file))
        writer = self._class(self._manager(path), path, self._codec)
        for name, key, value in changes:
            getattr(writer, name)(*((key,) if name == "delete" else (key, value)))
        writer.commit()
        return file


def contents(file: Path) -> dict[bytes, bytes | None]:
    changelog = read_changelog(file.parent, int(file.stem))
    return {key: changelog.value(key) for key in changelog.places}


@pytest.fixture(scope="module")
def writer() -> Writer:
    return Writer()


@pytest.mark.parametrize("compressible", [True, False])
def test_values_of_all_sizes_are_read_in_any_order(writer: Writer, tmp_path: Path, compressible: bool) -> None:
    random = Random(5)
    given = {b"k%d" % size: bytes(size) if compressible else random.randbytes(size) for size in SIZES}
    file = writer.write(tmp_path / "7.changelog", *(("put", key, value) for key, value in given.items()))
    assert contents(file) == given
    changelog = read_changelog(file.parent, int(file.stem))
    assert [changelog.value(key) for key in reversed(given)] == list(reversed(given.values()))


def test_the_last_change_of_a_key_counts(writer: Writer, tmp_path: Path) -> None:
    changes = [("put", b"a", b"1"), ("put", b"b", b"1"), ("delete", b"a", b""), ("put", b"b", b"2")]
    changes += [("delete", b"c", b""), ("put", b"c", b"3"), ("put", b"", b"4")]
    assert contents(writer.write(tmp_path / "1.changelog", *changes)) == {b"a": None, b"b": b"2", b"c": b"3", b"": b"4"}


def test_a_batch_may_change_nothing(writer: Writer, tmp_path: Path) -> None:
    assert contents(writer.write(tmp_path / "1.changelog")) == {}


@pytest.mark.parametrize(
    ("made", "said"),
    [
        (lambda file: Writer().write(file, ("merge", b"a", b"1")), "a record of kind 17"),
        (lambda file: Writer("zstd").write(file, ("put", b"a", b"1")), "at byte 0 no block of LZ4 begins"),
        (lambda file: file.write_bytes(b""), "ends too early"),
        (lambda file: file.write_bytes(Writer().write(file, ("put", b"a", b"1")).read_bytes() * 2), "after its end"),
    ],
)
def test_what_is_no_changelog_of_a_host_is_named(made: Any, said: str, tmp_path: Path) -> None:
    file = tmp_path / "8.changelog"
    made(file)
    with pytest.raises(CheckpointError, match=f"8.changelog is damaged: .*{said}") as caught:
        contents(file)
    assert caught.value.hint


def test_a_changelog_of_another_version_is_named(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match=r"7.changelog has version .* of Spark's changelogs; this release reads"):
        contents(Writer(version=1).write(tmp_path / "7.changelog", ("put", b"a" * 200, b"1")))


def test_every_missing_and_every_changed_byte_is_noticed(writer: Writer, tmp_path: Path) -> None:
    file = tmp_path / "9.changelog"
    writer.write(file, *(("put", b"key %d" % at, b"value %d" % at * 9) for at in range(40)), ("delete", b"key 3", b""))
    sound, read = file.read_bytes(), contents(file)
    for size in range(len(sound)):
        file.write_bytes(sound[:size])
        with pytest.raises(CheckpointError, match=r"9.changelog is damaged"):
            contents(file)
    for at in range(len(sound)):
        file.write_bytes(sound[:at] + bytes([sound[at] ^ 0xFF]) + sound[at + 1 :])
        # The level of a block's compression matters to nobody.
        assert outcome(file) in (read, "damaged")


def outcome(file: Path) -> object:
    try:
        return contents(file)
    except CheckpointError as error:
        return "damaged" if "9.changelog is damaged" in error.message else error.message
