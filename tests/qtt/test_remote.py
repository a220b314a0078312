"""Cases under names of their own, for a server that runs; what they do there is in tests/kafka/test_remote_cases.py."""

from __future__ import annotations

from pathlib import Path

import pytest

from kestrel_qtt.cases.model import Case, InputRecord, OutputRecord, Topic
from kestrel_qtt.cli.main import ExitCode, main
from kestrel_qtt.drivers.records.prepare import prepare
from kestrel_qtt.drivers.remote.driver import can_run, comparable
from kestrel_qtt.drivers.remote.names import OwnNames


def case(*statements: str, **more: object) -> Case:
    return Case(id="x", file=Path("x"), line=1, name="x", statements=statements, **more)  # type: ignore[arg-type]


def test_a_case_under_names_of_its_own_is_the_same_case() -> None:
    given = case(
        "CREATE TYPE pair AS STRUCT<a INT, b ARRAY<INT>>;",
        "CREATE STREAM s (id INT KEY, p pair) WITH (kafka_topic='In', value_format='${f}', partitions=2);",
        "CREATE TABLE `t` (id INT PRIMARY KEY, n INT) WITH (kafka_topic='t', value_format='JSON', partitions=2);",
        "CREATE STREAM j AS SELECT s.id, s.p->a AS a, CAST(null AS pair) AS q, x.n FROM s JOIN `t` x ON s.id = x.id;",
        "INSERT INTO j SELECT id AS s_id, p->a AS a, p AS q, 1 AS n FROM s;",
        "CREATE TABLE counted WITH (kafka_topic='c') AS SELECT a, COUNT(*) AS n FROM j GROUP BY a;",
        "INSERT INTO s (id) VALUES (1);",
        "DROP TYPE IF EXISTS other;",
        variables={"f": "JSON"},
        inputs=(InputRecord(topic="In"),),
        outputs=(OutputRecord(topic="J"),),
        topics=(Topic(name="In", partitions=2),),
    )
    names = OwnNames("QTT1_")
    own = names.case(given)
    assert (own.inputs[0].topic, own.topics[0].name) == ("qtt1_In", "qtt1_In")
    before, after = prepare(given), prepare(own)
    assert after.outcome is None
    assert {names.given(name) for name in after.session.catalog.sources} == {*before.session.catalog.sources}
    assert all(name.startswith("QTT1_") for name in after.session.catalog.sources)
    topics = {source.topic for source in after.session.catalog.sources.values()}
    assert topics == {"qtt1_In", "qtt1_t", "qtt1_J", "qtt1_c"}
    for name, source in before.session.catalog.sources.items():
        assert after.session.catalog.sources[f"QTT1_{name}"].schema == source.schema


def test_what_a_server_cannot_run_or_show() -> None:
    stream = "CREATE STREAM s (a INT) WITH (kafka_topic='s', value_format='{}');"
    assert can_run(case(stream.format("JSON"), outputs=()), schemas=False)
    assert not can_run(case(stream.format("JSON")), schemas=False)
    assert not can_run(case(stream.format("AVRO"), outputs=()), schemas=False)
    assert can_run(case(stream.format("AVRO"), outputs=()), schemas=True)
    assert not can_run(case(stream.format("JSON"), outputs=(), functions=("mine.py",)), schemas=False)
    assert comparable(case(stream, log=(), outputs=()), cached=False).log is None


def test_with_a_cache_the_last_change_of_each_key_of_a_table_is_compared() -> None:
    records = [("T", 1, 1), ("T", 2, 1), ("T", 1, 2), ("s2", 1, 1), ("s2", 1, 2)]
    given = case(
        "CREATE STREAM s (a INT KEY) WITH (kafka_topic='s', value_format='JSON');",
        "CREATE TABLE t AS SELECT a, COUNT(*) AS n FROM s GROUP BY a;",
        "CREATE STREAM s2 WITH (kafka_topic='s2') AS SELECT * FROM s;",
        outputs=tuple(OutputRecord(topic=topic, key=key, value=n) for topic, key, n in records),
    )
    outputs = comparable(given, cached=True).outputs or ()
    assert {(each.topic, each.key, each.value) for each in outputs} == {*records[1:]}
    assert comparable(given, cached=False).outputs == given.outputs


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ([], "needs --kafka"),
        (["--kafka", "127.0.0.1:9", "--cut", "one"], "--cut has no effect"),
        (["--kafka", "127.0.0.1:9", "--local"], "leave one out"),
        (["--kafka", "127.0.0.1:9"], "does not answer"),
    ],
)
def test_wrong_usage(tmp_path: Path, capsys: pytest.CaptureFixture[str], options: list[str], said: str) -> None:
    file = tmp_path / "cases.yaml"
    file.write_text(
        "tests:\n- name: x\n  statements: [CREATE STREAM s (a INT) WITH (kafka_topic='s', value_format='JSON');]\n"
        "  outputs: []\n"
    )
    assert main(["run", str(file), "--ksqldb-server", "http://127.0.0.1:9", *options]) == ExitCode.USAGE
    assert said in capsys.readouterr().err
