from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from kestrel_qtt.cli.main import ExitCode, main
from kestrel_qtt.drivers import open as drivers
from kestrel_qtt.drivers.driver import DriverError

INPUTS = [{"topic": "IN", "value": {"A": 1}, "timestamp": 5}]
GOOD = {"name": "good one", "statements": ["COPY"], "inputs": INPUTS, "outputs": [{"topic": "OUT", "value": {"A": 1}}]}
BAD = {**GOOD, "name": "bad one", "outputs": [{"topic": "OUT", "value": {"A": "1"}}]}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "test-cases").mkdir()
    return tmp_path / "test-cases"


def write(path: Path, *cases: Any) -> str:
    path.write_text(json.dumps({"tests": list(cases)}, indent=2))
    return str(path)


def test_run(folder: Path, fake: Any, capsys: pytest.CaptureFixture[str]) -> None:
    path = write(folder / "x.json", GOOD, BAD)
    assert (
        main(["run", path, "--json", "out/r.json", "--cut", "random:7", "--restart"], lambda: fake) == ExitCode.FAILURES
    )
    out = capsys.readouterr().out
    assert "FAILED test-cases/x.json::bad-one" in out
    assert '"1" (string)' in out
    assert "1 passed, 1 failed" in out
    assert json.loads(Path("out/r.json").read_text())["summary"]["failed"] == 1
    assert (fake.options[0].cut, fake.options[0].restart, fake.closed) == ("random:7", True, 1)
    assert main(["run", path, "-k", "good"], lambda: fake) == ExitCode.OK
    assert main(["run", path, "--shard", "2/2"], lambda: fake) == ExitCode.FAILURES
    assert main(["run", str(folder), "--shard", "1/2"], lambda: fake) == ExitCode.OK


@pytest.mark.parametrize(
    ("command", "carrier"),
    [
        *((each, "spark") for each in ("run", "approve", "plans run", "run --on spark --cut one")),
        *((each, "process") for each in ("watch", "mutate", "shrink", "coverage --branches", "run --on process")),
        *(("run --local", "process"), ("approve --local", "process"), ("mutate --on spark", "spark")),
    ],
)
def test_what_carries_the_queries_of_cases(
    folder: Path, fake: Any, monkeypatch: pytest.MonkeyPatch, command: str, carrier: str
) -> None:
    asked: list[str] = []

    def opened(carrier: str) -> Any:
        asked.append(carrier)
        raise DriverError("asked for")

    monkeypatch.setattr(drivers, "open_driver", opened)
    case = {name: value for name, value in GOOD.items() if command.split()[0] != "approve" or name != "outputs"}
    path = "historic-plans" if command == "plans run" else write(folder / "x.json", case)
    if command == "plans run":
        main(["plans", "record", str(write(folder / "x.json", GOOD)), "--plans", path], lambda: fake)
    assert main([*command.split(), path]) == ExitCode.USAGE
    assert asked == [carrier]


@pytest.mark.parametrize(
    "command",
    [
        *("run", "list", "explain", "approve", "mutate", "shrink", "plans amend --reason O9.4 --without-oracle"),
        *(f"plans {action}" for action in ("record", "check", "run", "explain", "prove", "checkpoint", "resume")),
        *("plans compact", "plans adopt"),
    ],
)
def test_a_folder_without_cases_or_plans_ends_as_with_pytest(folder: Path, fake: Any, command: str) -> None:
    (folder / "empty").mkdir()
    assert main([*command.split(), str(folder / "empty")], lambda: fake) == ExitCode.NO_CASES
    assert not fake.groups


