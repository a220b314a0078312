"""Tests that a run refuses a checkpoint with the state of another query before it reads a record."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest

from tests.kafka.applications import Applications
from tests.kafka.helpers import create, produce, read

pytestmark = pytest.mark.spark

SCRIPT = """
CREATE STREAM S (K STRING KEY, V INT) WITH (KAFKA_TOPIC='{0}_s', VALUE_FORMAT='JSON');
CREATE TABLE T WITH (KAFKA_TOPIC='{0}_t') AS SELECT K, COUNT(*) AS N FROM S GROUP BY K;
"""


def test_a_foreign_or_damaged_state_is_refused_and_a_repaired_one_resumes(
    applications: Applications, tmp_path: Path
) -> None:
    name, servers = f"states_{time.time_ns()}", applications.config.servers
    create(servers, 1, f"{name}_s")

    def feed() -> None:
        produce(servers, f"{name}_s", [(f"k{at % 5}", '{"V": 1}', 1000 + at) for at in range(20)])

    def counts() -> dict[bytes | None, int]:
        """The last count of each key, because the broker may have compacted the topic."""
        return {key: json.loads(value or b"")["N"] for _, key, value, _ in read(servers, f"{name}_t", 1)}

    def refused() -> str:
        run = applications.catch_up(SCRIPT.format(name), tmp_path)
        assert not run.well
        assert "the query CTAS_T_0 cannot resume from the checkpoint" in run.text
        assert set(counts().values()) == {4}
        return run.text

    feed()
    first = applications.catch_up(SCRIPT.format(name), tmp_path)
    assert first.well, first.text
    feed()
    manifest = tmp_path / "manifest.json"
    sound = manifest.read_text()
    document = json.loads(sound)
    document["queries"][0]["pages"] = 16
    manifest.write_text(json.dumps(document))
    assert "its tasks have 32 pages, and those of the query 16" in refused()
    manifest.write_text(sound)
    files = [file for file in tmp_path.glob("queries/*/state/0/*/[!_.]*") if file.suffix in (".zip", ".changelog")]
    contents = {file: file.read_bytes() for file in files}
    for file in contents:
        file.write_bytes(b"no state")
    assert "the state of level 1 cannot be read" in refused()
    for file, content in contents.items():
        file.write_bytes(content)
    last = applications.catch_up(SCRIPT.format(name), tmp_path)
    assert last.well, last.text
    assert set(counts().values()) == {8}
