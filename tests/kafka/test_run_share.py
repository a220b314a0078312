"""Tests queries that share a source: their outputs, what stays apart, and those that come and go."""

from __future__ import annotations

import json
import os
import random
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest
from confluent_kafka import Producer
from pyspark.sql import SparkSession

from kestrel_sql.functions.table import FUNCTIONS
from kestrel_sql.kafka.client.config import KafkaConfig
from kestrel_sql.kafka.run.manifest import CheckpointFolder, StoredQuery
from kestrel_sql.kafka.run.stored_queries import stored_queries
from kestrel_sql.kafka.source.reading import Reading
from kestrel_sql.spark.checkpoint.batch_log import numbered
from tests.kafka.applications import Applications, Run
from tests.kafka.helpers import create, produce, read
from tests.kafka.processes import ending, kill
from tests.kafka.scenario import PARTITIONS, Scenario

pytestmark = pytest.mark.spark

SOURCES = """
CREATE STREAM S (K STRING KEY, N INT) WITH (KAFKA_TOPIC='{0}_s', VALUE_FORMAT='JSON');
CREATE STREAM R (K STRING KEY, N INT) WITH (KAFKA_TOPIC='{0}_r', VALUE_FORMAT='JSON');
"""
QUERIES = {
    "odd": "CREATE STREAM ODD WITH (KAFKA_TOPIC='{0}_odd') AS SELECT K, N * 2 AS N FROM S WHERE N <> 2;",
    "large": "CREATE STREAM LARGE WITH (KAFKA_TOPIC='{0}_large') AS SELECT K, N FROM S WHERE N > 1;",
    "other": "CREATE STREAM OTHER WITH (KAFKA_TOPIC='{0}_other') AS SELECT * FROM R WHERE N > 1;",
    "length": "CREATE STREAM LENGTH WITH (KAFKA_TOPIC='{0}_length') AS SELECT K, LEN(K) AS N FROM S;",
    "count": "CREATE TABLE COUNTS WITH (KAFKA_TOPIC='{0}_count') AS SELECT K, COUNT(*) AS N FROM S GROUP BY K;",
}
KILLS = int(os.environ.get("KESTREL_KILLS", "4"))


@dataclass(frozen=True)
class Trial:
    """Starts scripts of some queries with one checkpoint, and reads what they write."""

    applications: Applications
    name: str
    folder: Path

    def feed(self, *numbers: int) -> None:
        rows = [("k", json.dumps({"N": number}), int(time.time() * 1000)) for number in numbers]
        produce(self.applications.config.servers, f"{self.name}_s", rows)

    def start(self, *queries: str, share: bool = True) -> Run:
        text = SOURCES + "\n".join(QUERIES[query] for query in queries)
        return self.applications.catch_up(text.format(self.name), self.folder, share_sources=share)

    def values(self, sink: str) -> list[int]:
        rows = read(self.applications.config.servers, f"{self.name}_{sink}", 1)
        return [json.loads(value or b"")["N"] for _, _, value, _ in rows]

    @property
    def stored(self) -> dict[str, StoredQuery]:
        """The queries of the checkpoint, by id."""
        return {query.id: query for query in CheckpointFolder(self.folder).load().queries.values()}


@pytest.fixture
def trial(applications: Applications, tmp_path: Path) -> Trial:
    name = f"share{time.time_ns()}"
    create(applications.config.servers, 1, f"{name}_s", f"{name}_r")
    return Trial(applications, name, tmp_path)


def test_new_queries_of_one_topic_without_state_share_its_source(trial: Trial, tmp_path: Path) -> None:
    trial.feed(1, 2, 3)
    produce(trial.applications.config.servers, f"{trial.name}_s", [("k", "no JSON", 1_700_000_000_000)])
    done = trial.start(*QUERIES)
    assert done.well, done.text
    shared = f"SHARED_1_1_{trial.name}_s"
    assert {query: stored.shared for query, stored in trial.stored.items()} == {
        "CSAS_ODD_0": shared,
        "CSAS_LARGE_1": shared,
        "CSAS_OTHER_2": "",
        "CSAS_LENGTH_3": shared,
        "CTAS_COUNTS_4": "",
    }
    assert done.reported[-1].endswith(
        f": {shared} (CSAS_ODD_0, CSAS_LARGE_1, CSAS_LENGTH_3), CSAS_OTHER_2, CTAS_COUNTS_4"
    )
    assert list(done.states) == [shared, "CSAS_OTHER_2", "CTAS_COUNTS_4"]
    assert (done.states[shared].rows_in, done.states[shared].rows_out) == (4, 7)
    assert done.states[shared].bad_records == 3, "each query counts a record that it cannot read"
    opened = stored_queries(tmp_path, FUNCTIONS)
    assert [(query.id, len(query.steps)) for query in opened] == [
        ("CSAS_ODD_0", 0),
        ("CSAS_LARGE_1", 0),
        ("CSAS_OTHER_2", 0),
        ("CSAS_LENGTH_3", 0),
        ("CTAS_COUNTS_4", 1),
    ]
    found = {sink: trial.values(sink) for sink in QUERIES}
    assert found == {"odd": [2, 6], "large": [2, 3], "other": [], "length": [1, 1, 1], "count": [1, 2, 3]}


