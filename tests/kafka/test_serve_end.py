"""`kestrel serve` whose broker is gone ends as soon as it is asked to."""

from __future__ import annotations

import os
import signal
import time
from contextlib import ExitStack
from pathlib import Path

import pytest

from kestrel_sql.cli import serve
from kestrel_sql.cli.main import build_parser
from kestrel_sql.kafka.broker.broker import HOST, Broker, free_port
from tests.kafka.processes import jvm_of
from tests.kafka.servers import Servers, eventually

_PATIENCE_S = 10.0


def test_a_server_whose_broker_does_not_answer_has_little_time_to_end(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    codes: list[int] = []
    monkeypatch.setattr(os, "_exit", codes.append)
    monkeypatch.setattr(serve, "_GONE_S", 0.3)
    options = ("--bootstrap-servers", f"{HOST}:{free_port()}", "--checkpoint", str(tmp_path))
    begun = time.monotonic()
    serve._end_in_time(build_parser("serve").parse_args(["serve", *options]))
    assert codes == [0]
    assert time.monotonic() - begun < serve._GRACE_S


@pytest.mark.nightly
@pytest.mark.spark
def test_a_server_without_its_broker_ends_within_seconds_of_sigterm(tmp_path: Path) -> None:
    with ExitStack() as stack:
        broker = stack.enter_context(Broker.start())
        server = Servers(broker.address, tmp_path, stack).start()
        eventually(server.is_up, server)
        server.ksql(
            "CREATE STREAM s (id INT KEY, v INT) WITH (KAFKA_TOPIC='s', VALUE_FORMAT='JSON', PARTITIONS=1);"
            "CREATE TABLE t AS SELECT id, COUNT(*) AS n FROM s GROUP BY id; INSERT INTO s VALUES (1, 1);"
        )
        eventually(lambda: server.query("SELECT n FROM t;") == [[1]], server)
        jvm = jvm_of(server.process)
        broker.kill()
        begun = time.monotonic()
        os.kill(server.process, signal.SIGTERM)
        eventually(lambda: not server.lives(), server)
        assert time.monotonic() - begun < _PATIENCE_S
        assert server.code() == 0
        while Path(f"/proc/{jvm}").exists():
            assert time.monotonic() - begun < _PATIENCE_S
            time.sleep(0.1)
