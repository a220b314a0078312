"""Runs a small application with its checkpoint on a store, and reads what it wrote."""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.kafka.helpers import read, spark_options, start
from tests.kafka.scenario import LEAN

APP = """
CREATE STREAM S (K STRING KEY, V INT) WITH (KAFKA_TOPIC='{name}_s', VALUE_FORMAT='JSON', PARTITIONS=2);
CREATE TABLE T WITH (KAFKA_TOPIC='{name}_t_{sink}') AS
  SELECT K, COUNT(*) AS N, SUM(V) AS TOTAL FROM S GROUP BY K EMIT CHANGES;
"""
EARLIEST = {"auto.offset.reset": "earliest"}
KEYS, WAIT_S = 5, 600
NOW = int(time.time() * 1000)
"""Records of today: the broker compacts older ones of a table at once (docs/production.md)."""

Rows = list[tuple[bytes | None, bytes | None, int]]


def records(first: int, count: int) -> Iterator[tuple[str, str, int]]:
    return ((f"k{n % KEYS}", json.dumps({"V": n}), NOW + n) for n in range(first, first + count))


def rows(servers: str, topic: str) -> Rows:
    """Keys, values and timestamps; the order holds for each key."""
    return sorted(
        ((key, value, at) for _, key, value, at in read(servers, topic, 2)), key=lambda row: (row[0] or b"", row[2])
    )


@dataclass(frozen=True, slots=True)
class Stored:
    """Runs of an application with its checkpoint on a store."""

    servers: str
    folder: Path
    settings: Mapping[str, str]
    name: str

    def start(self, checkpoint: Path | str, sink: str, *options: str) -> subprocess.Popen[bytes]:
        script = self.folder / f"{sink}.sql"
        script.write_text(APP.format(name=self.name, sink=sink), encoding="utf-8")
        conf = spark_options(self.settings)
        lean = ("--master", "local[2]", "--property", "auto.offset.reset=earliest", "--batch-records", "40")
        return start(script, self.servers, checkpoint, *LEAN, *lean, *conf, *options, log=self.log(sink))

    def log(self, sink: str) -> Path:
        return self.folder / f"{sink}.log"

    def run(self, checkpoint: Path | str, sink: str, *options: str) -> tuple[int, str]:
        code = self.start(checkpoint, sink, *options).wait(WAIT_S)
        return code, " ".join(self.log(sink).read_text(encoding="utf-8").split())

    def await_rows(self, process: subprocess.Popen[bytes], sink: str, count: int) -> None:
        deadline = time.monotonic() + WAIT_S
        while len(rows(self.servers, f"{self.name}_t_{sink}")) < count:
            assert process.poll() is None, self.log(sink).read_text(encoding="utf-8")
            assert time.monotonic() < deadline, self.log(sink).read_text(encoding="utf-8")
            time.sleep(0.2)

    def outputs(self, sinks: Sequence[str]) -> list[Rows]:
        return [rows(self.servers, f"{self.name}_t_{sink}") for sink in sinks]