def test_a_shared_source_merges_partitions_where_keys_lie_elsewhere(applications: Applications, tmp_path: Path) -> None:
    name, servers = f"share{time.time_ns()}", applications.config.servers
    create(servers, 2, f"{name}_s", f"{name}_r")
    producer = Producer({"bootstrap.servers": servers, "enable.idempotence": True})
    # The partitions hold different numbers of records, so that offsets do not sort by time.
    for at in range(90):
        producer.produce(f"{name}_s", json.dumps({"N": at + 3}), f"k{at % 7}", int(at % 3 == 0), timestamp=at + 1)
    assert producer.flush(30) == 0
    trial = Trial(applications, name, tmp_path)
    assert trial.start("odd", "large").well
    assert {stored.reading for stored in trial.stored.values()} == {Reading.MERGED}
    for sink in ("odd", "large"):
        rows = read(servers, f"{name}_{sink}", 2)
        for partition in range(2):
            times = [timestamp for at, _, _, timestamp in rows if at == partition]
            assert times == sorted(times)
        assert len(rows) == 90


def test_a_query_that_leaves_goes_on_where_it_was(trial: Trial) -> None:
    trial.feed(1, 2)
    assert trial.start("odd", "large").well
    trial.feed(3)
    done = trial.start("odd")
    assert done.well
    assert "CSAS_LARGE_1 is in the checkpoint but not in the script" in done.text
    trial.feed(4)
    done = trial.start("odd", "large")
    assert (done.well, [*done.states]) == (True, [f"SHARED_1_1_{trial.name}_s", "CSAS_LARGE_1"]), done.text
    assert trial.values("odd") == [2, 6, 8]
    assert trial.values("large") == [2, 3, 4], "it has read what came meanwhile, once"
    assert not trial.stored["CSAS_LARGE_1"].shared


def test_without_the_option_queries_part(trial: Trial) -> None:
    trial.feed(1, 2)
    assert trial.start("odd", "large").well
    trial.feed(3)
    done = trial.start("odd", "large", share=False)
    assert (done.well, sorted(done.states)) == (True, ["CSAS_LARGE_1", "CSAS_ODD_0"]), done.text
    assert trial.values("odd") == [2, 6]
    assert trial.values("large") == [2, 3]


def test_queries_part_only_behind_a_whole_batch(trial: Trial) -> None:
    trial.feed(1, 2, 3)
    assert trial.start("odd", "large").well
    commits = CheckpointFolder(trial.folder).folder_of(trial.stored["CSAS_ODD_0"]) / "commits"
    last = numbered(commits)[-1]
    for name in (f"{last}", f".{last}.crc"):
        (commits / name).unlink()
    for queries, share in ((["odd"], True), (["odd", "large"], False)):
        refused = trial.start(*queries, share=share)
        assert not refused.well
        assert "shares its source with other queries, which have begun a batch" in refused.text
        assert "start once more as before, with --share-sources" in refused.text
    assert trial.start("odd", "large").well
    assert trial.start("large").well
    assert trial.values("odd") == [2, 6], "a batch that is done again is not written again"
    assert trial.values("large") == [2, 3]


@pytest.mark.nightly
def test_kills_lose_and_repeat_nothing(kafka: KafkaConfig, spark: SparkSession, tmp_path: Path) -> None:
    scenario = Scenario(kafka.servers, f"share{time.time_ns()}", tmp_path, 600, int(time.time()) * 1000, ("f", "u"))
    scenario.produce()
    scenario.finish("quiet", spark)
    expected, random_ = scenario.outputs("quiet"), random.Random(1)
    for _ in range(KILLS):
        with ending(scenario.start("run", "--share-sources")) as process:
            _await_more(scenario, random_.uniform(0, 1))
            kill(process)
    with ending(scenario.start("run", "--share-sources")) as process:
        scenario.await_outputs("run", process, expected)
    assert scenario.outputs("run") == expected
    assert len({query.shared for query in CheckpointFolder(tmp_path / "run").load().queries.values()}) == 1


def _await_more(scenario: Scenario, seconds: float) -> None:
    """Wait until the run has written more than before, and then a while."""
    sinks: Sequence[str] = [f"{scenario.name}_{sink}run" for sink in scenario.sinks]
    before, deadline = None, time.monotonic() + 60
    while time.monotonic() < deadline:
        count = sum(len(read(scenario.servers, topic, PARTITIONS)) for topic in sinks)
        if before is not None and count > before:
            break
        before = count if before is None else before
        time.sleep(0.1)
    time.sleep(seconds)
