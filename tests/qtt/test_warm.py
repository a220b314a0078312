"""Runs of `qtt` in processes of their own share a JVM, and never see code of before."""

from __future__ import annotations

import io
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import redirect_stdout
from pathlib import Path

import pytest

import kestrel_sql
from kestrel_qtt.cli.main import main
from kestrel_sql.spark.runtime.class_archive import TRIED, archive_path

CASE = """
tests:
  - name: a function of the project
    statements:
      - CREATE STREAM S (ID INT KEY, V INT) WITH (KAFKA_TOPIC='s', VALUE_FORMAT='JSON');
      - CREATE STREAM O AS SELECT ID, TIMES(V) AS V FROM S;
    inputs: [{topic: s, key: 1, value: {V: 7}}]
    outputs: [{topic: O, key: 1, value: {V: 14}}]
"""
FUNCTION = '''
import os
from kestrel_sql.functions.declaration import scalar

@scalar("(value INT) -> INT")
def times(value):
    """TIMES(value): says where it runs."""
    with open({path!r}, "w") as out:
        print(os.getppid(), os.getpid(), os.environ.get("PYTHON_TEST_MARK"), file=out)
    print("printed by the function", flush=True)
    return value * {factor}
'''


class Project:
    """A project with one case, which runs in processes with a folder of sockets of their own."""

    def __init__(self, folder: Path, sockets: str) -> None:
        self.folder = folder
        self.variables = {
            name: value
            for name, value in os.environ.items()
            if name not in ("CI", "KESTREL_COLD", "KESTREL_TEST_HEAP") and not name.startswith("PYTEST")
        } | {"XDG_RUNTIME_DIR": sockets}
        (folder / "pyproject.toml").write_text("")
        (folder / "case.yaml").write_text(CASE)
        self.multiply_by(2)

    def multiply_by(self, factor: int) -> None:
        (self.folder / "mine.py").write_text(FUNCTION.format(path=str(self.folder / "where.txt"), factor=factor))

    def qtt(self, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [str(Path(sys.executable).with_name("qtt")), *arguments],
            cwd=self.folder,
            env=self.variables | variables,
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )

    def run(self, expected: int = 0, /, **variables: str) -> tuple[int, int]:
        """Run the case.

        Give the process ids of the worker that ran its function, and of the one that this was forked from.
        """
        done = self.qtt("run", "case.yaml", "--functions", "mine.py", **variables)
        assert done.returncode == expected, done.stdout + done.stderr
        assert "printed by the function" in done.stdout + done.stderr
        parent, own, _ = (self.folder / "where.txt").read_text().split()
        return int(own), int(parent)

    def jvm(self) -> int | None:
        """The process id of the JVM that is kept."""
        return int(found[1]) if (found := re.match(r"JVM (\d+) of ", self.warm())) else None

    def warm(self, *arguments: str) -> str:
        """Ask after the JVM in the process of the tests: a process of its own takes more than a second to start."""
        shown = io.StringIO()
        with pytest.MonkeyPatch.context() as patch, redirect_stdout(shown):
            patch.chdir(self.folder)
            patch.setenv("XDG_RUNTIME_DIR", self.variables["XDG_RUNTIME_DIR"])
            main(["warm", *arguments])
        return shown.getvalue()


@pytest.fixture
def tried() -> Iterator[None]:
    """A run that leaves its JVM makes no archive of classes in the background, which would take longer than the test."""
    mark = archive_path().with_suffix(TRIED)
    is_new = not mark.exists()
    mark.touch()
    yield
    if is_new:
        mark.unlink()


@pytest.fixture
def project(tmp_path: Path, tried: None) -> Iterator[Project]:
    # A JVM that was stopped removes its own files, while this folder is removed.
    with tempfile.TemporaryDirectory(prefix="k-", dir="/tmp", ignore_cleanup_errors=True) as sockets:
        made = Project(tmp_path, sockets)
        yield made
        made.warm("--stop")


@pytest.fixture
def edited_engine() -> Iterator[None]:
    """A file of the engine with another time of change."""
    file = Path(kestrel_sql.__path__[0]) / "errors.py"
    before = file.stat()
    os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns + 1))
    yield
    os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))


@pytest.mark.spark
def test_runs_share_a_jvm_and_no_code(project: Project, request: pytest.FixtureRequest) -> None:
    worker, daemon = project.run()
    jvm = project.jvm()
    assert jvm is not None

    project.multiply_by(3)
    other_worker, same_daemon = project.run(1)
    assert (project.jvm(), same_daemon) == (jvm, daemon)
    assert other_worker != worker

    project.multiply_by(2)
    request.getfixturevalue("edited_engine")
    _, other_daemon = project.run()
    assert project.jvm() == jvm
    assert other_daemon != daemon
