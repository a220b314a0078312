"""`kestrel shadow` finds what differs between two systems, and nothing where only what is open differs."""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path
from threading import Event
from typing import Any

import msgspec
import pytest
from confluent_kafka import Producer

from kestrel_qtt.cli.main import main as qtt
from kestrel_sql.cli.main import main
from kestrel_sql.formats.registry.memory import MemoryRegistry, SchemaFormat
from kestrel_sql.formats.windowed_key import join
from kestrel_sql.kafka.client.config import KafkaConfig
from kestrel_sql.kafka.shadow.matching import Difference
from kestrel_sql.kafka.shadow.shadow import Shadow, Sink, Verdict
from kestrel_sql.session.session import Session
from kestrel_sql.session.source_records import SourceRecords
from kestrel_sql.topics.partitioner import partition_of
from tests.kafka.helpers import create

APP = """
CREATE STREAM S (K STRING KEY, N BIGINT, D DECIMAL(6, 2), A STRUCT<ZIP STRING, L ARRAY<INT>>)
  WITH (KAFKA_TOPIC='s', VALUE_FORMAT='JSON', PARTITIONS=2);
CREATE TABLE T (K STRING PRIMARY KEY, N BIGINT) WITH (KAFKA_TOPIC='t', VALUE_FORMAT='JSON', PARTITIONS=2);
CREATE STREAM STREAM_ AS SELECT * FROM S;
CREATE STREAM KEYLESS WITH (PARTITIONS=1) AS SELECT N FROM S PARTITION BY NULL;
CREATE STREAM REKEYED AS SELECT A->ZIP AS ZIP, N FROM S PARTITION BY A->ZIP;
CREATE TABLE TABLE_ AS SELECT K, SUM(N) AS N FROM S GROUP BY K;
CREATE TABLE OF_TABLE AS SELECT K, N FROM T;
CREATE TABLE WINDOWS AS SELECT K, COUNT(*) AS N FROM S WINDOW TUMBLING (SIZE 1 SECOND) GROUP BY K;
CREATE TABLE SESSIONS AS SELECT K, COUNT(*) AS N FROM S WINDOW SESSION (1 SECOND) GROUP BY K;
CREATE STREAM AVRO WITH (FORMAT='AVRO') AS SELECT K, N FROM S PARTITION BY K;
"""
PARTITIONS = 2
PATIENCE_S = 2


@dataclass(frozen=True, slots=True)
class Row:
    """A record of a sink; its place is that of its key unless it has one."""

    key: bytes | None
    value: Any
    timestamp: int = 1000
    headers: Sequence[tuple[str, bytes]] = ()
    place: int | None = None


Rows = Sequence[Row]


def row(key: str | None, value: Any, timestamp: int = 1000, **more: Any) -> Row:
    return Row(None if key is None else key.encode(), value, timestamp, **more)


def value(n: int, **more: Any) -> dict[str, Any]:
    return {"N": n, "D": 1.5, "A": {"ZIP": "1", "L": [1, 2]}, **more}


def windowed(sink: str, key: str, start: int, end: int, n: int) -> Row:
    window = SESSION.catalog.sources[sink].window
    assert window is not None
    return Row(join(key.encode(), (start, end), window), {"N": n})


def planned(registry: MemoryRegistry | None = None) -> Session:
    session = Session(registry=registry or MemoryRegistry())
    for parsed in session.parse(APP):
        session.execute(parsed)
    return session


SESSION = planned()
AS_IT_IS = [row(key, value(n), 1000 + n) for n in range(1, 6) for key in "abc"]
REKEYED = [row("1.50", {"N": n}, n) for n in range(1, 9)]
SUMS = [row(key, {"N": n}, 1000 + n) for n in range(1, 6) for key in "ab"]


def changed(rows: Rows, at: int, **members: Any) -> list[Row]:
    return [replace(each, **members) if at_ == at else each for at_, each in enumerate(rows)]


def moved(rows: Rows, at: int, to: int) -> list[Row]:
    rest = [*rows[:at], *rows[at + 1 :]]
    return [*rest[:to], rows[at], *rest[to:]]


