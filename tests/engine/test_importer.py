from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from kestrel_sql.cli.exit_codes import ExitCode
from kestrel_sql.cli.main import main
from kestrel_sql.errors import StatementError
from kestrel_sql.importer.entries import Outcome
from kestrel_sql.importer.report import Report, import_report
from kestrel_sql.planner.config import Config
from kestrel_sql.session.session import Session
from tests.engine.plan.plan_samples_text import aggregate_plan


def backup(tmp_path: Path, *commands: tuple[str, Any]) -> Report:
    file = tmp_path / "backup"
    file.write_text("\n".join(f"{json.dumps(key)}:{json.dumps(value)}" for key, value in commands), encoding="utf-8")
    return import_report([file])


def outcomes(report: Report) -> list[Outcome]:
    return [statement.outcome for statement in report.statements]


def planned(number: int) -> dict[str, Any]:
    return {"statement": "…", "plan": aggregate_plan()["plan"][number], "originalProperties": {}}


def test_the_plans_of_a_folder_are_tried_one_by_one(tmp_path: Path) -> None:
    good, bad = aggregate_plan(), aggregate_plan()
    bad["plan"][1]["queryPlan"]["physicalPlan"]["source"]["source"]["aggregationFunctions"] = ["NOPE(V)"]
    for name, document in (("a", good), ("b", bad), ("c", {"plan": [{"@type": "ksqlPlanV9"}]})):
        (tmp_path / name).mkdir()
        (tmp_path / name / "plan.json").write_text(json.dumps(document), encoding="utf-8")
    report = import_report([tmp_path])
    assert outcomes(report) == [Outcome.RUNS, Outcome.RUNS, Outcome.RUNS, Outcome.REFUSED, Outcome.REFUSED]
    assert [statement.origin for statement in report.statements][::2] == ["a/plan.json", "b/plan.json", "c/plan.json"]
    assert "NOPE" in report.statements[3].reason
    assert "ksqlPlanV9" in report.statements[4].reason
    assert not report.is_complete
    assert outcomes(import_report([tmp_path / "a" / "plan.json"])) == [Outcome.RUNS, Outcome.RUNS]


def test_commands_build_on_each_other(tmp_path: Path) -> None:
    report = backup(
        tmp_path,
        ("stream/IN/create", planned(0)),
        ("table/OUT/create", planned(1)),
        (
            "stream/Z/create",
            {"statement": 'CREATE STREAM Z AS SELECT K, V FROM "IN";'.replace('"IN"', "`IN`"), "plan": None},
        ),
        ("terminate/CTAS_OUT_0/execute", {"statement": "TERMINATE CTAS_OUT_0;", "plan": None}),
        ("terminate/CTAS_OUT_0/execute", {"statement": "TERMINATE CTAS_OUT_0;", "plan": None}),
        ("cluster/TerminateCluster/terminate", {"statement": "TERMINATE CLUSTER;", "plan": None}),
        ("terminate/CSAS_Z_0/execute", {"statement": "TERMINATE CSAS_Z_0;", "plan": None}),
    )
    assert outcomes(report) == [Outcome.RUNS] * 3 + [Outcome.NOTHING] * 4
    assert [statement.query for statement in report.statements][:3] == [None, "CTAS_OUT_0", "CSAS_Z_0"]
    assert [statement.reason for statement in report.statements][3:] == [
        "TERMINATE CTAS_OUT_0",
        "query CTAS_OUT_0 does not exist",
        "it ends all queries and the service",
        "query CSAS_Z_0 does not exist",
    ]
    assert report.is_complete


def test_a_refused_statement_does_not_stop_the_others(tmp_path: Path) -> None:
    newer = planned(1)
    newer["plan"]["queryPlan"]["physicalPlan"]["sinkMode"] = "FAST"
    report = backup(
        tmp_path,
        ("stream/IN/create", planned(0)),
        ("table/NEW/create", newer),
        ("x", {"statement": "SELEC;"}),
        ("table/OUT/create", planned(1)),
    )
    assert outcomes(report) == [Outcome.RUNS, Outcome.REFUSED, Outcome.REFUSED, Outcome.RUNS]
    assert "sinkMode" in report.statements[1].reason
    assert report.statements[2].code == "SYNTAX"


def test_the_report_as_text_and_json(tmp_path: Path) -> None:
    report = backup(tmp_path, ("stream/IN/create", planned(0)), ("k", {"statement": 1}))
    assert str(report).splitlines()[-1] == "of 2 statements: 1 runs, 1 refused"
    assert "REFUSED         k: (no statement)" in str(report)
    document = json.loads(report.to_json())
    assert document["summary"] == {"runs": 1, "refused": 1, "nothing": 0}
    assert [statement["outcome"] for statement in document["statements"]] == ["runs", "refused"]
    assert str(Report(())) == "there are no statements"


def test_a_path_without_plans_or_commands_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(StatementError, match="has no scripts"):
        import_report([tmp_path])
    with pytest.raises(StatementError, match="cannot be read"):
        import_report([tmp_path / "nothing"])


