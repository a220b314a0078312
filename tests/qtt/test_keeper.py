"""Who gets the JVM that a run leaves behind, and when it ends.

`cat` stands for the JVM: it ends when its input does.
"""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import MappingProxyType, SimpleNamespace
from typing import IO

import pytest

from kestrel_qtt.cli.main import main
from kestrel_qtt.drivers.driver import DriverError
from kestrel_qtt.drivers.warm import lease, session
from kestrel_qtt.drivers.warm.jvm import Started
from kestrel_qtt.drivers.warm.lease import Busy, Lease, own_folder, socket_path, start_keeper, take
from kestrel_qtt.drivers.warm.session import WarmStart, code_state, open_case_session

ENOUGH = 60.0


@pytest.fixture(autouse=True)
def folder(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The folder of sockets; its path is short, as that of a socket has to be."""
    with tempfile.TemporaryDirectory(prefix="k-", dir="/tmp") as top:
        monkeypatch.setenv("XDG_RUNTIME_DIR", top)
        monkeypatch.setattr(lease, "_STARTED", [])
        yield own_folder()


class Stand:
    """A JVM's stand-in, and its keeper."""

    def __init__(self, folder: Path, idle_seconds: float = ENOUGH) -> None:
        self.jvm = subprocess.Popen(["cat"], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL)
        self.folder = folder / f"jvm-{self.jvm.pid}"
        self.folder.mkdir()
        assert self.jvm.stdin is not None
        self.lease = start_keeper(
            socket_path(),
            {
                "pipe": self.jvm.stdin.fileno(),
                "process": self.jvm.pid,
                "folder": str(self.folder),
                "directory": "here",
                "key": "key",
                "port": 1,
                "secret": "secret",
            },
            idle_seconds,
        )
        self.jvm.stdin.close()

    @property
    def run(self) -> Lease:
        assert self.lease is not None
        return self.lease

    def assert_ended(self) -> None:
        """Wait for the end of the JVM and its keeper, and see that nothing is left of them."""
        self.jvm.wait(ENOUGH)
        lease._STARTED[-1].wait(ENOUGH)
        assert not self.folder.exists()
        assert take(socket_path()) is None

    def close(self) -> None:
        self.jvm.kill()
        self.jvm.wait(ENOUGH)


@pytest.fixture
def stand(folder: Path) -> Iterator[Stand]:
    made = Stand(folder)
    yield made
    made.close()


def next_run() -> Lease:
    taken = take(socket_path())
    assert isinstance(taken, Lease)
    return taken


def test_runs_have_the_jvm_one_after_another(stand: Stand) -> None:
    stand.run.leave("keep", "first code")
    second = next_run()
    assert (second.jvm, second.code) == (stand.run.jvm, "first code")
    second.leave("keep", "second code")
    third = next_run()
    assert third.code == "second code"
    third.leave("end")
    stand.assert_ended()


def test_one_run_has_the_jvm_at_a_time(stand: Stand) -> None:
    assert isinstance(take(socket_path()), Busy)
    stand.run.leave("keep")
    second = next_run()
    assert isinstance(take(socket_path()), Busy)
    second.leave("keep")
    assert isinstance(next_run(), Lease)


def test_the_jvm_of_a_run_that_dies_ends(stand: Stand) -> None:
    stand.run.leave("keep")
    next_run().connection.close()
    stand.assert_ended()


def test_the_jvm_of_a_run_that_dies_while_it_speaks_ends(stand: Stand) -> None:
    with stand.run.connection as connection:
        connection.sendall(b'{"then": "ke')
    stand.assert_ended()


def test_a_run_that_ends_its_jvm_finds_no_keeper_afterwards(stand: Stand) -> None:
    stand.run.leave("end")
    assert take(socket_path()) is None
    stand.assert_ended()


def test_a_jvm_that_nobody_uses_ends(folder: Path) -> None:
    stand = Stand(folder, idle_seconds=0)
    assert stand.jvm.poll() is None
    stand.run.leave("keep")
    stand.assert_ended()


def test_a_keeper_goes_when_its_jvm_dies(stand: Stand) -> None:
    stand.run.leave("keep")
    stand.jvm.kill()
    stand.assert_ended()


def test_a_keeper_goes_when_its_jvm_dies_under_a_run(stand: Stand) -> None:
    stand.jvm.kill()
    stand.assert_ended()


def test_a_second_jvm_is_not_kept(stand: Stand, folder: Path) -> None:
    second = Stand(folder)
    assert second.lease is None
    second.jvm.wait(ENOUGH)
    stand.run.leave("keep")
    assert next_run().jvm == stand.run.jvm


def test_a_keeper_that_is_killed_leaves_no_jvm_and_is_replaced(stand: Stand, folder: Path) -> None:
    stand.run.leave("keep")
    lease._STARTED[-1].kill()
    stand.jvm.wait(ENOUGH)
    assert socket_path().exists()
    assert take(socket_path()) is None
    second = Stand(folder)
    assert second.run.jvm["process"] == second.jvm.pid
    second.close()


def test_something_else_that_listens_is_no_keeper() -> None:
    socket_path().write_text("")
    assert take(socket_path()) is None


def test_a_folder_that_others_may_enter_is_refused(folder: Path) -> None:
    folder.chmod(0o755)
    with pytest.raises(DriverError, match="is not a folder that you alone may enter"):
        own_folder()
    folder.chmod(0o700)


def test_a_folder_of_somebody_else_is_refused(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    other = folder.stat().st_uid + 1
    monkeypatch.setattr("os.getuid", lambda: other)
    folder.rename(folder.with_name(f"kestrel-{other}"))
    with pytest.raises(DriverError):
        own_folder()


def test_the_command_shows_and_ends(stand: Stand, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["warm", "--stop"]) == 1
    stand.run.leave("keep", "code")
    assert main(["warm"]) == 0
    taken = next_run()
    assert taken.code == "code"
    taken.leave("keep", "code")
    assert main(["warm", "--stop"]) == 0
    stand.assert_ended()
    assert main(["warm"]) == 0
    line = f"JVM {stand.jvm.pid} of here"
    assert capsys.readouterr().out.splitlines() == [
        "a run is using one JVM",
        line,
        f"{line} ended",
        "no JVM is kept",
    ]


def test_only_the_jvm_of_the_own_directory_ends_unless_all_are_named(
    stand: Stand, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    stand.run.leave("keep", "code")
    monkeypatch.chdir(tmp_path)
    assert main(["warm", "--stop"]) == 0
    assert stand.jvm.poll() is None
    assert main(["warm", "--stop", "--all"]) == 0
    stand.assert_ended()
    assert capsys.readouterr().out.splitlines() == [
        "no JVM is kept for this directory; --all ends those of others",
        f"JVM {stand.jvm.pid} of here ended",
    ]


def test_the_state_of_the_code_changes_with_an_edit(tmp_path: Path) -> None:
    (tmp_path / "inner").mkdir()
    states = [code_state(tmp_path)]
    for text in ("x = 1", "x = 12"):
        (tmp_path / "inner" / "a.py").write_text(text)
        states.append(code_state(tmp_path))
    assert len(set(states)) == 3
    (tmp_path / "notes.txt").write_text("")
    assert code_state(tmp_path) == states[-1]


class FakeSpark:
    """What a run does with PySpark, without Spark: its JVMs are `cat`s."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.jvms: list[subprocess.Popen[bytes]] = []
        self.calls: list[str] = []
        self.problem: Exception | None = None
        monkeypatch.setattr(session.jvm, "start", self.start)
        monkeypatch.setattr(session.jvm, "close_pipe", lambda: self.jvms[-1].stdin.close())
        monkeypatch.setattr(session.jvm, "join", self.join)
        monkeypatch.setattr(session.jvm, "forget", lambda: self.calls.append("forget"))
        monkeypatch.setattr(session.jvm, "drop_workers", lambda _, *, daemons: self.calls.append(f"drop {daemons}"))

    def start(self, settings: Mapping[str, str], log: IO[bytes]) -> Started:
        if self.problem is not None:
            log.write(b"what Java says\n")
            log.flush()
            raise self.problem
        self.jvms.append(subprocess.Popen(["cat"], stdin=subprocess.PIPE))
        pipe = self.jvms[-1].stdin
        assert pipe is not None
        self.calls.append("start")
        return {"pipe": pipe.fileno(), "process": self.jvms[-1].pid, "port": 1, "secret": "secret"}

    def join(self, port: int, secret: str) -> None:
        self.calls.append(f"join {port} {secret}")
        if self.problem is not None:
            raise self.problem

    def run(self, settings: Mapping[str, str] = MappingProxyType({"a": "1"})) -> Lease:
        """Connect as a run does; give what it leaves at its end."""
        warm = WarmStart(socket_path())
        chosen = warm.connect({"spark.python.unix.domain.socket.dir": f"of process {len(self.calls)}", **settings})
        assert warm.lease is not None
        assert dict(chosen) == {"spark.python.unix.domain.socket.dir": warm.lease.jvm["folder"], **settings}
        return warm.lease


@pytest.fixture
def spark(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeSpark]:
    fake = FakeSpark(monkeypatch)
    yield fake
    for jvm in fake.jvms:
        jvm.kill()
        jvm.wait(ENOUGH)


def test_a_run_joins_the_jvm_of_the_run_before(spark: FakeSpark, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session, "code_state", lambda _: "code")
    spark.run().leave("keep", "code")
    spark.run().leave("keep", "code")
    assert spark.calls == ["start", "join 1 secret"]


def test_an_edit_ends_the_processes_that_workers_are_forked_from(
    spark: FakeSpark, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session, "code_state", lambda _: "edited")
    spark.run().leave("keep", "code")
    spark.run().leave("keep", "edited")
    assert spark.calls == ["start", "join 1 secret", "drop True"]


def test_a_jvm_with_other_settings_is_replaced(spark: FakeSpark) -> None:
    spark.run().leave("keep")
    spark.run({"a": "2"}).leave("keep")
    spark.jvms[0].wait(ENOUGH)
    assert spark.calls == ["start", "start"]
    assert next_run().jvm["process"] == spark.jvms[1].pid


def test_a_jvm_with_other_variables_is_replaced(spark: FakeSpark, monkeypatch: pytest.MonkeyPatch) -> None:
    spark.run().leave("keep")
    monkeypatch.setenv("COLUMNS", "99")
    spark.run().leave("keep")
    monkeypatch.setenv("PYTHON_OF_A_TEST", "1")
    spark.run().leave("keep")
    assert [call for call in spark.calls if call == "start"] == ["start", "start"]


def test_a_jvm_without_a_spark_is_replaced(spark: FakeSpark) -> None:
    spark.run().leave("keep")
    spark.problem = RuntimeError("no default session")
    with pytest.raises(RuntimeError):
        spark.run()
    spark.jvms[0].wait(ENOUGH)
    assert spark.calls == ["start", "join 1 secret", "forget"]
    assert take(socket_path()) is None


def test_a_jvm_that_does_not_start_says_why(spark: FakeSpark, capsys: pytest.CaptureFixture[str]) -> None:
    spark.problem = RuntimeError("exited")
    with pytest.raises(RuntimeError, match="exited"):
        spark.run()
    assert capsys.readouterr().err == "what Java says\n"
    assert list(own_folder().glob("jvm-*")) == []


def test_a_run_beside_another_starts_a_jvm_for_itself(stand: Stand, spark: FakeSpark) -> None:
    warm = WarmStart(socket_path())
    assert warm.connect({"a": "1"}) == {"a": "1"}
    assert (warm.lease, spark.calls) == (None, [])


@pytest.mark.parametrize("variable", ["CI", "KESTREL_COLD", "PYTEST_XDIST_WORKER"])
def test_some_runs_are_cold(variable: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("CI", "KESTREL_COLD", "PYTEST_XDIST_WORKER"):
        monkeypatch.delenv(name, raising=False)
    opened: list[object] = []
    monkeypatch.setattr(session, "SparkSession", SimpleNamespace(getActiveSession=lambda: None))
    monkeypatch.setattr(session, "open_test_session", lambda connect=None: opened.append(connect))
    open_case_session()
    monkeypatch.setenv(variable, "1")
    open_case_session()
    assert [connect is not None for connect in opened] == [True, False]


def test_a_folder_that_others_may_enter_makes_a_run_cold(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("CI", "KESTREL_COLD", "PYTEST_XDIST_WORKER"):
        monkeypatch.delenv(name, raising=False)
    folder.chmod(0o755)
    opened: list[object] = []
    monkeypatch.setattr(session, "SparkSession", SimpleNamespace(getActiveSession=lambda: None))
    monkeypatch.setattr(session, "open_test_session", lambda connect=None: opened.append(connect))
    open_case_session()
    assert opened == [None]
    assert "this run starts a Spark of its own" in capsys.readouterr().err


def test_the_option_makes_a_run_cold(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KESTREL_COLD", "")
    main(["run", "nowhere", "--cold"])
    assert os.environ["KESTREL_COLD"] == "1"
