"""`kestrel doctor` says what is wrong with a machine, and what to do."""

from __future__ import annotations

import socket
from importlib import metadata
from pathlib import Path

import pytest

from kestrel_sql.cli.main import ExitCode, main
from kestrel_sql.kafka.connector import jars


def said(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[ExitCode, str]:
    code = main(["doctor", *arguments])
    return ExitCode(code), capsys.readouterr().out


@pytest.fixture(autouse=True)
def free_port(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kestrel_sql.cli.doctor._port", lambda host, port: "free")


def test_a_machine_with_everything(capsys: pytest.CaptureFixture[str]) -> None:
    code, text = said(capsys)
    assert code == ExitCode.OK
    lines = text.splitlines()
    names = ["Python", "packages", "Spark", "Java", "Kafka connector", "folder", "memory", "port 8088"]
    assert [line.partition(":")[0].split(maxsplit=1) for line in lines] == [["ok", name] for name in names]


def test_what_is_missing_is_said_with_what_to_do(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    needed = ["rich>=13", "not-there>=2", "numpy>=99", "pytest>=8; extra == 'qtt'"]
    monkeypatch.setattr(metadata, "requires", lambda name: needed)
    (tmp_path / "RELEASE").write_text("Spark 3.5.1 built for Hadoop 3.3.4\n", encoding="utf-8")
    monkeypatch.setenv("SPARK_HOME", str(tmp_path))
    monkeypatch.setattr(jars, "connector_here", lambda: None)
    code, text = said(capsys)
    assert code == ExitCode.REFUSED
    assert "WRONG packages: missing or of another version: not-there>=2, numpy>=99 (" in text
    assert "pip install 'not-there>=2' 'numpy>=99'\n" in text
    assert f"WRONG Spark: SPARK_HOME ({tmp_path}) is 3.5.1" in text
    assert "pip install pyspark==3.5.1, or unset SPARK_HOME" in text
    assert "`kestrel prepare` does it now" in text


def test_a_port_that_is_taken(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        code, text = said(capsys, "--listen", str(port))
    assert code == ExitCode.REFUSED
    assert f"WRONG port {port}: not free" in text


def test_a_broker_and_a_registry_that_do_not_answer(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kestrel_sql.cli.doctor._WAIT_S", 0.5)
    code, text = said(capsys, "--bootstrap-servers", "127.0.0.1:1", "--schema-registry", "http://127.0.0.1:2")
    assert code == ExitCode.REFUSED
    assert "WRONG broker: " in text
    assert "WRONG schema registry: " in text


@pytest.mark.parametrize("arguments", [["--set", "a=b"], ["--kafka-config", "client.properties"]])
def test_an_option_without_effect_is_refused(capsys: pytest.CaptureFixture[str], arguments: list[str]) -> None:
    assert said(capsys, *arguments)[0] == ExitCode.USAGE
