"""`kestrel run` against a broker, seen from outside: what is refused before anything starts, and what is complete after kills."""

from __future__ import annotations

import json
import random
import time
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path

import pytest

from engine.errors import EngineError
from engine.kafka.application import Application
from engine.kafka.config import KafkaConfig
from engine.kafka.run import RunSettings
from engine.planner.config import Config
from engine.session import Session
from tests.kafka.helpers import await_rows, create, delete, kill, produce, read, run, start

pytestmark = pytest.mark.spark

SOURCE = "CREATE STREAM S (K STRING KEY, V INT) WITH (KAFKA_TOPIC='{0}_s', VALUE_FORMAT='JSON');"
FILTER = "CREATE STREAM OUT WITH (KAFKA_TOPIC='{0}_out') AS SELECT * FROM S WHERE V > {1};"


class _NotStartedError(Exception):
    """Spark would have started now."""


class _Unstarted(Application):
    def _open_spark(self) -> None:  # type: ignore[override]
        raise _NotStartedError


def prepare(config: KafkaConfig, checkpoint: Path, text: str, patience: float = 5.0) -> list[str]:
    """Do all that comes before Spark; give what the user was told."""
    told: list[str] = []
    application = _Unstarted(
        settings=RunSettings(config=config, checkpoint=checkpoint, patience=patience),
        session=Session(config=Config.of({})),
        log_topic=None,
        say=told.append,
        show=lambda _: None,
        answer=lambda _: None,
    )
    with pytest.raises(_NotStartedError):
        application.run(text)
    return told


@pytest.fixture
def name(request: pytest.FixtureRequest) -> str:
    return f"{request.node.originalname}_{time.time_ns()}"


def test_a_changed_query_does_not_start(kafka: KafkaConfig, tmp_path: Path, name: str) -> None:
    create(kafka.servers, 1, f"{name}_s")
    prepare(kafka, tmp_path, (SOURCE + FILTER).format(name, 1))
    prepare(kafka, tmp_path, (SOURCE + FILTER).format(name, 1))
    with pytest.raises(EngineError, match=r"(?s)CSAS_OUT_0.*V > 1.*V > 2"):
        prepare(kafka, tmp_path, (SOURCE + FILTER).format(name, 2))
    told = prepare(kafka, tmp_path, (SOURCE + FILTER.replace("OUT", "OTHER").replace("_out", "_other")).format(name, 2))
    assert told == ["CSAS_OUT_0 is in the checkpoint, but no longer in the script: it is not run"]


def test_a_topic_that_is_not_what_it_was_is_named(kafka: KafkaConfig, tmp_path: Path, name: str) -> None:
    text = (SOURCE + FILTER).format(name, 1)
    with pytest.raises(EngineError, match=f"the topic {name}_s does not exist"):
        prepare(kafka, tmp_path, text)
    create(kafka.servers, 1, f"{name}_s")
    prepare(kafka, tmp_path, text)
    delete(kafka.servers, f"{name}_s")
    time.sleep(1)
    create(kafka.servers, 1, f"{name}_s")
    with pytest.raises(EngineError, match=f"{name}_s.*was deleted and created anew"):
        prepare(kafka, tmp_path, text)


def test_a_join_of_topics_with_different_partitions_is_refused(kafka: KafkaConfig, tmp_path: Path, name: str) -> None:
    create(kafka.servers, 2, f"{name}_s")
    create(kafka.servers, 3, f"{name}_t")
    text = (
        SOURCE + "CREATE TABLE T (K STRING PRIMARY KEY, N INT) WITH (KAFKA_TOPIC='{0}_t', VALUE_FORMAT='JSON');"
        "CREATE STREAM J WITH (KAFKA_TOPIC='{0}_j') AS SELECT S.K AS K, V, N FROM S JOIN T ON S.K = T.K;"
    )
    with pytest.raises(EngineError, match=f"(?s){name}_s.*{name}_t.*2 and 3 partitions"):
        prepare(kafka, tmp_path, text.format(name))


def test_values_are_inserted_by_the_first_start_only(kafka: KafkaConfig, tmp_path: Path, name: str) -> None:
    text = SOURCE.replace("JSON'", "JSON', PARTITIONS=1") + "INSERT INTO S (ROWTIME, K, V) VALUES (5, 'a', 1);" * 2 + FILTER
    for _ in range(2):
        prepare(kafka, tmp_path, text.format(name, 1))
    assert read(kafka.servers, f"{name}_s", 1) == [(0, b"a", b'{"V":1}', 5)] * 2


