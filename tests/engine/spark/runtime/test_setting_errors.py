"""A setting of Spark that does not do is named in a sentence, whenever Spark finds out."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping

import pytest
from pyspark.errors import AnalysisException

from kestrel_sql.errors import EngineError
from kestrel_sql.spark.runtime.session import SETTINGS, open_test_session
from kestrel_sql.spark.runtime.setting_errors import open_given, setting_errors

OPEN = """
import sys
from kestrel_sql.errors import EngineError
from kestrel_sql.spark.runtime.setting_errors import open_given
master, *settings = sys.argv[1:]
given = dict(each.split("=", 1) for each in settings)
try:
    print(open_given(master, given, given).range(3).count())
except EngineError as error:
    print(error.message, error.hint, sep="|")
"""


def opened(master: str, settings: Mapping[str, str], before: str = "") -> subprocess.CompletedProcess[str]:
    """Open Spark in a process of its own, after a command of the shell."""
    words = [f"{key}={value}" for key, value in settings.items()]
    command = ["sh", "-c", f'{before}\nexec "$@"', "sh", sys.executable, "-c", OPEN, master, *words]
    return subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)


@pytest.mark.parametrize(
    ("key", "value", "said"),
    [
        ("colour", "red", "unknown Spark setting: colour"),
        ("spark.master", "foo", "--spark-conf cannot set spark.master"),
        ("spark.remote", "sc://h", "--spark-conf cannot set spark.remote"),
        ("spark.sql.ansi.enabled", "true", "spark.sql.ansi.enabled is false in every run"),
        ("spark.sql.session.timeZone", "Mars/Olympus", "is UTC in every run, so --spark-conf cannot set it to Mars"),
        ("spark.jars", "/nowhere/x.jar", "spark.jars names /nowhere/x.jar, which does not exist"),
        ("spark.archives", "hdfs://h/a.zip,file:/nowhere/b.zip#b", "spark.archives names /nowhere/b.zip, which"),
    ],
)
def test_what_spark_would_take_and_not_survive_is_refused_before_it_starts(key: str, value: str, said: str) -> None:
    with pytest.raises(EngineError) as caught:
        open_given("local[1]", {}, {key: value})
    assert said in caught.value.message
    assert caught.value.hint


@pytest.mark.spark
@pytest.mark.parametrize(
    ("key", "value", "said"),
    [
        ("spark.network.timeout", "5 parsecs", "time in SECONDS"),
        ("spark.sql.shuffle.partitions", "abc", "It should be a/an 'int' value"),
        ("spark.sql.streaming.stateStore.maintenanceInterval", "soon", "time in MILLISECONDS"),
        ("spark.executor.memory", "lots", "MiB"),
    ],
)
def test_spark_reads_every_given_setting_at_the_start(key: str, value: str, said: str) -> None:
    open_test_session()
    with pytest.raises(EngineError, match=f"^Spark refuses {key}={value}: .*{said}"):
        open_given("local[2]", {}, {key: value})


@pytest.mark.spark
def test_settings_that_do_are_taken() -> None:
    open_test_session()
    own = {key: SETTINGS[key] for key in ("spark.sql.ansi.enabled", "spark.sql.session.timeZone")}
    more = {"spark.network.timeout": "5min", "spark.hadoop.x": "y", "spark.of.nobody": "z", "spark.jars": __file__}
    assert open_given("local[2]", {}, {**own, **more}).range(2).count() == 2


@pytest.mark.spark
@pytest.mark.parametrize(
    ("master", "settings", "said"),
    [
        (
            "local[1]",
            {"spark.driver.memory": "lots", "spark.ui.enabled": "false"},
            "Spark refuses spark.driver.memory=lots: Invalid maximum heap size: -Xmxlots|",
        ),
        pytest.param(
            "foo",
            {},
            "Spark did not start: Master must either be yarn or start with spark, k8s, or local|check --master foo",
            marks=pytest.mark.nightly,
        ),
        (
            "local[1]",
            {"spark.serializer": "NoSuch"},
            "Spark refuses spark.serializer=NoSuch: ClassNotFoundException: NoSuch|",
        ),
        pytest.param(
            "local[1]",
            {"spark.local.dir": f"{__file__}/x", "spark.hadoop.fs.s3a.secret.key": "hush"},
            "Spark did not start: no folder for temporary files can be made|check --master local[1],"
            f" --spark-conf spark.local.dir={__file__}/x, --spark-conf spark.hadoop.fs.s3a.secret.key",
            marks=pytest.mark.nightly,
        ),
    ],
)
def test_a_jvm_that_does_not_start_shows_no_trace(master: str, settings: Mapping[str, str], said: str) -> None:
    done = opened(master, settings)
    assert (done.stderr, done.returncode) == ("", 0)
    assert done.stdout.startswith(said)
    assert len(done.stdout.splitlines()) == 1


def test_a_jvm_that_may_open_few_files_says_so() -> None:
    done = opened("local[1]", {}, "ulimit -n 100")
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("Spark did not start: ")
    assert done.stdout.endswith("|it may open 100 files and sockets: raise the limit (ulimit -n)\n")


def test_what_a_setting_breaks_later_names_it() -> None:
    given = {"spark.sql.streaming.x": "nope", "spark.hadoop.password": "hush"}
    with pytest.raises(EngineError) as caught, setting_errors(given):
        raise AnalysisException("[NO_CLASS.HERE] There is no class nope for hush. SQLSTATE: 12345")
    named = "spark.sql.streaming.x=nope, spark.hadoop.password"
    assert caught.value.message == f"Spark refuses {named}: There is no class nope for ***"
    with pytest.raises(AnalysisException), setting_errors(given):
        raise AnalysisException("an error of ours")
