"""SQL scripts of tests and the form of three files, as far as they need no engine."""

from __future__ import annotations

from pathlib import Path

import pytest

from kestrel_qtt.cases.discovery import Kind, case_file, find_files
from kestrel_qtt.cases.model import Case
from kestrel_qtt.ksqldb.sql_scripts import ScriptCase
from kestrel_qtt.load import load, load_all

SCRIPT = """\
-- a comment
--@test: first one
CREATE STREAM a;
--@Test: second
--@expected.error: java.Error
--@expected.message: no way
CREATE STREAM b;

--@test: only a title
--@test: second
DROP STREAM b;
"""


def script(folder: Path, text: str) -> Path:
    path = folder / "x.sql"
    path.write_text(text, encoding="utf-8")
    return path


def test_a_literal_may_hold_what_python_takes_for_the_end_of_a_line(tmp_path: Path) -> None:
    (case,) = load(script(tmp_path, "--@test: one\nCREATE STREAM a AS SELECT '\u2028--@test: two' FROM b;\n")).cases
    assert "'\u2028--@test: two'" in case.statements[0]


@pytest.mark.rules("Q14.1")
def test_cuts_a_script_into_tests(tmp_path: Path) -> None:
    loaded = load(script(tmp_path, SCRIPT))
    assert loaded.errors == ()
    assert [case.id.rpartition("::")[2] for case in loaded.cases] == ["first-one", "second", "second~2"]
    first, second, third = loaded.cases
    assert isinstance(first, ScriptCase)
    assert (first.line, first.expected_exception) == (2, None)
    assert first.statements[0].splitlines()[2] == "CREATE STREAM a;"
    assert second.expected_exception is not None
    assert (second.expected_exception.type, second.expected_exception.message) == ("java.Error", "no way")
    assert "DROP STREAM b;" in third.statements[0]
    assert third.statements[0].splitlines().index("DROP STREAM b;") == SCRIPT.splitlines().index("DROP STREAM b;")


@pytest.mark.rules("Q14.1")
def test_a_test_of_a_script_names_its_rules(tmp_path: Path) -> None:
    (case,) = load(script(tmp_path, "--@test: x\n--@rules: L5.22 Q14.2\nDROP STREAM a;\n")).cases
    assert case.rules == ("L5.22", "Q14.2")


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("CREATE STREAM a;\n--@test: late\n", 1),
        ("--@test: x\n--@expected.error: y\nDROP STREAM a;\n", 1),
    ],
)
def test_scripts_that_cannot_be_read(tmp_path: Path, text: str, line: int) -> None:
    loaded = load(script(tmp_path, text))
    assert [error.line for error in loaded.errors] == [line]


def test_a_script_without_tests_is_run_by_others(tmp_path: Path) -> None:
    path = script(tmp_path, "CREATE STREAM a;")
    assert list(find_files([tmp_path])) == []
    with pytest.raises(FileNotFoundError, match="not a case file"):
        case_file(path)


def three(folder: Path, **files: str) -> Path:
    folder.mkdir(exist_ok=True)
    for name, text in files.items():
        (folder / f"{name}.{'sql' if name == 'statements' else 'json'}").write_text(text, encoding="utf-8")
    return folder


@pytest.mark.rules("Q15.1")
def test_three_files_are_one_case(tmp_path: Path) -> None:
    outputs = '{"outputs": [{"topic": "o", "value": 1.50}]}'
    folder = three(
        tmp_path / "peaks",
        statements="CREATE STREAM a;",
        input='{"inputs": [{"topic": "i", "value": 1}]}',
        output=outputs,
    )
    assert [(file.path.name, file.kind) for file in find_files([folder])] == [("statements.sql", Kind.THREE_FILE)]
    (case,) = load_all(find_files([folder])).cases
    assert type(case) is Case
    assert (case.name, case.statements) == ("peaks", ("CREATE STREAM a;",))
    assert [record.topic for record in case.inputs] == ["i"]
    assert str((case.outputs or ())[0].value) == "1.50"


@pytest.mark.rules("Q15.2")
def test_the_files_of_a_script_are_found_by_content(tmp_path: Path) -> None:
    inputs, outputs = '{"inputs": [{"topic": "i", "value": 1}]}', '{ "outputs": [{"topic": "o", "value": 2}]}'
    for folder, names in {
        "alone": ("app.ksql", "in.json", "expected.json"),
        "pair": ("a.sql", "a_i.json", "a_o.json"),
    }.items():
        (tmp_path / folder).mkdir()
        for name, text in zip(names, ("CREATE STREAM a;", inputs, outputs), strict=True):
            (tmp_path / folder / name).write_text(text)
    (tmp_path / "pair" / "b.ksql").write_text("CREATE STREAM b;")
    (tmp_path / "pair" / "b.json").write_text(outputs)
    (tmp_path / "pair" / "c.sql").write_text("CREATE STREAM c;")
    cases = load_all(find_files([tmp_path])).cases
    assert [(case.name, len(case.inputs), len(case.outputs or ())) for case in cases] == [
        ("app", 1, 1),
        ("a", 1, 1),
        ("b", 0, 1),
    ]


@pytest.mark.parametrize(
    ("files", "at"),
    [
        ({"output": "{}"}, "output.json"),
        ({"output": "{"}, "output.json"),
        ({"output": '{"outputs": [{"topic": "o"}]}'}, "output.json"),
        ({"output": '{"outputs": [{"topic": "o", "value": 1}]}', "input": '{"inputs": []}'}, "input.json"),
        ({"output": '{"outputs": 3}'}, "output.json"),
        ({"input": "{}"}, "output.json"),
    ],
)
def test_three_files_that_cannot_be_read(tmp_path: Path, files: dict[str, str], at: str) -> None:
    folder = three(tmp_path / "x", statements="CREATE STREAM a;", **files)
    loaded = load(folder / "statements.sql")
    assert [error.file.name for error in loaded.errors] == [at]
