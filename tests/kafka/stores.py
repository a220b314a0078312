"""The stores of tests: an S3 API or HDFS, with a way to it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from tests.kafka.hdfs import hdfs_cluster
from tests.kafka.s3 import s3_server

KINDS = ("s3", "hdfs")
BUCKET = "bucket"


@dataclass(frozen=True, slots=True)
class Way:
    """A way to a store: the URI of its root and the settings of Spark that reach it."""

    uri: str
    settings: Mapping[str, str] = field(default_factory=dict)


@contextmanager
def store_of(kind: str, folder: Path) -> Iterator[Way]:
    """Run a store until the end of the block; HDFS keeps its files in `folder`."""
    assert kind in KINDS, f"{kind} is none of {KINDS}"
    if kind == "hdfs":
        with hdfs_cluster(folder) as uri:
            yield Way(uri)
    else:
        with s3_server() as server:
            server.make_bucket(BUCKET)
            yield Way(f"s3a://{BUCKET}", server.settings)
