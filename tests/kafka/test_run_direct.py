"""Queries without state over a broker: their tasks read and write, and commit what they have read (ADR 47)."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from kestrel_sql.kafka.direct import DirectBatches
from kestrel_sql.kafka.run.manifest import CheckpointFolder
from kestrel_sql.kafka.source.reading import Reading
from kestrel_sql.spark.checkpoint.batch_log import numbered
from tests.kafka.applications import Applications
from tests.kafka.helpers import create, produce, read

pytestmark = pytest.mark.spark

PARTITIONS = 3

FILTER = """
    CREATE STREAM S (K STRING KEY, V INT) WITH (KAFKA_TOPIC='{0}_s', VALUE_FORMAT='JSON');
    CREATE STREAM A WITH (KAFKA_TOPIC='{0}_a') AS SELECT K, V * 2 AS V FROM S WHERE V >= 10;
"""
LOOP = """
    CREATE STREAM S (K STRING KEY, V INT) WITH (KAFKA_TOPIC='{0}_s', VALUE_FORMAT='JSON');
    INSERT INTO S SELECT K, V + 1 AS V FROM S WHERE V < 3;
"""


def repeat_last_batch(checkpoint: Path) -> None:
    """Let Spark begin its last batch again, as after a process that died before Spark had committed it."""
    folder = CheckpointFolder(checkpoint)
    (query,) = folder.load().queries.values()
    assert query.reading == Reading.DIRECT
    commits = Path(str(folder.folder_of(query))) / "commits"
    last = numbered(commits)[-1]
    for name in (f"{last}", f".{last}.crc"):
        (commits / name).unlink()


def values(servers: str, topic: str) -> list[str]:
    return sorted((value or b"").decode() for _, _, value, _ in read(servers, topic, PARTITIONS))


@pytest.mark.parametrize("begun_by_sink", [False, True], ids=["by a task", "by the sink of an earlier release"])
def test_a_batch_that_is_repeated_is_not_written_again(
    applications: Applications, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, begun_by_sink: bool
) -> None:
    name, servers = f"direct{time.time_ns()}", applications.config.servers
    create(servers, PARTITIONS, f"{name}_s")
    produce(servers, f"{name}_s", ((f"k{at % 7}", f'{{"V":{at}}}', at + 1) for at in range(40)))
    script, checkpoint = FILTER.format(name), tmp_path / "checkpoint"
    with monkeypatch.context() as patched:
        if begun_by_sink:
            patched.setattr(DirectBatches, "is_begun_by_sink", lambda *_: True)
        assert applications.catch_up(script, checkpoint).well
    expected = values(servers, f"{name}_a")
    assert len(expected) == 30
    repeat_last_batch(checkpoint)
    assert applications.catch_up(script, checkpoint).well
    assert values(servers, f"{name}_a") == expected
    produce(servers, f"{name}_s", [("k1", '{"V":100}', 41)])
    done = applications.catch_up(script, checkpoint)
    assert done.said[-1] == "CSAS_A_0: 1 record read, 1 written, 0 bad"
    assert len(read(servers, f"{name}_a", PARTITIONS)) == 31


def test_a_query_that_writes_the_topic_it_reads_repeats_nothing(applications: Applications, tmp_path: Path) -> None:
    name, servers = f"loop{time.time_ns()}", applications.config.servers
    create(servers, PARTITIONS, f"{name}_s")
    produce(servers, f"{name}_s", ((f"k{at}", '{"V":0}', at + 1) for at in range(5)))
    checkpoint, counts = tmp_path / "checkpoint", []
    for _ in range(4):
        assert applications.catch_up(LOOP.format(name), checkpoint).well
        counts.append(len(read(servers, f"{name}_s", PARTITIONS)))
        repeat_last_batch(checkpoint)
    assert counts[-1] == 20, counts
    assert values(servers, f"{name}_s") == sorted(f'{{"V":{value}}}' for value in range(4) for _ in range(5))
