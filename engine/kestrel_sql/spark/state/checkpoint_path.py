"""How the files of a checkpoint are reached: `pathlib.Path` for a folder, Hadoop's file systems for a store.

`StorePath` has the part of `Path` that checkpoints need, so that what reads and writes a checkpoint knows one kind of
path.
"""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import cached_property
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, TypeVar

import msgspec
from py4j.protocol import Py4JError, Py4JJavaError, Py4JNetworkError
from pyspark.sql import SparkSession

from kestrel_sql.errors import EngineError
from kestrel_sql.spark.runtime.jvm import Java
from kestrel_sql.spark.state.store_errors import statuses, store_error

_T = TypeVar("_T")
_MISSING = "java.io.FileNotFoundException"
_EXISTS = (
    "org.apache.hadoop.fs.FileAlreadyExistsException",
    "org.apache.hadoop.fs.s3a.RemoteFileChangedException",
)
"""What a file system throws when a file that must not exist does, or is not the one that was opened."""

_DIFFERENT = "org.apache.hadoop.fs.ChecksumException"
"""What a folder throws when a file is replaced while it is read, as its checksum is another file, or is damaged."""

_CONDITION_FAILED = 412
"""The status with which S3 refuses a conditional write, and reading on in a file that was replaced meanwhile."""

_READS = 10
"""How often a file that is replaced while it is read is read again."""

_MANAGER = "spark.sql.streaming.checkpointFileManagerClass"
_CHECKPOINTING = "org.apache.spark.sql.execution.streaming.checkpointing"
_ABORTABLE = "org.apache.spark.internal.io.cloud.AbortableStreamBasedCheckpointFileManager"
_RENAMING = f"{_CHECKPOINTING}.FileContextBasedCheckpointFileManager"
_PARTITIONS = "spark.sql.shuffle.partitions"

_CONDITIONAL = "fs.option.create.conditional.overwrite"

_IMPATIENT = {
    "fs.s3a.attempts.maximum": "1",
    "fs.s3a.retry.limit": "1",
    "fs.s3a.retry.throttle.limit": "1",
    "fs.s3a.connection.establish.timeout": "5s",
    "fs.s3a.connection.timeout": "10s",
    "ipc.client.connect.max.retries": "1",
    "ipc.client.connect.max.retries.on.timeouts": "1",
    "ipc.client.connect.timeout": "5000",
    "dfs.client.failover.max.attempts": "2",
    "dfs.client.retry.max.attempts": "1",
    "dfs.client.retry.policy.enabled": "false",
}
"""Settings of the first look at a store: one that is wrongly configured is to be reported within seconds."""


def manager_settings(uri: str) -> dict[str, str]:
    """Return the setting of Spark for the checkpoint file manager that fits a store."""
    # On S3 an object appears when it is complete, and a rename would copy it. Elsewhere a rename is atomic, also over a
    # file that exists, if it goes through Hadoop's FileContext.
    in_s3 = uri.startswith("s3a:")
    return {_MANAGER: _ABORTABLE if in_s3 else _RENAMING}


def folder_session(spark: SparkSession) -> SparkSession:
    """Return a session whose queries have their checkpoints in local folders, where the manager for S3 fails."""
    if spark.conf.get(_MANAGER, None) != _ABORTABLE:
        return spark
    own = spark.newSession()
    # A new session has what Spark was started with, and not what was set later.
    for name, value in ((_MANAGER, _RENAMING), (_PARTITIONS, spark.conf.get(_PARTITIONS))):
        own.conf.set(name, value or "")
    return own