PLANTED: Mapping[str, tuple[str, Rows, Rows, list[str]]] = {
    "missing": ("STREAM_", AS_IT_IS, [*AS_IT_IS[:4], *AS_IT_IS[5:]], ["only left"]),
    "missing at the end": ("STREAM_", AS_IT_IS, AS_IT_IS[:-1], ["only left"]),
    "extra": ("STREAM_", AS_IT_IS, [*AS_IT_IS, row("d", value(1))], ["only right"]),
    "twice": ("STREAM_", AS_IT_IS, [*AS_IT_IS[:4], *AS_IT_IS[3:]], ["twice right"]),
    "order": ("STREAM_", AS_IT_IS, moved(AS_IT_IS, 3, 7), ["order"]),
    "value": ("STREAM_", AS_IT_IS, changed(AS_IT_IS, 3, value=value(7)), ["value.N"]),
    "key": ("STREAM_", AS_IT_IS, changed(AS_IT_IS, 3, key=b"z"), ["key"]),
    "no key": ("STREAM_", AS_IT_IS, changed(AS_IT_IS, 3, key=None), ["key"]),
    "timestamp": ("STREAM_", AS_IT_IS, changed(AS_IT_IS, 3, timestamp=5), ["timestamp"]),
    "header": ("STREAM_", AS_IT_IS, changed(AS_IT_IS, 3, headers=[("h", b"1")]), ["headers"]),
    "partition": ("STREAM_", AS_IT_IS, changed(AS_IT_IS, 3, place=1 - partition_of(b"a", PARTITIONS)), ["partition"]),
    "column of a struct": ("STREAM_", AS_IT_IS, changed(AS_IT_IS, 3, value=value(2, A={"ZIP": "2", "L": [1, 2]})), ["value.A.ZIP"]),
    "element": ("STREAM_", AS_IT_IS, changed(AS_IT_IS, 3, value=value(2, A={"ZIP": "1", "L": [1, 3]})), ["value.A.L"]),
    "NULL and absent": ("STREAM_", [row("a", value(1, D=None))], [row("a", {**value(1), "D": ...})], ["value.D"]),
    "text and number": ("STREAM_", AS_IT_IS, changed(AS_IT_IS, 3, value=value(2, N="2")), ["value.N"]),
    "scale": ("STREAM_", AS_IT_IS, changed(AS_IT_IS, 3, value=b'{"N":2,"D":1.50,"A":{"ZIP":"1","L":[1,2]}}'), ["value.D"]),
    "NULL value": ("STREAM_", AS_IT_IS, changed(AS_IT_IS, 3, value=None), ["value"]),
    "format": ("STREAM_", AS_IT_IS, changed(AS_IT_IS, 3, value=b"2,1.5,1"), ["value"]),
    "several": ("STREAM_", AS_IT_IS, changed(AS_IT_IS[1:], 6, value=value(9), timestamp=2), ["only left", "value.N, timestamp"]),
    "keyless value": ("KEYLESS", [row(None, {"N": n}, n) for n in range(1, 9)], [row(None, {"N": n % 7}, n) for n in range(1, 9)], ["value.N"]),
    "value where order is open": ("REKEYED", REKEYED, changed(REKEYED[::-1], 3, value={"N": 9}), ["value.N"]),
    "missing where order is open": ("REKEYED", REKEYED, REKEYED[:0:-1], ["only left"]),
    "last value": ("TABLE_", SUMS, changed(SUMS, 9, value={"N": 6}), ["value.N"]),
    "time of the last value": ("TABLE_", SUMS, changed(SUMS, 9, timestamp=6), ["timestamp"]),
    "tombstone": ("TABLE_", [*SUMS, row("a", None)], SUMS, ["value"]),
    "row of a table": ("TABLE_", SUMS, [each for each in SUMS if each.key == b"a"], ["only left"]),
    "key of a table": ("TABLE_", SUMS, [replace(each, key=b"z") if each.key == b"a" else each for each in SUMS], ["key"]),
    "last value of a window": (
        "WINDOWS",
        [windowed("WINDOWS", "a", 1000, 2000, n) for n in (1, 2, 3)],
        [windowed("WINDOWS", "a", 1000, 2000, n) for n in (1, 2)],
        ["value.N"],
    ),
    "window": (
        "SESSIONS",
        [windowed("SESSIONS", "a", 1000, 2000, 2)],
        [windowed("SESSIONS", "a", 1000, 2001, 2)],
        ["window"],
    ),
    "late row in another window": (
        "WINDOWS",
        [windowed("WINDOWS", "a", 1000, 2000, 2), windowed("WINDOWS", "a", 2000, 3000, 1)],
        [windowed("WINDOWS", "a", 1000, 2000, 1), windowed("WINDOWS", "a", 2000, 3000, 1)],
        ["value.N"],
    ),
}  # fmt: skip
OPEN: Mapping[str, tuple[str, Rows, Rows]] = {
    "nothing": ("STREAM_", [], []),
    "order between keys": ("STREAM_", AS_IT_IS, sorted(AS_IT_IS, key=lambda each: each.key or b"", reverse=True)),
    "spelling": ("STREAM_", AS_IT_IS, [replace(each, value=json.dumps(each.value, indent=1, sort_keys=True).encode()) for each in AS_IT_IS]),
    "order without keys": ("KEYLESS", [row(None, {"N": n}) for n in range(9)], [row(None, {"N": n}) for n in reversed(range(9))]),
    "spelling without keys": ("KEYLESS", [row(None, {"N": n}) for n in range(9)], [row(None, b'{"N": %d}' % n) for n in range(9)]),
    "order after PARTITION BY": ("REKEYED", REKEYED, REKEYED[::-1]),
    "intermediate results": ("TABLE_", SUMS, SUMS[-2:]),
    "intermediate results on both sides": ("TABLE_", [*SUMS[:4], *SUMS[-2:]], [*SUMS[4:7], *SUMS[-2:]]),
    "a value that comes back": ("TABLE_", [*SUMS, row("a", {"N": 8}), row("a", {"N": 5}, 1005)], SUMS),
    "a row that came and went": ("TABLE_", [*SUMS, row("c", {"N": 8}), row("c", None)], SUMS),
    "the time of one of several changes": ("OF_TABLE", SUMS, [replace(each, timestamp=each.timestamp + 1) for each in SUMS]),
}  # fmt: skip


