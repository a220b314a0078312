"""Which files a folder of scripts has and in which order, and what ksqlDB shows of a CREATE."""

from __future__ import annotations

from pathlib import Path

import pytest

from kestrel_sql.cli.exit_codes import ExitCode
from kestrel_sql.cli.main import main
from kestrel_sql.errors import StatementError
from kestrel_sql.session.session import Session
from kestrel_sql.sql.parse.parser import statements_of
from kestrel_sql.sql.script_files import script_files, statement_text

SHOWN = """
CREATE STREAM S (ID INTEGER KEY, N INTEGER) WITH (CLEANUP_POLICY='delete', KAFKA_TOPIC='s', PARTITIONS=1, VALUE_FORMAT='JSON');
CREATE TABLE T (ID INTEGER PRIMARY KEY, N INTEGER) WITH (KAFKA_TOPIC='t', VALUE_FORMAT='JSON', CLEANUP_POLICY='compact');
CREATE STREAM BIG WITH (CLEANUP_POLICY='delete', KAFKA_TOPIC='BIG', PARTITIONS=1, REPLICAS=1, RETENTION_MS=604800000) AS
SELECT * FROM S S WHERE (S.N > 1) EMIT CHANGES;
CREATE TABLE C WITH (CLEANUP_POLICY='compact', KAFKA_TOPIC='C', PARTITIONS=1, REPLICAS=1, RETENTION_MS=-1) AS
SELECT S.ID ID, COUNT(*) C FROM S S GROUP BY S.ID EMIT CHANGES;
CREATE TABLE W WITH (CLEANUP_POLICY='compact,delete', KAFKA_TOPIC='W', PARTITIONS=1, REPLICAS=1, RETENTION_MS=604800000)
AS SELECT S.ID ID, COUNT(*) C FROM S S WINDOW TUMBLING ( SIZE 1 DAYS ) GROUP BY S.ID EMIT CHANGES;
"""


@pytest.mark.rules("R15.6")
def test_the_scripts_of_a_folder_come_in_the_order_of_migrations(tmp_path: Path) -> None:
    names = ["V000002__b.ksql", "V10__a.sql", "V3__c.sql", "V3__d.SQL", "sub/V1.sql", "notes.txt", ".old/V0.sql"]
    for name in reversed(names):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(";")
    first = tmp_path / "notes.txt"
    found = script_files([first, tmp_path])
    assert [file.relative_to(tmp_path).as_posix() for file in found] == [
        "notes.txt",
        "V000002__b.ksql",
        "V3__c.sql",
        "V3__d.SQL",
        "V10__a.sql",
        "sub/V1.sql",
    ]
    (tmp_path / "empty").mkdir()
    with pytest.raises(StatementError, match="has no scripts"):
        script_files([tmp_path / "empty"])


@pytest.mark.rules("R15.7")
def test_texts_that_ksqldb_shows_are_taken() -> None:
    session = Session()
    for piece in statements_of(SHOWN):
        text = statement_text(piece)
        assert len(text.splitlines()[-1]) >= len(piece.text.splitlines()[-1])
        for parsed in session.parse(text):
            session.execute(parsed)
    assert [*session.catalog.sources] == ["S", "T", "BIG", "C", "W"]


@pytest.mark.rules("R15.7")
@pytest.mark.parametrize("policy", ["compact", "compact,delete", "x"])
def test_a_policy_that_is_chosen_is_refused(policy: str) -> None:
    (piece,) = statements_of(f"CREATE STREAM S (A INT) WITH (CLEANUP_POLICY='{policy}', KAFKA_TOPIC='s');")
    assert policy in statement_text(piece)


@pytest.mark.rules("R15.1", "R15.6")
def test_scripts_run_scripts_and_know_variables(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "parts").mkdir()
    (tmp_path / "parts" / "sources.txt").write_text(
        "CREATE STREAM S (ID INT KEY, N INT) WITH (KAFKA_TOPIC='${topic}', VALUE_FORMAT='JSON', PARTITIONS=1);"
    )
    (tmp_path / "V1__a.ksql").write_text("RUN SCRIPT 'parts/sources.txt'; INSERT INTO S VALUES (1, 5);")
    (tmp_path / "V2__b.sql").write_text("CREATE STREAM T AS SELECT * FROM S WHERE N > ${least}; DESCRIBE T;")
    options = ["--define", "topic=events", "--define", "least=4"]
    assert main(["run", str(tmp_path), *options]) == ExitCode.OK
    assert '"value": {"N": 5}' in capsys.readouterr().out
    assert main(["shell", "--file", str(tmp_path / "V1__a.ksql"), str(tmp_path / "V2__b.sql"), *options]) == ExitCode.OK
    assert main(["import", str(tmp_path), *options]) == ExitCode.OK
    assert "sources.txt:1" in capsys.readouterr().out
    (tmp_path / "V3__c.sql").write_text("SHOW STREAMS;\nDESCRIBE NOTHING;")
    assert main(["run", str(tmp_path), *options]) == ExitCode.REFUSED
    assert f"in the script {tmp_path / 'V3__c.sql'}" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("file", "schema"),
    [
        ("t.avsc", '{"type":"record","name":"T","fields":[{"name":"A","type":"int"}]}'),
        ("t.proto", 'syntax = "proto3"; message T { int32 A = 1; }'),
        ("t.json", '{"type":"object","properties":{"A":{"type":"integer","connect.type":"int32"}}}'),
    ],
)
def test_schemas_of_files(tmp_path: Path, capsys: pytest.CaptureFixture[str], file: str, schema: str) -> None:
    (tmp_path / file).write_text(schema)
    formats = {"avsc": "AVRO", "proto": "PROTOBUF", "json": "JSON_SR"}
    form = formats[file.partition(".")[2]]
    script = tmp_path / "app.sql"
    script.write_text(
        f"CREATE STREAM S WITH (KAFKA_TOPIC='t', VALUE_FORMAT='{form}', PARTITIONS=1); INSERT INTO S (A) VALUES (3);"
        " CREATE STREAM T AS SELECT A + 1 AS B FROM S;"
    )
    given = ["--schema", f"t-value={tmp_path / file}"]
    assert main(["import", str(script)]) == ExitCode.REFUSED
    assert main(["import", str(script), *given]) == ExitCode.OK
    capsys.readouterr()
    assert main(["run", str(script), *given]) == ExitCode.OK
    assert '{"B": 4}' in capsys.readouterr().out
    assert main(["shell", "--file", str(script), *given]) == ExitCode.OK
    broker = ["--bootstrap-servers", "127.0.0.1:9", "--checkpoint", str(tmp_path / "c")]
    assert main(["run", str(script), *broker, *given]) == ExitCode.REFUSED
    assert "only their registry knows" in capsys.readouterr().err
