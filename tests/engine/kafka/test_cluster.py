"""Tests what a run on a cluster sets and ships, without executors: they import the engine from what has travelled."""

from __future__ import annotations

import os
import sys
import zipfile
from collections.abc import Mapping
from importlib.machinery import PathFinder
from pathlib import Path
from typing import Any

import pytest

from kestrel_sql.errors import EngineError
from kestrel_sql.kafka.client.config import KafkaConfig
from kestrel_sql.kafka.cluster import packaging
from kestrel_sql.kafka.cluster.cluster import INSTALLED, cluster_settings
from kestrel_sql.kafka.connector import store
from kestrel_sql.kafka.connector.jars import Jars
from kestrel_sql.kafka.run import broker_session
from kestrel_sql.kafka.run.run import RunSettings, StoreUri
from kestrel_sql.spark.runtime.environment import prepare_master, quiet_folder

CONFIG = KafkaConfig(servers="b:1")
PATH = "spark.executorEnv.PYTHONPATH"


CHANGELOGS = "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled"


@pytest.fixture
def needed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The only file of a dependency; the real ones have 200 MB."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("PYTHONPATH", "/of/the/user")
    file = tmp_path / "needed.py"
    file.write_text("old", encoding="utf-8")
    monkeypatch.setattr(packaging, "_needed_files", lambda: [("needed.py", file)])
    return file


def test_executors_find_the_engine_and_its_needs_in_what_is_shipped(needed: Path, tmp_path: Path) -> None:
    settings = cluster_settings("spark://h:1", {"spark.archives": "mine.zip", PATH: "mine"})
    *shipped, mine = settings["spark.archives"].split(",")
    for path, _, folder in (each.partition("#") for each in shipped):
        with zipfile.ZipFile(path) as archive:
            archive.extractall(tmp_path / "executor" / folder)
    assert mine == "mine.zip"
    places = [str(tmp_path / "executor" / folder) for folder in settings[PATH].split(os.pathsep)]
    assert places[-1].endswith("/mine")
    engine = PathFinder.find_spec("kestrel_sql", places)
    assert engine is not None
    assert PathFinder.find_spec("needed", places) is not None
    (package,) = engine.submodule_search_locations or ()
    assert (Path(package) / "kafka" / "sink" / "sink.py").exists()


def test_workers_beside_the_driver_are_quiet_and_find_the_engine(needed: Path) -> None:
    cluster_settings("spark://h:1", {})
    first, *others = os.environ["PYTHONPATH"].split(os.pathsep)
    assert first == str(quiet_folder())
    assert PathFinder.find_spec("kestrel_sql", others) is not None
    assert others[-1] == "/of/the/user"


def test_a_file_that_changed_without_another_size_is_packed_anew(needed: Path) -> None:
    (_, old), (_, same) = packaging.archives(), packaging.archives()
    needed.write_text("new", encoding="utf-8")
    os.utime(needed, ns=(1, 1))
    (_, new) = packaging.archives()
    assert old == same
    assert zipfile.ZipFile(new).read("needed.py") == b"new"


@pytest.mark.parametrize(
    ("file", "travels"),
    [
        ("pyspark/sql/session.py", True),
        ("pyspark/worker.py", True),
        ("pyarrow/lib.so", True),
        ("pyspark/jars/spark.jar", False),
        ("pandas/tests/test_a.py", False),
        ("../../bin/f2py", False),
    ],
)
def test_only_what_an_executor_imports_travels(file: str, travels: bool) -> None:
    assert (packaging._NO_PYTHON.search(file) is None) is travels


def test_a_python_that_a_user_names_is_that_of_the_workers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYSPARK_PYTHON", sys.executable)
    monkeypatch.setenv("SPARK_LOCAL_IP", "127.0.0.1")
    prepare_master("spark://h:1", "/other/python")
    assert os.environ["PYSPARK_PYTHON"] == "/other/python"


def test_spark_ships_no_pyspark_zip_to_yarn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYSPARK_ARCHIVES_PATH", "")
    monkeypatch.delenv("PYSPARK_ARCHIVES_PATH")
    assert cluster_settings("yarn", {INSTALLED: "true"}) == {}
    (shipped,) = map(Path, os.environ["PYSPARK_ARCHIVES_PATH"].split(","))
    assert (shipped.exists(), shipped.name.startswith("py4j-")) == (True, True)


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """The settings of a session, which is not opened."""
    found: dict[str, str] = {}

    def open_given(master: str, settings: Mapping[str, str], *_: Any) -> Any:
        found.update(settings)
        raise KeyboardInterrupt

    monkeypatch.setattr(broker_session, "connector_jars", lambda: Jars((Path("/kafka.jar"),)))
    monkeypatch.setattr(store, "s3_jars", lambda: Jars((Path("/s3.jar"),)))
    monkeypatch.setattr(broker_session, "cluster_settings", lambda master, given: {"shipped.to": master})
    monkeypatch.setattr(broker_session, "open_given", open_given)
    return found


def open_session(checkpoint: Path | StoreUri, *, until_caught_up: bool = False, **given: str) -> None:
    settings = RunSettings(
        config=CONFIG, checkpoint=checkpoint, master="spark://h:1", spark=given, until_caught_up=until_caught_up
    )
    with pytest.raises(KeyboardInterrupt):
        broker_session.open_for_brokers(settings, print)


def test_a_run_on_a_cluster_ships_the_engine_and_waits_by_no_time_of_day(opened: dict[str, str]) -> None:
    open_session(Path("folder"))
    assert opened["shipped.to"] == "spark://h:1"
    # A trigger with an interval stands still when the clock is set back.
    assert opened["spark.sql.streaming.pollingDelay"]


def test_tasks_that_run_twice_are_refused(opened: dict[str, str]) -> None:
    settings = RunSettings(config=CONFIG, checkpoint=Path("folder"), spark={"spark.speculation": "true"})
    with pytest.raises(EngineError, match=r"spark\.speculation cannot be on"):
        broker_session.open_for_brokers(settings, print)
    assert not opened


def test_a_run_that_ends_by_itself_writes_archives_of_state_instead_of_changelogs(opened: dict[str, str]) -> None:
    open_session(Path("folder"))
    assert opened[CHANGELOGS] == "true"
    open_session(Path("folder"), until_caught_up=True)
    assert opened[CHANGELOGS] == "false"
    open_session(Path("folder"), until_caught_up=True, **{CHANGELOGS: "true"})
    assert opened[CHANGELOGS] == "true"


def test_a_run_on_s3_has_its_jars_and_a_file_manager_that_does_not_rename(opened: dict[str, str]) -> None:
    open_session(StoreUri("s3a://b/c"), **{"spark.jars": "mine.jar"})
    kafka, s3, mine = opened["spark.jars"].split(",")
    assert (kafka.endswith("kafka.jar"), s3.endswith("s3.jar"), mine) == (True, True, "mine.jar")
    assert "Abortable" in opened["spark.sql.streaming.checkpointFileManagerClass"]


def test_a_run_on_hdfs_waits_for_it_as_long_as_for_a_broker(opened: dict[str, str]) -> None:
    open_session(StoreUri("hdfs://n/c"))
    pause, times = map(int, opened["spark.hadoop.dfs.client.retry.policy.spec"].split(","))
    assert pause * times >= 1000 * RunSettings(config=CONFIG, checkpoint=Path()).patience
    assert "FileContext" in opened["spark.sql.streaming.checkpointFileManagerClass"]