@dataclass(slots=True)
class Scene:
    """Topics of both sides of several sinks, which are compared at once."""

    config: KafkaConfig
    prefix: str = field(default_factory=lambda: f"sh{time.time_ns()}")
    sinks: list[Sink] = field(default_factory=list)
    found: dict[str, list[Difference]] = field(default_factory=dict)

    def sink(self, name: str, sink: str) -> Sink:
        source = SESSION.catalog.sources[sink]
        left, right = (f"{self.prefix}_{len(self.sinks)}_{side}" for side in ("left", "right"))
        made = msgspec.structs.replace(
            Sink.of(SESSION, source, (left, right)), source=msgspec.structs.replace(source, name=name)
        )
        self.sinks.append(made)
        return made

    def compare(self, **more: Any) -> Verdict:
        self.found = {sink.source.name: [] for sink in self.sinks}
        return Shadow(
            sinks=self.sinks,
            configs=(self.config, self.config),
            report=lambda each: self.found[each.sink.name].append(each),
            **{
                "patience": PATIENCE_S,
                "until_caught_up": True,
                "registries": (MemoryRegistry(), MemoryRegistry()),
                "show": lambda _: None,
                "stop": Event(),
                **more,
            },
        ).run()


def write(servers: str, records: Iterable[tuple[str, Row]]) -> None:
    """Write records of topics in their order."""
    producer = Producer(
        {"bootstrap.servers": servers, "partitioner": "murmur2_random", "enable.idempotence": True, "linger.ms": 5}
    )
    for topic, each in records:
        data = each.value
        if isinstance(data, dict):
            data = json.dumps({name: member for name, member in data.items() if member is not ...}).encode()
        place = {} if each.place is None else {"partition": each.place}
        producer.produce(topic, key=each.key, value=data, timestamp=each.timestamp, headers=[*each.headers], **place)
    assert producer.flush(60) == 0


def scene_of(kafka: KafkaConfig, pairs: Mapping[str, tuple[str, Rows, Rows]]) -> Scene:
    scene = Scene(kafka)
    written = [(scene.sink(name, sink), rows) for name, (sink, *rows) in pairs.items()]
    create(kafka.servers, PARTITIONS, *(topic for sink, _ in written for topic in sink.topics))
    sides = [pair for sink, rows in written for pair in zip(sink.topics, rows, strict=True)]
    write(kafka.servers, [(topic, each) for topic, rows in sides for each in rows])
    return scene


