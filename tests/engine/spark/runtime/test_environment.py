"""What Spark is started from, and what is seen of its start: nothing, unless it fails."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from kestrel_sql.errors import EngineError
from kestrel_sql.spark.runtime import environment as home

OPEN = """
import sys
from kestrel_sql.spark.runtime.session import open_session
options = {"spark.ui.showConsoleProgress": "false", "spark.driver.extraJavaOptions": sys.argv[1]}
print(open_session("local[1]", options).range(3).count())
"""


def opened(options: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", OPEN, options], capture_output=True, text=True, timeout=300, check=False
    )


@pytest.mark.spark
@pytest.mark.parametrize(
    "options", ["-XX:TieredStopAtLevel=1", pytest.param("", marks=pytest.mark.nightly)], ids=["quick", "as it runs"]
)
def test_spark_starts_without_a_word(options: str) -> None:
    # Java's best compiler takes a third of the time.
    done = opened(options)
    assert (done.stdout, done.stderr, done.returncode) == ("3\n", "", 0)


@pytest.mark.spark
def test_a_java_that_does_not_start_says_why() -> None:
    done = opened("-Xss1k")
    assert done.returncode != 0
    assert "Could not create the Java Virtual Machine" in done.stderr


@pytest.fixture
def read_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of an environment whose files this user may read only."""
    monkeypatch.setattr(sys, "prefix", str(tmp_path / "environment"))
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.setattr("os.access", lambda path, mode: False)
    inside = tmp_path / "environment" / "share" / "kestrel"
    inside.mkdir(parents=True)
    return inside


def test_a_read_only_environment_is_used_if_it_was_prepared(read_only: Path) -> None:
    mine = read_only.parents[2] / f"kestrel-{os.getuid()}"
    assert home.own_folder() == mine
    assert stat.S_IMODE(mine.stat().st_mode) == 0o700
    (read_only / f"{home.ARCHIVE}4.3.0.jsa").touch()
    assert home.own_folder() == read_only


def test_a_folder_that_others_may_enter_is_refused(read_only: Path) -> None:
    home.own_folder().chmod(0o777)
    with pytest.raises(EngineError, match="is not a folder that you alone may enter"):
        home.own_folder()


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(home, "own_folder", lambda: tmp_path / "own")
    monkeypatch.setattr(home, "_java_version", lambda java: 17)
    return tmp_path


@pytest.mark.parametrize("version", [17, 25])
def test_a_java_is_asked_for_all_but_what_nobody_needs(
    folder: Path, monkeypatch: pytest.MonkeyPatch, version: int
) -> None:
    monkeypatch.setattr(home, "_java_version", lambda java: version)
    machine = folder / "jdk" / "bin" / "java"
    machine.parent.mkdir(parents=True)
    machine.write_text('#!/bin/sh\nprintf "%s|" "$@"\n', encoding="utf-8")
    machine.chmod(0o755)
    monkeypatch.setenv("JAVA_HOME", str(folder / "jdk"))
    found = home._java_home()
    assert found == str(folder / "own" / "java")
    opened = "--add-opens=java.base/sun.security.action=ALL-UNNAMED"
    arguments = ["-cp", "a b", "--add-modules=jdk.incubator.vector", "--add-modules=java.se", opened, "Main", ""]
    said = subprocess.run([f"{found}/bin/java", *arguments], capture_output=True, text=True, check=True).stdout
    assert said == f"-cp|a b|--add-modules=java.se|{opened + '|' if version == 17 else ''}Main||"


def test_the_java_that_a_parent_process_chose_is_taken_as_it_is(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    own = folder / "own" / "java"
    (own / "bin").mkdir(parents=True)
    (own / "bin" / "java").write_text("as it was", encoding="utf-8")
    monkeypatch.setenv("JAVA_HOME", str(own))
    monkeypatch.setattr(home, "_java_version", lambda java: 0)
    assert home._java_home() is None
    assert (own / "bin" / "java").read_text(encoding="utf-8") == "as it was"


@pytest.mark.parametrize(
    ("release", "answer", "version"),
    [
        ('IMPLEMENTOR="Maker"\nJAVA_VERSION="21.0.2"\n', "", 21),
        ('IMPLEMENTOR="Maker 7"\n', 'openjdk version "17.0.9" 2023-10-17', 17),
        (None, 'java version "1.8.0_402"', 1),
        (None, "an error", 0),
    ],
)
def test_a_java_is_asked_for_its_version_where_no_file_says_it(
    tmp_path: Path, release: str | None, answer: str, version: int
) -> None:
    java = tmp_path / "bin" / "java"
    java.parent.mkdir()
    java.write_text(f"#!/bin/sh\necho '{answer}' >&2\n", encoding="utf-8")
    java.chmod(0o755)
    if release is not None:
        (tmp_path / "release").write_text(release, encoding="utf-8")
    assert home._java_version(str(java)) == version
