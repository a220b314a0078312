"""Tests what Kestrel makes of what a store throws, with false exceptions in place of Java's."""

from __future__ import annotations

import errno
from dataclasses import dataclass, field
from threading import Event
from types import SimpleNamespace
from typing import Any

import pytest
from py4j.protocol import Py4JError, Py4JJavaError

from kestrel_sql.kafka.run.progress import QueryProgress
from kestrel_sql.kafka.run.running_query import RunningQuery
from kestrel_sql.spark.state.checkpoint_path import Store, StorePath
from kestrel_sql.spark.state.store_errors import error_of_text, store_error

EXPIRED = "The provided token has expired. (Service: S3, Status Code: 400); ExpiredToken"


@dataclass
class Thrown:
    """An exception of Java with a status as Amazon's have one."""

    name: str
    message: str = ""
    status: int = 0
    cause: Thrown | None = None

    def getClass(self) -> Thrown:  # noqa: N802
        return self

    def getName(self) -> str:  # noqa: N802
        return self.name

    def getSimpleName(self) -> str:  # noqa: N802
        return self.name.rpartition(".")[2]

    def getMessage(self) -> str:  # noqa: N802
        return self.message

    def getCause(self) -> Thrown | None:  # noqa: N802
        return self.cause

    def statusCode(self) -> int:  # noqa: N802
        return self.status


class ThrownError(Py4JJavaError):
    """What Py4J raises for it, without a gateway."""

    def __init__(self, thrown: Thrown) -> None:
        Exception.__init__(self)
        self.java_exception: Any = thrown


@dataclass
class Replaced:
    """A file system whose file is replaced while it is read, some times."""

    times: int
    thrown: Thrown
    content: bytes = b"new"
    asked: list[str] = field(default_factory=list)

    def open(self, path: str) -> Replaced:
        self.asked.append(path)
        return self

    def readAllBytes(self) -> bytes:  # noqa: N802
        if len(self.asked) <= self.times:
            raise ThrownError(self.thrown)
        return self.content

    def close(self) -> None:
        pass


def path_of(files: Replaced) -> StorePath:
    store = Store(None, "s3a://b/c", lambda: None)
    vars(store).update(files=files, path=lambda uri: uri)
    return StorePath(store, "s3a://b/c/lease/1")


REPLACED = (
    Thrown("java.io.IOException", cause=Thrown("a.S3Exception", status=412)),
    Thrown("org.apache.hadoop.fs.ChecksumException"),
)


@pytest.mark.parametrize("thrown", REPLACED)
def test_a_file_that_is_replaced_while_it_is_read_is_read_again(thrown: Thrown) -> None:
    files = Replaced(2, thrown)
    assert path_of(files).read_bytes() == b"new"
    assert len(files.asked) == 3


def test_a_file_that_is_replaced_all_the_time_is_named() -> None:
    with pytest.raises(OSError, match="s3a://b/c/lease/1 cannot be read: it keeps being replaced") as caught:
        path_of(Replaced(1000, REPLACED[0])).read_bytes()
    assert caught.value.errno == errno.EIO


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("java.io.IOException: No space left on device", "no space is left on its disk"),
        (EXPIRED, "its token has expired"),
        ("Bad Request (Service: S3, Status Code: 400, Request ID: null)", "as it does when a token has expired"),
    ],
)
def test_the_text_of_an_exception_is_known_by_its_words(text: str, said: str) -> None:
    error = error_of_text("file:///c", f"org.apache.spark.SparkException: a job failed\nCaused by: {text}")
    assert error is not None
    assert error.message.startswith("the checkpoint file:///c cannot be used: ")
    assert said in error.message
    assert "the same command again" in str(error.hint)
    assert error_of_text("file:///c", "java.lang.ArithmeticException: / by zero") is None


def test_a_cause_is_known_by_its_class_before_its_words() -> None:
    denied = Thrown("java.nio.file.AccessDeniedException", "no", cause=Thrown("a.S3Exception", EXPIRED))
    expired = Thrown("a.AWSBadRequestException", "bad", cause=Thrown("a.S3Exception", EXPIRED))
    assert "it refuses these credentials" in store_error("s3a://b/c", ThrownError(denied)).message
    assert "its token has expired" in store_error("s3a://b/c", ThrownError(expired)).message
    other = Thrown("a.B", "first", cause=Thrown("a.C", "last\nwith a trace"))
    assert store_error("s3a://b/c", ThrownError(other)).message == "the checkpoint s3a://b/c cannot be used: last"


@pytest.mark.parametrize(("scheme", "is_conditional"), [("s3a", True), ("hdfs", False)])
def test_the_store_itself_decides_who_creates_a_file(scheme: str, is_conditional: bool) -> None:
    """S3A looks first and writes then, unless it is told that the write has a condition."""
    asked: list[str] = []
    stream = SimpleNamespace(write=lambda _: None, close=lambda: None)
    builder = SimpleNamespace(build=lambda: stream)
    builder.recursive = lambda: builder
    builder.overwrite = lambda _: builder
    builder.must = lambda name, _: asked.append(name) or builder
    store = Store(None, f"{scheme}://b/c", lambda: None)
    vars(store).update(files=SimpleNamespace(createFile=lambda _: builder), path=lambda uri: uri)
    assert StorePath(store, f"{scheme}://b/c/lease/1").create(b"x")
    assert bool(asked) is is_conditional


def test_a_file_that_cannot_be_written_whole_does_not_appear() -> None:
    ended: list[str] = []

    def write(_: bytearray) -> None:
        raise Py4JError("the store is away")

    stream = SimpleNamespace(
        write=write, cancel=lambda: ended.append("cancelled"), close=lambda: ended.append("closed")
    )
    store = Store(None, "s3a://b/c", lambda: None)
    manager = SimpleNamespace(createAtomic=lambda path, overwrites: stream)
    vars(store).update(files=None, path=lambda uri: uri, manager=manager)
    with pytest.raises(Py4JError):
        StorePath(store, "s3a://b/c/kestrel.json").write_whole(b"half")
    assert ended == ["cancelled"]


NO_STORE: Any = None


def test_a_query_that_fails_for_its_store_says_so() -> None:
    failed: Any = SimpleNamespace(isActive=False, lastProgress=None, exception=lambda: f"a job failed\n{EXPIRED}")
    stored: Any = SimpleNamespace(id="Q")
    pipeline: Any = None
    around: Any = SimpleNamespace(stop=Event())
    query = RunningQuery(
        stored=stored,
        pipeline=pipeline,
        around=around,
        folder=StorePath(NO_STORE, "s3a://b/c"),
        progress=QueryProgress("Q"),
        execution=failed,
    )
    query.look()
    assert query.failure is not None
    assert query.failure.message == "the checkpoint s3a://b/c cannot be used: its token has expired"
