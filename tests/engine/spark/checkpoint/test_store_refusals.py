"""Tests that a checkpoint on what is no store is refused at once, without a store, a broker or Spark."""

from __future__ import annotations

import os

import pytest

from kestrel_sql.cli.main import main
from kestrel_sql.errors import EngineError
from kestrel_sql.kafka.connector import store


def test_state_refuses_what_is_no_store(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["state", "ls", "gs://bucket/app"])
    assert ended.value.code == 2
    assert "expected a folder, file:///…, s3a://… or hdfs://…, got gs://bucket/app" in capsys.readouterr().err


def test_the_jvm_that_reads_a_store_does_not_look_up_the_name_of_this_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """In a container the name may not resolve, and then a JVM of Spark does not start."""
    seen: list[str | None] = []

    def launch(_: object) -> None:
        seen.append(os.environ.get("SPARK_LOCAL_IP"))
        raise EngineError("no JVM")

    monkeypatch.setattr(store, "launch_gateway", launch)
    monkeypatch.delenv("SPARK_LOCAL_IP", raising=False)
    with pytest.raises(EngineError, match="no JVM"), store.open_store_alone("hdfs://namenode:8020/app", {}):
        pass
    assert seen == ["127.0.0.1"]
    assert "SPARK_LOCAL_IP" not in os.environ


@pytest.mark.parametrize("uri", ["s3a://bucket", "s3a://bucket/", "hdfs://namenode:8020"])
def test_a_checkpoint_needs_a_path_in_its_store(uri: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["run", "app.sql", "--checkpoint", uri, "--bootstrap-servers", "127.0.0.1:9"])
    assert ended.value.code == 2
    assert f"expected a path in the store, such as {uri.rstrip('/')}/app, got {uri}" in capsys.readouterr().err