def test_each_kind_of_difference_is_found(kafka: KafkaConfig) -> None:
    scene = scene_of(kafka, {name: each[:3] for name, each in PLANTED.items()})
    scene.compare()
    assert {name: sorted({each.kind for each in found}) for name, found in scene.found.items()} == {
        name: each[3] for name, each in PLANTED.items()
    }
    counts = {name: len(found) for name, found in scene.found.items() if len(found) > 1}
    assert counts.keys() <= {"partition", "several", "keyless value"}, counts


def test_what_is_open_is_no_difference(kafka: KafkaConfig) -> None:
    scene = scene_of(kafka, OPEN)
    verdict = scene.compare()
    assert {name: [each.kind for each in found] for name, found in scene.found.items() if found} == {}
    assert verdict.progress.waiting == (0, 0)


def test_ids_of_schemas_may_differ(kafka: KafkaConfig) -> None:
    ours, theirs = MemoryRegistry(), MemoryRegistry()
    theirs.register("another", SchemaFormat.AVRO, '"string"')
    scene = Scene(kafka)
    sinks = {name: scene.sink(name, "AVRO") for name in ("equal", "value", "missing")}
    create(kafka.servers, PARTITIONS, *(topic for sink in scene.sinks for topic in sink.topics))
    for side, registry in enumerate((ours, theirs)):
        session = planned(registry)
        records = SourceRecords.of(session.catalog.sources["AVRO"], session.serde())
        written = []
        for name, sink in sinks.items():
            rows = [("a", 1), ("b", 1), ("a", 2 + (side and name == "value"))]
            for key, n in rows[(side and name == "missing") :]:
                each = records.from_json(key, {"N": n}, 1000)
                written.append((sink.topics[side], Row(each.key, each.value)))
        write(kafka.servers, written)
    scene.compare(registries=(ours, theirs))
    kinds = {name: [each.kind for each in found] for name, found in scene.found.items()}
    assert kinds == {"equal": [], "value": ["value.N"], "missing": ["only left"]}


def test_both_sides_are_followed_as_they_write_at_their_own_pace(kafka: KafkaConfig) -> None:
    scene = Scene(kafka)
    stream, table = scene.sink("stream", "STREAM_"), scene.sink("table", "TABLE_")
    create(kafka.servers, PARTITIONS, *stream.topics, *table.topics)
    stop, shown = Event(), []
    with ThreadPoolExecutor() as pool:
        running = pool.submit(scene.compare, until_caught_up=False, patience=60, stop=stop, show=shown.append)
        for part in range(3):
            rows = [row(key, value(n), n) for n in range(part * 100 + 1, part * 100 + 101) for key in "abcdef"]
            sums = [replace(each, value={"N": each.timestamp}) for each in rows]
            # A side that is started anew is silent for a while, then writes more at once.
            for side in (part % 2, 1 - part % 2):
                write(kafka.servers, [(stream.topics[side], each) for each in rows])
                write(kafka.servers, [(table.topics[side], each) for each in (sums if side else sums[-6:])])
                time.sleep(1)
        stop.set()
        verdict = running.result(120)
    assert {name: found for name, found in scene.found.items() if found} == {}
    assert (verdict.progress.read, verdict.progress.waiting) == ((1818, 3600), (0, 0))
    assert any(each.waiting[0] for each in shown)
    assert {at[0] for at in verdict.offsets[0]} == {stream.topics[0], table.topics[0]}


def command(kafka: KafkaConfig, script: Path, left: str, right: str, *options: str) -> int:
    sides = ("--left", f"{kafka.servers}/{left}", "--right", f"{kafka.servers}/{right}")
    return main(["shadow", *sides, "--app", str(script), "--until-caught-up", "--patience", "2", *options])


CLI_APP = """
DEFINE many = '2';
CREATE STREAM S (K STRING KEY, N BIGINT) WITH (KAFKA_TOPIC='{0}_s', VALUE_FORMAT='JSON', PARTITIONS=${{many}});
CREATE STREAM OTHER WITH (KAFKA_TOPIC='{0}_other') AS SELECT * FROM S;
CREATE TABLE T WITH (KAFKA_TOPIC='{0}_t') AS SELECT K, SUM(N) AS TOTAL, COUNT(*) AS C FROM S GROUP BY K;
INSERT INTO OTHER SELECT * FROM S;
"""