def test_usage_errors(folder: Path, fake: Any, capsys: pytest.CaptureFixture[str]) -> None:
    path = write(folder / "x.json", GOOD)
    assert main(["run", "nothing.json"], lambda: fake) == ExitCode.USAGE
    assert "nothing.json does not exist" in capsys.readouterr().err
    assert main(["run", path, "-k", "zzz"], lambda: fake) == ExitCode.NO_CASES
    assert main(["run", path, "--shard", "9/9"], lambda: fake) == ExitCode.OK
    assert main(["run", path, "-k", "and"], lambda: fake) == ExitCode.USAGE
    assert main(["run", path, "--shard", "3/2"], lambda: fake) == ExitCode.USAGE
    assert main(["run", path, "--local", "--cold"], lambda: fake) == ExitCode.USAGE
    assert main(["warm", "--all"]) == ExitCode.USAGE
    record = ["record", "--kafka", "h:1", "--app", "a.sql", "--topic", "t=last:1"]
    assert main([*record, "--salt", "x"]) == ExitCode.USAGE
    assert main(["run"], lambda: fake) == ExitCode.USAGE
    for arguments in (["run", path, "--cut", "half"], ["list"], [], ["run", path, "--group-size", "0"]):
        with pytest.raises(SystemExit) as caught:
            main(arguments, lambda: fake)
        assert caught.value.code == ExitCode.USAGE
    assert not fake.groups


def test_bad_case_file_is_reported_and_others_run(folder: Path, fake: Any, capsys: pytest.CaptureFixture[str]) -> None:
    write(folder / "x.json", GOOD, {**GOOD, "name": "typo", "ouputs": []})
    assert main(["run", "test-cases", "--json", "r.json"], lambda: fake) == ExitCode.USAGE
    out = capsys.readouterr().out
    assert "did you mean `outputs`?" in out
    assert "1 passed, 1 error in" in out
    assert json.loads(Path("r.json").read_text())["cases"][0]["status"] == "error"


def test_known_gaps(folder: Path, fake: Any, capsys: pytest.CaptureFixture[str]) -> None:
    write(folder / "x.json", BAD, GOOD)
    ledger = folder / "known-gaps.yaml"
    ledger.write_text("- {case: 'test-cases/x.json::bad-one', reason: later, kind: notimpl}\n")
    assert main(["run", "test-cases"], lambda: fake) == ExitCode.OK
    shown = capsys.readouterr().out
    assert "1 passed, 1 known gap in" in shown
    assert "test-cases/x.json::bad-one: known gap, notimpl: later" in shown
    ledger.write_text("- {case: 'test-cases/x.json::good-one', reason: later, kind: notimpl}\n")
    assert main(["run", "test-cases", "-k", "good"], lambda: fake) == ExitCode.FAILURES
    ledger.write_text("- {case: 'test-cases/x.json::gone', reason: later, kind: notimpl}\n")
    assert main(["run", "test-cases", "-k", "good"], lambda: fake) == ExitCode.USAGE
    assert "there is no case test-cases/x.json::gone" in capsys.readouterr().out


def test_several_ledgers(folder: Path, fake: Any) -> None:
    write(folder / "x.json", BAD, {**BAD, "name": "worse"})
    ledgers = []
    for name in ("bad-one", "worse"):
        ledgers += ["--known-gaps", f"{name}.yaml"]
        Path(f"{name}.yaml").write_text(f"- {{case: 'test-cases/x.json::{name}', reason: later, kind: notimpl}}\n")
    assert main(["run", "test-cases", *ledgers], lambda: fake) == ExitCode.OK
    assert main(["run", "test-cases", *ledgers[:2]], lambda: fake) == ExitCode.FAILURES


def test_every_nth_case_of_each_file(folder: Path, fake: Any) -> None:
    path = write(folder / "x.json", GOOD, BAD)
    assert main(["run", path, "--every", "2"], lambda: fake) == ExitCode.OK


