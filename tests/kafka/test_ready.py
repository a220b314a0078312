"""Tests `kestrel prepare`, which writes an archive of classes for the JVM atomically."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest

from kestrel_sql.cli.main import ExitCode, main
from kestrel_sql.errors import EngineError
from kestrel_sql.kafka.connector import prepare as ready
from kestrel_sql.kafka.connector.jars import Jars, connector_jars

OPEN = """
import sys
from kestrel_sql.spark.runtime.session import open_session
options = f"-Xshare:on -XX:SharedArchiveFile={sys.argv[1]} -Xlog:class+load:file={sys.argv[2]}"
open_session("local[1]", {"spark.driver.extraJavaOptions": options}).stop()
"""


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the archive is made: in the working directory, so that a test sees what else is written there."""
    place = tmp_path / "classes.jsa"
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(ready, "archive_path", lambda: place)
    return place


def run_by(run: Callable[..., object], monkeypatch: pytest.MonkeyPatch) -> None:
    """Let `run` stand for the session that makes the archive, and for nothing else that starts a process."""
    monkeypatch.setattr(ready, "connector_jars", lambda: Jars(()))
    monkeypatch.setattr(ready, "make_base", lambda _: None)
    monkeypatch.setattr(ready, "subprocess", SimpleNamespace(run=run, TimeoutExpired=subprocess.TimeoutExpired))


@pytest.mark.spark
@pytest.mark.nightly
def test_what_is_prepared_is_what_a_session_loads(
    path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    try:
        connector_jars()
    except EngineError as error:
        if os.environ.get("CI") == "true":
            raise
        pytest.skip(f"no jars: {error.message}")
    assert main(["prepare"]) == ExitCode.OK
    assert str(path) in capsys.readouterr().out
    assert list(path.parent.iterdir()) == [path]
    loaded = path.with_suffix(".log")
    subprocess.run([sys.executable, "-c", OPEN, str(path), str(loaded)], check=True, timeout=300)
    lines = [
        line for line in loaded.read_text(encoding="utf-8").splitlines() if "org.apache.spark.sql.SparkSession" in line
    ]
    assert lines
    assert all("shared objects file (top)" in line for line in lines)


@pytest.mark.parametrize(
    ("code", "leaves", "said"),
    [
        (1, True, "the JVM did not write the archive of its classes: no room"),
        (0, False, "the JVM did not write the archive of its classes: no room"),
    ],
)
def test_what_fails_leaves_the_archive_of_before(
    path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], code: int, leaves: bool, said: str
) -> None:
    path.write_text("of before", encoding="utf-8")

    def run(command: list[str], **_: object) -> subprocess.CompletedProcess[str]:
        if leaves:
            Path(command[-1]).write_text("half", encoding="utf-8")
        return subprocess.CompletedProcess(command, code, "", "first\nno room\n")

    run_by(run, monkeypatch)
    assert main(["prepare"]) == ExitCode.REFUSED
    assert said in " ".join(capsys.readouterr().err.split())
    assert list(path.parent.iterdir()) == [path]
    assert path.read_text(encoding="utf-8") == "of before"


def test_a_folder_that_takes_no_archive_is_named(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def run(command: list[str], **_: object) -> subprocess.CompletedProcess[str]:
        raise subprocess.TimeoutExpired(command, 600)

    run_by(run, monkeypatch)
    with pytest.raises(EngineError, match=f"the archive {path} cannot be made: .* timed out"):
        ready.prepare(print)