def test_a_broker_that_is_away_is_named(tmp_path: Path) -> None:
    with pytest.raises(EngineError, match=r"the broker 127\.0\.0\.1:1 does not answer"):
        prepare(KafkaConfig(servers="127.0.0.1:1"), tmp_path, "CREATE STREAM S (V INT) WITH (KAFKA_TOPIC='s', VALUE_FORMAT='JSON');", 0.1)


SHAPES = """
CREATE STREAM A (K STRING KEY, V INT) WITH (KAFKA_TOPIC='{0}_a', VALUE_FORMAT='JSON');
CREATE STREAM B (K STRING KEY, W INT) WITH (KAFKA_TOPIC='{0}_b', VALUE_FORMAT='JSON');
CREATE TABLE T (K STRING PRIMARY KEY, V INT) WITH (KAFKA_TOPIC='{0}_a', VALUE_FORMAT='JSON');
CREATE STREAM F WITH (KAFKA_TOPIC='{0}_f{1}') AS SELECT * FROM A WHERE V % 3 <> 0;
CREATE TABLE C WITH (KAFKA_TOPIC='{0}_c{1}') AS SELECT K, COUNT(*) AS N, SUM(V) AS TOTAL FROM A GROUP BY K;
CREATE TABLE U WITH (KAFKA_TOPIC='{0}_u{1}') AS SELECT K, V + 1 AS V FROM T;
CREATE STREAM J WITH (KAFKA_TOPIC='{0}_j{1}') AS SELECT A.K AS K, V, W FROM A JOIN B WITHIN 20 MILLISECONDS ON A.K = B.K;
CREATE TABLE X WITH (KAFKA_TOPIC='{0}_x{1}') AS SELECT K, COUNT(*) AS N FROM B WINDOW SESSION (30 MILLISECONDS) GROUP BY K;
"""
SINKS = ("f", "c", "u", "j", "x")


def by_key(servers: str, name: str, run_name: str) -> dict[str, dict[bytes | None, list[tuple[bytes | None, int]]]]:
    found: dict[str, dict[bytes | None, list[tuple[bytes | None, int]]]] = {}
    for sink in SINKS:
        keys: dict[bytes | None, list[tuple[bytes | None, int]]] = defaultdict(list)
        for _, key, value, moment in read(servers, f"{name}_{sink}{run_name}", 2):
            keys[key].append((value, moment))
        found[sink] = dict(keys)
    return found


@pytest.mark.nightly
@pytest.mark.parametrize("kills", [2, 40])
def test_kills_lose_nothing_and_repeat_nothing(kafka: KafkaConfig, tmp_path: Path, name: str, kills: int) -> None:
    servers, rows = kafka.servers, 1000 * kills
    random_ = random.Random(kills)
    create(servers, 2, f"{name}_a", f"{name}_b")
    for topic, column in (("a", "V"), ("b", "W")):
        produce(
            servers,
            f"{name}_{topic}",
            ((f"k{random_.randrange(20)}", json.dumps({column: at}), 1 + at + random_.randrange(9)) for at in range(rows)),
        )
    scripts = []
    for run_name in ("quiet", "killed"):
        scripts.append(tmp_path / f"{run_name}.sql")
        scripts[-1].write_text(SHAPES.format(name, run_name), encoding="utf-8")
    quiet = run(scripts[0], servers, tmp_path / "quiet", "--until-caught-up")
    assert quiet.returncode == 0, quiet.stderr
    _killed(servers, [f"{name}_{sink}killed" for sink in SINKS], scripts[1], tmp_path / "killed", kills)
    assert by_key(servers, name, "killed") == by_key(servers, name, "quiet")


def _killed(servers: str, sinks: Sequence[str], script: Path, checkpoint: Path, kills: int) -> None:
    random_ = random.Random(kills)
    options = ("--property", "auto.offset.reset=earliest", "--batch-records", "150")
    seen = 0
    for _ in range(kills):
        process = start(script, servers, checkpoint, *options)
        seen = await_rows(servers, sinks, 2, seen, seconds=60)
        time.sleep(random_.random() * 2)
        kill(process)
    last = run(script, servers, checkpoint, "--until-caught-up")
    assert last.returncode == 0, last.stderr
