"""Tests a run on YARN, with its checkpoint on HDFS, and what it says of a ResourceManager that is not there."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from kestrel_sql.kafka.broker.broker import Broker
from kestrel_sql.kafka.client.config import KafkaConfig
from tests.kafka.cluster import options, show
from tests.kafka.hdfs import hdfs_cluster
from tests.kafka.helpers import run
from tests.kafka.processes import end, executors
from tests.kafka.yarn import MANAGER, SETTINGS, Yarn, configure, yarn_cluster

pytestmark = [pytest.mark.spark, pytest.mark.nightly]

APP = """
CREATE STREAM S (K STRING KEY, V INT) WITH (KAFKA_TOPIC='yarn_s', VALUE_FORMAT='JSON', PARTITIONS=1);
CREATE STREAM F WITH (KAFKA_TOPIC='yarn_f') AS SELECT * FROM S WHERE V > 1;
"""


@pytest.fixture
def hdfs(tmp_path: Path) -> Iterator[str]:
    with hdfs_cluster(tmp_path) as uri:
        yield uri


@pytest.fixture
def yarn(hdfs: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Yarn]:
    with yarn_cluster(tmp_path / "yarn", hdfs) as cluster:
        monkeypatch.setenv("HADOOP_CONF_DIR", str(cluster.configuration))
        yield cluster


def test_a_run_outlives_an_executor_and_its_driver(
    connector: None, hdfs: str, yarn: Yarn, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    given = options("yarn", SETTINGS)

    def strike() -> None:
        # The first one of a container is the shell around its JVM; YARN ends the rest.
        assert end(next(each for node in yarn.nodes for each in executors(node)))

    with Broker.start() as broker:
        code = show(broker.address, tmp_path, f"{hdfs}/kestrel/app", given, "the container of an executor", strike)
    assert code == 0, capsys.readouterr().out
    assert [*tmp_path.glob("yarn/node*/local/**/kestrel_sql/kafka/sink/sink.py")], "the engine has not travelled"


def test_a_cluster_that_is_not_there_is_named_with_what_to_do(
    kafka: KafkaConfig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "app.sql").write_text(APP, encoding="utf-8")
    words = ("--master", "yarn", "--patience", "3")
    for name in ("HADOOP_CONF_DIR", "YARN_CONF_DIR"):
        monkeypatch.delenv(name, raising=False)
    nameless = run(tmp_path / "app.sql", kafka.servers, tmp_path / "checkpoint", *words)
    said = " ".join(nameless.stderr.split())
    assert (nameless.returncode, "HADOOP_CONF_DIR or YARN_CONF_DIR must be set" in said) == (1, True), said
    address = configure(tmp_path / "conf", "file:///")[MANAGER]
    monkeypatch.setenv("HADOOP_CONF_DIR", str(tmp_path / "conf"))
    absent = run(tmp_path / "app.sql", kafka.servers, tmp_path / "checkpoint", *words)
    said = " ".join(absent.stderr.split())
    assert f"YARN's ResourceManager {address} does not answer; waiting for it up to 3 s" in said
    assert f"yarn-site.xml in HADOOP_CONF_DIR ({tmp_path / 'conf'}) names its address" in said
    assert (absent.returncode, "Traceback" in said) == (1, False), said
