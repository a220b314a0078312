"""A checkpoint whose states are not those of the query is refused before a run against a broker reads a record."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest

from kestrel_sql.kafka.client.config import KafkaConfig
from tests.kafka.helpers import create, produce, read, run

pytestmark = pytest.mark.spark

SCRIPT = """
CREATE STREAM S (K STRING KEY, V INT) WITH (KAFKA_TOPIC='{0}_s', VALUE_FORMAT='JSON');
CREATE TABLE T WITH (KAFKA_TOPIC='{0}_t') AS SELECT K, COUNT(*) AS N FROM S GROUP BY K;
"""


def test_a_foreign_or_damaged_state_is_refused_and_a_mended_one_goes_on(kafka: KafkaConfig, tmp_path: Path) -> None:
    name = f"states_{time.time_ns()}"
    create(kafka.servers, 1, f"{name}_s")
    script, checkpoint = tmp_path / "app.sql", tmp_path / "checkpoint"
    script.write_text(SCRIPT.format(name))

    def feed() -> None:
        produce(kafka.servers, f"{name}_s", [(f"k{at % 5}", '{"V": 1}', 1000 + at) for at in range(20)])

    def counts() -> dict[bytes | None, int]:
        """The last count of each key: the broker may have compacted the topic."""
        return {key: json.loads(value or b"")["N"] for _, key, value, _ in read(kafka.servers, f"{name}_t", 1)}

    def refused() -> str:
        done = run(script, kafka.servers, checkpoint, "--until-caught-up")
        assert done.returncode != 0
        assert "the query CTAS_T_0 cannot go on from the checkpoint" in done.stderr
        assert set(counts().values()) == {4}
        return done.stderr

    feed()
    first = run(script, kafka.servers, checkpoint, "--until-caught-up")
    assert first.returncode == 0, first.stderr
    feed()
    manifest = checkpoint / "manifest.json"
    sound = manifest.read_text()
    document = json.loads(sound)
    document["queries"][0]["pages"] = 16
    manifest.write_text(json.dumps(document))
    assert "it keeps the keys of a task in 64 pages, and the query in 16" in refused()
    manifest.write_text(sound)
    files = [file for file in checkpoint.glob("queries/*/state/0/*/[!_.]*") if file.suffix in (".zip", ".changelog")]
    contents = {file: file.read_bytes() for file in files}
    for file in contents:
        file.write_bytes(b"no state")
    assert "the states of level 1 cannot be read" in refused()
    for file, content in contents.items():
        file.write_bytes(content)
    last = run(script, kafka.servers, checkpoint, "--until-caught-up")
    assert last.returncode == 0, last.stderr
    assert set(counts().values()) == {8}