def test_a_run_on_a_broker(
    folder: Path, fake: Any, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: list[str] = []

    def open_kafka_driver(servers: str) -> Any:
        opened.append(servers)
        if servers == "away:1":
            raise DriverError("the broker away:1 does not answer")
        return fake

    monkeypatch.setattr(drivers, "open_kafka_driver", open_kafka_driver)
    write(folder / "x.json", GOOD)
    (folder / "y.sql").write_text(
        "--@test: a script\nCREATE STREAM S (ID INT) WITH (kafka_topic='s', value_format='JSON');\n"
    )
    path = str(folder)
    assert main(["run", path, "--kafka", "here:1"]) == ExitCode.OK
    assert "1 cases of REST answers and SQL scripts run in memory only" in capsys.readouterr().err
    assert main(["run", path, "--kafka", "away:1"]) == ExitCode.USAGE
    assert "the broker away:1 does not answer" in capsys.readouterr().err
    assert main(["run", path, "--kafka", "here:1", "--restart"]) == ExitCode.USAGE
    assert opened == ["here:1", "away:1"]


def test_tolerant_errors(folder: Path, fake: Any) -> None:
    case = {"name": "no", "statements": ["REJECT this"], "expectedException": {"message": "that"}}
    path = write(folder / "x.json", case)
    assert main(["run", path], lambda: fake) == ExitCode.FAILURES
    assert main(["run", path, "--tolerant-errors"], lambda: fake) == ExitCode.OK


def test_list_and_explain(folder: Path, fake: Any, capsys: pytest.CaptureFixture[str]) -> None:
    path = write(folder / "x.json", GOOD, BAD)
    assert main(["list", path, "-k", "bad"], lambda: fake) == ExitCode.OK
    assert capsys.readouterr().out == "test-cases/x.json::bad-one\n"
    assert main(["explain", path, "-k", "bad"], lambda: fake) == ExitCode.OK
    assert "plan of x - bad one" in capsys.readouterr().out


def test_help_has_examples(capsys: pytest.CaptureFixture[str]) -> None:
    for arguments in (["--help"], ["run", "--help"], ["plans", "check", "--help"]):
        with pytest.raises(SystemExit):
            main(arguments)
        assert "qtt run test-cases" in capsys.readouterr().out


OPEN = {name: value for name, value in GOOD.items() if name != "outputs"}


def test_approve_json(folder: Path, fake: Any) -> None:
    path = folder / "x.json"
    text = json.dumps({"tests": [{**OPEN, "name": "new"}, BAD, {**OPEN, "name": "new too", "inputs": []}]}, indent=2)
    path.write_text("// a comment\n" + text)
    assert main(["approve", str(path)], lambda: fake) == ExitCode.OK
    after = path.read_text()
    assert after.startswith("// a comment\n")
    assert '        {"topic": "OUT", "key": null, "value": {"A": 1}, "timestamp": 5}\n      ]\n    },' in after
    assert '"A": "1"' in after
    assert '"outputs": []' in after
    assert main(["run", str(path), "-k", "new"], lambda: fake) == ExitCode.OK
    assert main(["approve", str(path)], lambda: fake) == ExitCode.OK
    assert path.read_text() == after


YAML_TEXT = """tests:
  - name: new
    statements: [COPY]   # a comment
    inputs:
      - {topic: IN, value: 1.50, timestamp: 7}

  # between
  - statements: ["COPY"]
    inputs: []
    name: last"""


def test_approve_yaml(folder: Path, fake: Any) -> None:
    path = folder / "x.yaml"
    path.write_text(YAML_TEXT)
    assert main(["approve", str(path)], lambda: fake) == ExitCode.OK
    after = path.read_text()
    assert (
        '    outputs:\n      - {"topic": "OUT", "key": null, "value": 1.50, "timestamp": 7}\n\n  # between\n' in after
    )
    assert after.endswith("    name: last\n    outputs: []\n")
    assert main(["run", str(path)], lambda: fake) == ExitCode.OK


def test_approve_writes_nothing_for_a_case_that_does_not_run(
    folder: Path, fake: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    path = folder / "x.json"
    write(path, {"name": "new", "statements": ["REJECT this"]})
    before = path.read_text()
    assert main(["approve", str(path)], lambda: fake) == ExitCode.FAILURES
    assert path.read_text() == before
    assert "did not run to its end: this" in capsys.readouterr().out


def test_approve_refuses_variants_that_disagree(folder: Path, fake: Any, capsys: pytest.CaptureFixture[str]) -> None:
    path = folder / "x.json"
    write(path, {**OPEN, "statements": ["{FORMAT}"], "format": ["COPY", "REJECT"]})
    before = path.read_text()
    assert main(["approve", str(path), "-k", "COPY"], lambda: fake) == ExitCode.FAILURES
    assert path.read_text() == before


def test_plans(folder: Path, fake: Any, capsys: pytest.CaptureFixture[str]) -> None:
    path = write(folder / "x.json", GOOD)
    assert main(["plans", "check", path], lambda: fake) == ExitCode.FAILURES
    assert "no plan is stored" in capsys.readouterr().out
    assert main(["plans", "record", path], lambda: fake) == ExitCode.OK
    assert main(["plans", "check", path], lambda: fake) == ExitCode.OK
    assert main(["plans", "run", "historic-plans"], lambda: fake) == ExitCode.OK
    (plan,) = Path("historic-plans").rglob("plan.json")
    plan.write_text("{}")
    assert main(["plans", "run", "historic-plans"], lambda: fake) == ExitCode.USAGE


def test_a_run_imports_neither_other_commands_nor_the_engine_of_rest_cases(folder: Path) -> None:
    statements = [
        "CREATE STREAM A (N INT) WITH (KAFKA_TOPIC='IN', VALUE_FORMAT='JSON');",
        "CREATE STREAM B WITH (KAFKA_TOPIC='OUT') AS SELECT N + 1 AS N FROM A;",
    ]
    inputs, outputs = ([{"topic": topic, "value": {"N": n}}] for topic, n in (("IN", 1), ("OUT", 2)))
    write(Path("x.json"), {"name": "one", "statements": statements, "inputs": inputs, "outputs": outputs})
    late = (
        "kestrel_sql.queries",
        "kestrel_sql.server",
        "kestrel_qtt.drivers.rest",
        "kestrel_qtt.variants.shrink",
        "kestrel_sql.spark",
        "kestrel_sql.formats.bulk",
        "deepdiff",
        "jsonschema",
        "multiprocessing",
        "numpy",
        "pandas",
        "pyarrow",
        "pyspark",
        "rich.progress",
        "sqlglot",
        "xml",
    )
    code = (
        "import sys; from kestrel_qtt.cli.main import main; main(['run', 'x.json', '--local']);"
        f" print([n for n in sys.modules if n.startswith({late})], len(sys.modules))"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    names, _, number = found.stdout.splitlines()[-1].rpartition(" ")
    assert names == "[]"
    assert int(number) < BUDGET


BUDGET = 830
"""The modules that `qtt run --local` may import, Python's own among them."""


def test_a_folder_that_cannot_be_made_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "file"
    file.write_text("")
    assert main(["init", str(file)]) == ExitCode.USAGE
    assert capsys.readouterr().err == f"qtt: {file}: File exists\n"


def test_the_files_of_a_case_are_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    files = {"-s": tmp_path / "app.sql", "-i": tmp_path / "given", "-o": tmp_path / "expected"}
    files["-s"].write_text(
        "CREATE STREAM s (n INT) WITH (KAFKA_TOPIC='s', VALUE_FORMAT='JSON'); CREATE STREAM t AS SELECT n + 1 AS m FROM s;"
    )
    files["-i"].write_text('{"inputs": [{"topic": "s", "value": {"n": 1}}]}')
    files["-o"].write_text('{"outputs": [{"topic": "T", "value": {"M": 2}}]}')
    options = [text for name, file in files.items() for text in (name, str(file))]
    assert main(["run", "--local", *options]) == ExitCode.OK
    assert main(["run", "--local", *options[:4]]) == ExitCode.USAGE
    assert main(["run", "--local"]) == ExitCode.USAGE
    files["-o"].write_text('{"outputs": [{"topic": "T", "value": {"M": 3}}]}')
    assert main(["run", "--local", *options]) == ExitCode.FAILURES