class Store:
    """The file system of a URI, reached through a JVM with Spark's jars."""

    def __init__(self, jvm: Java, uri: str, conf: Callable[[], Java]) -> None:
        """Use the configuration of Hadoop that `conf` makes anew; nothing is asked of the store."""
        self._jvm = jvm
        self._uri = uri
        self._conf = conf

    def check(self, *, writes: bool) -> None:
        """Look at the store once; `writes` makes the folder.

        Raises:
            EngineError: it does not answer, has no such bucket, or refuses the credentials.
        """
        conf = self._conf()
        for name, value in _IMPATIENT.items():
            conf.set(name, value)
        path = self.path(self._uri)
        try:
            files = self._jvm.org.apache.hadoop.fs.FileSystem.newInstance(path.toUri(), conf)
            try:
                files.exists(path)
                if writes:
                    files.mkdirs(path)
            finally:
                files.close()
        except Py4JJavaError as error:
            raise store_error(self._uri, error) from error

    def path(self, uri: str) -> Java:
        """Return a path of Hadoop."""
        return self._jvm.org.apache.hadoop.fs.Path(uri)

    @cached_property
    def files(self) -> Java:
        """Hadoop's file system."""
        return self.path(self._uri).getFileSystem(self._conf())

    @cached_property
    def manager(self) -> Java:
        """Spark's checkpoint file manager, which writes whole files only."""
        conf = self._conf()
        for name, value in manager_settings(self._uri).items():
            conf.set(name, value)
        checkpointing = self._jvm.org.apache.spark.sql.execution.streaming.checkpointing
        return checkpointing.CheckpointFileManager.create(self.path(self._uri), conf)


class StorePath(msgspec.Struct, frozen=True):
    """A file or folder of a store, by its URI; its methods raise OSError as those of `Path` do."""

    store: Store
    uri: str

    def __str__(self) -> str:
        return self.uri

    def __truediv__(self, name: str) -> StorePath:
        return StorePath(self.store, f"{self.uri.rstrip('/')}/{name}")

    @property
    def name(self) -> str:
        """The last part."""
        return self.uri.rstrip("/").rpartition("/")[2]

    @property
    def parent(self) -> StorePath:
        """The folder that it is in."""
        return StorePath(self.store, self.uri.rstrip("/").rpartition("/")[0])

    def exists(self) -> bool:
        """Whether it is there."""
        return bool(self._do(lambda files, path: files.exists(path)))

    def is_dir(self) -> bool:
        """Whether it is a folder."""
        return self.exists() and bool(self._do(lambda files, path: files.getFileStatus(path).isDirectory()))

    def iterdir(self) -> Iterator[StorePath]:
        """Return what is in the folder."""
        names = self._do(lambda files, path: [str(each.getPath().getName()) for each in files.listStatus(path)])
        return (self / name for name in names)

    def is_file(self) -> bool:
        """Whether it is there and no folder."""
        return self.exists() and not self.is_dir()

    def size(self) -> int:
        """Return its number of bytes."""
        return self._do(lambda files, path: int(files.getFileStatus(path).getLen()))

    def fetch(self, target: Path) -> None:
        """Copy the file or folder into a local one."""
        local = self.store.path(hadoop_uri(target))
        self._do(lambda files, path: files.copyToLocalFile(False, path, local, True))

    def put(self, source: Path) -> None:
        """Copy a local file or folder to this place, where nothing must be."""
        local = self.store.path(hadoop_uri(source))
        self._do(lambda files, path: files.copyFromLocalFile(False, True, local, path))

    def mkdir(self, *, parents: bool, exist_ok: bool) -> None:
        """Make the folder and those above it; stores that have no folders do nothing."""
        self._do(lambda files, path: files.mkdirs(path))

    def read_bytes(self) -> bytes:
        """Read the file."""

        def read(files: Java, path: Java) -> bytes:
            stream = files.open(path)
            try:
                return bytes(stream.readAllBytes())
            finally:
                stream.close()

        for _ in range(_READS):
            with suppress(FileExistsError):
                return self._do(read)
        raise OSError(errno.EIO, f"{self.uri} cannot be read: it keeps being replaced, or is damaged", self.uri)

    def read_text(self, encoding: str) -> str:
        """Read the file as text."""
        return self.read_bytes().decode(encoding)

    def write_whole(self, data: bytes) -> None:
        """Replace the file at once."""

        def write(_: object, path: Java) -> None:
            stream = self.store.manager.createAtomic(path, True)
            try:
                stream.write(bytearray(data))
            except Py4JError:
                stream.cancel()
                raise
            stream.close()

        self._do(write)

    def create(self, data: bytes) -> bool:
        """Write the file unless it exists, which the store decides; return whether it was written."""

        def write(files: Java, path: Java) -> None:
            builder = files.createFile(path).recursive().overwrite(False)
            if self.uri.startswith("s3a:"):
                # Without the option S3A looks first and then writes, which two runs may do at once.
                builder = builder.must(_CONDITIONAL, True)
            stream = builder.build()
            stream.write(bytearray(data))
            stream.close()

        try:
            self._do(write)
        except FileExistsError:
            return False
        return True

    def unlink(self) -> None:
        """Delete the file."""
        self._do(lambda files, path: files.delete(path, False))

    def remove(self) -> None:
        """Delete the file or folder with all that is in it, if it is there."""
        self._do(lambda files, path: files.delete(path, True))

    def _do(self, what: Callable[[Java, Java], _T]) -> _T:
        try:
            return what(self.store.files, self.store.path(self.uri))
        except Py4JNetworkError as error:
            raise OSError(errno.EIO, f"{self.uri} cannot be reached: Spark has ended") from error
        except Py4JJavaError as error:
            kind = error.java_exception.getClass().getName()
            if kind == _MISSING:
                raise FileNotFoundError(errno.ENOENT, "No such file", self.uri) from error
            if kind == _DIFFERENT:
                raise FileExistsError(errno.EEXIST, f"{self.uri} is damaged: its checksum differs", self.uri) from error
            if kind in _EXISTS or _CONDITION_FAILED in statuses(error):
                raise FileExistsError(errno.EEXIST, "File exists", self.uri) from error
            raise OSError(errno.EIO, store_error(self.uri, error).message) from error