def test_the_statements_of_a_script_are_tried_one_by_one(tmp_path: Path) -> None:
    script = tmp_path / "app.sql"
    script.write_text(
        "CREATE STREAM S (ID INT KEY, A STRING) WITH (kafka_topic='s', value_format='JSON');\n\n"
        "CREATE STREAM T AS SELECT ID, UCAS(A) AS A FROM S;\nSHOW STREAMS;\n"
        "CREATE STREAM U AS SELECT * FROM S;\n"
    )
    report = import_report([script])
    assert outcomes(report) == [Outcome.RUNS, Outcome.REFUSED, Outcome.NOTHING, Outcome.RUNS]
    assert [entry.origin for entry in report.statements] == ["app.sql:1", "app.sql:3:31", "app.sql:4", "app.sql:5"]
    assert report.statements[1].hint == "did you mean UCASE?"
    # As it will be once the function is there.
    assert report.statements[3].query == "CSAS_U_1"
    script.write_text("CREATE STREAM;\nCREATE STREAM \u201cs\u201d;\nSHOW STREAMS; CREATE TYPE P AS STRUCT<X INT>")
    refused, curly, _, unfinished = import_report([script]).statements
    assert (refused.code, refused.origin) == ("SYNTAX", "app.sql:1:14")
    assert (curly.origin, curly.hint) == ("app.sql:2:15", "U+201C at 2:15: use '")
    assert unfinished.hint == "a statement ends with a semicolon"


@pytest.mark.parametrize("name", ["app.ksql", "app.txt", "app"])
def test_a_text_that_is_no_command_topic_is_a_script(tmp_path: Path, name: str) -> None:
    script = tmp_path / name
    script.write_text(
        "-- key:{ is no command\nSHOW TOPICS;\nVERSION;\nRUN SCRIPT 'none';\nCREATE TYPE A AS INT; EXIT; x;"
    )
    report = import_report([script])
    assert outcomes(report) == [Outcome.NOTHING, Outcome.NOTHING, Outcome.REFUSED, Outcome.RUNS]
    assert [entry.origin for entry in report.statements] == [f"{name}:{line}" for line in (2, 3, 4, 5)]


def test_scripts_share_a_session_and_plans_do_not(tmp_path: Path) -> None:
    (tmp_path / "V1.sql").write_text("CREATE STREAM S (A INT) WITH (KAFKA_TOPIC='s', VALUE_FORMAT='JSON');")
    (tmp_path / "V2.sql").write_text("CREATE STREAM T AS SELECT * FROM S;")
    assert import_report([tmp_path]).is_complete
    assert import_report([tmp_path / "V1.sql", tmp_path / "V2.sql"]).is_complete
    assert not import_report([tmp_path / "V2.sql"]).is_complete


def test_connectors_are_listed_with_what_they_feed(tmp_path: Path) -> None:
    script = tmp_path / "app.sql"
    script.write_text(
        "CREATE SOURCE CONNECTOR pg WITH ('connector.class'='x.Y', 'topic.prefix'='pg_');\n"
        "CREATE SINK CONNECTOR es WITH ('connector.class'='x.Z', 'topics'='a, b');\n"
        "CREATE STREAM S (A INT) WITH (KAFKA_TOPIC='pg_s', VALUE_FORMAT='JSON');\n"
        "SHOW CONNECTORS; DROP CONNECTOR IF EXISTS pg;"
    )
    feeds = ["feeds pg_… (S)", "reads a, b (no stream or table is over that)"]
    for setting, outcome in (
        ({}, Outcome.REFUSED),
        ({"ksql.connect.url": "http://127.0.0.1:9"}, Outcome.RUNS),
        ({"kestrel.connectors.skip": "true"}, Outcome.NOTHING),
    ):
        report = import_report([script], Session(config=Config.of(setting)))
        assert outcomes(report) == [outcome, outcome, Outcome.RUNS, Outcome.NOTHING, Outcome.NOTHING]
        assert [entry.reason.partition("; it ")[2] for entry in report.statements][:2] == feeds


def test_missing_functions_get_a_file_to_fill_in(tmp_path: Path) -> None:
    script, file = tmp_path / "app.sql", tmp_path / "functions.py"
    script.write_text(
        "CREATE STREAM S (ID INT KEY, PRICE DOUBLE, D STRUCT<IF INT>) WITH (KAFKA_TOPIC='s', VALUE_FORMAT='JSON');\n"
        "CREATE STREAM T AS SELECT ID, RISK(PRICE, D->IF, 'x') AS R, risk(ID) AS R2, OTHER() AS O FROM S;\n"
        "CREATE STREAM U AS SELECT ID, UCASE(R) AS R FROM T;"
    )
    report = import_report([script])
    assert outcomes(report) == [Outcome.RUNS, Outcome.REFUSED, Outcome.RUNS]
    assert {each.name: each.signatures for each in report.missing} == {
        "RISK": ["(price DOUBLE, if_ INTEGER, a3 STRING) -> STRING", "(price INTEGER) -> STRING"],
        "OTHER": ["() -> STRING"],
    }
    assert main(["import", str(script), "--stubs", str(file)]) == ExitCode.REFUSED
    assert main(["import", str(script), "--functions", str(file)]) == ExitCode.OK