@pytest.fixture
def application(kafka: KafkaConfig, tmp_path: Path) -> tuple[Path, str]:
    """A script, and the prefix of its topics, whose inputs are there."""
    prefix, script = f"sh{time.time_ns()}", tmp_path / "app.sql"
    script.write_text(CLI_APP.format(prefix), encoding="utf-8")
    create(kafka.servers, PARTITIONS, *(f"{prefix}_{name}" for name in ("s", "t", "ours", "other")))
    inputs = [row(key, {"N": n}, 1000 * n) for n in range(1, 6) for key in "ab"]
    sums = [row(key, {"TOTAL": n * (n + 1) // 2, "C": n}, 1000 * n) for n in range(1, 6) for key in "ab"]
    records = [(f"{prefix}_s", each) for each in inputs]
    records += [(f"{prefix}_{name}", each) for name in ("t", "ours") for each in sums]
    write(kafka.servers, records)
    return script, prefix


def test_the_verdict_says_up_to_where_both_are_equal(
    kafka: KafkaConfig, application: tuple[Path, str], capsys: pytest.CaptureFixture[str]
) -> None:
    script, prefix = application
    assert command(kafka, script, f"{prefix}_t", f"{prefix}_ours") == 0
    said = capsys.readouterr()
    assert said.out.startswith("equal up to these offsets: 10 records\n"), said
    assert "T is a table, of which the last values of 2 keys count" in said.out
    assert "0 agree, 0 differ; left 0 read" in said.err
    assert command(kafka, script, f"{prefix}_t", f"{prefix}_none") == 2
    assert f"the right broker {kafka.servers} has no topic {prefix}_none" in capsys.readouterr().err
    assert command(kafka, script, f"{prefix}_t", f"{prefix}_ours", "--json") == 0
    *_, verdict = map(json.loads, capsys.readouterr().out.splitlines())
    assert (verdict["verdict"]["equal"], verdict["verdict"]["agree"]) == (True, 10)
    ends = {
        topic: sum(offsets.values())
        for side in verdict["verdict"]["offsets"].values()
        for topic, offsets in side.items()
    }
    assert ends == {f"{prefix}_t": 10, f"{prefix}_ours": 10}


def test_without_topics_all_sinks_of_a_script_are_compared(
    kafka: KafkaConfig, application: tuple[Path, str], capsys: pytest.CaptureFixture[str]
) -> None:
    script, prefix = application
    # Another name of the same broker.
    sides = ("--left", kafka.servers, "--right", kafka.servers.replace("127.0.0.1", "localhost"))
    write(kafka.servers, [(f"{prefix}_other", row("a", {"N": 1}))])
    assert main(["shadow", *sides, "--app", str(script), "--until-caught-up"]) == 0
    said = capsys.readouterr().out
    assert "equal up to these offsets: 11 records" in said
    assert f"{prefix}_other-0" in said


def test_a_difference_comes_with_its_inputs_and_is_a_case_that_can_be_made_small(
    kafka: KafkaConfig, application: tuple[Path, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    script, prefix = application
    write(kafka.servers, [(f"{prefix}_t", row("a", {"TOTAL": 16, "C": 5}, 5000))])
    assert command(kafka, script, f"{prefix}_t", f"{prefix}_ours", "--cases", str(tmp_path / "cases")) == 1
    said, notes = capsys.readouterr()
    assert "1 case written to" in notes, notes
    assert "T: value.TOTAL differs" in said
    assert "value.TOTAL: 16 left, 15 right" in said
    assert f'input: topic {prefix}_s, key "a", value {{"N": 5}}, timestamp 5000' in said
    assert "different: 1, of which\n  1 in T: value.TOTAL differs" in said
    (case,) = (tmp_path / "cases").iterdir()
    assert qtt(["run", str(case), "--local"]) == 1
    assert "15" in capsys.readouterr().out
    assert qtt(["shrink", str(case), "--write", str(tmp_path / "small.json")]) == 0
    small = (tmp_path / "small.json").read_text(encoding="utf-8")
    assert '"TOTAL": 16' in small
    assert "COUNT" not in small