CheckpointPath = Path | StorePath
"""A file or folder of a checkpoint."""


def uri_of(path: CheckpointPath) -> str:
    """Return the URI by which Spark reaches a folder."""
    return path.uri if isinstance(path, StorePath) else hadoop_uri(path.resolve())


@contextmanager
def plain_name(path: CheckpointPath) -> Iterator[CheckpointPath]:
    """Name a folder as all of Spark finds it: its reader of state would look for the escapes of `%` or a blank."""
    if isinstance(path, StorePath) or path.absolute().as_uri() == hadoop_uri(path):
        yield path
        return
    with TemporaryDirectory(prefix="kestrel-") as folder:
        link = Path(folder) / "checkpoint"
        link.symlink_to(path.absolute())
        yield link


def hadoop_uri(path: Path) -> str:
    """Return the URI of a local file for Hadoop, which takes an escape such as `%20` for the name of the file."""
    return f"file://{path.absolute()}"


def write_whole(path: CheckpointPath, text: str) -> None:
    """Replace a file atomically.

    Raises:
        OSError: it cannot be written.
    """
    if isinstance(path, StorePath):
        path.write_whole(text.encode())
        return
    fresh = path.with_name(f"{path.name}.new")
    with fresh.open("w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    fresh.replace(path)


def remove_folder(path: CheckpointPath) -> None:
    """Delete a folder with all that is in it, if it is there.

    Raises:
        OSError: a part of it cannot be deleted.
    """
    if isinstance(path, StorePath):
        path.remove()
    elif path.exists():
        shutil.rmtree(path)


def create_new(path: CheckpointPath, text: str) -> bool:
    """Write a file unless it exists, atomically; return whether it was written.

    Raises:
        OSError: it cannot be written.
    """
    if isinstance(path, StorePath):
        return path.create(text.encode())
    try:
        with path.open("x", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError:
        return False
    return True


def open_store(spark: SparkSession, uri: str) -> StorePath:
    """Return the root of a checkpoint on a store, which answers and is writable.

    Raises:
        EngineError: it does not answer, has no such bucket, or refuses the credentials.
    """
    if spark._jvm is None:
        raise EngineError("Spark has no JVM in this process")
    session: Any = spark._jsparkSession
    store = Store(spark._jvm, uri, lambda: session.sessionState().newHadoopConf())
    store.check(writes=True)
    return StorePath(store, uri.rstrip("/"))
