"""RUN SCRIPT and VERSION at the prompt."""

from __future__ import annotations

from io import StringIO
from pathlib import Path

import pytest
from rich.console import Console

from kestrel_sql.cli.client_commands import ClientCommands, Leave, OnError
from kestrel_sql.cli.main import ExitCode, main
from kestrel_sql.cli.render import Display
from kestrel_sql.plan.codec.plan_file import engine_version


class Prompt:
    """Executes texts below a folder, and remembers the statements that it was to run."""

    def __init__(self, folder: Path) -> None:
        self.ran: list[str] = []
        self.out, self.errors = StringIO(), StringIO()
        self._folder = folder
        self.display = Display(Console(file=self.out, width=300), Console(file=self.errors, width=200))
        self.on_error = OnError.STOP

    def execute(self, text: str) -> bool:
        return ClientCommands(self._run, self.display, self.on_error).execute(text, self._folder)

    def _run(self, text: str) -> bool:
        self.ran.append(text)
        return "wrong" not in text


@pytest.mark.rules("R15.1", "R15.2")
def test_statements_keep_their_positions(tmp_path: Path) -> None:
    (tmp_path / "b.sql").write_text("SHOW TABLES;")
    prompt = Prompt(tmp_path)
    assert prompt.execute("SHOW STREAMS;\nrun script 'b.sql'; version;\n SHOW TOPICS; SHOW TYPES;")
    assert prompt.ran == ["SHOW STREAMS;", "SHOW TABLES;", "\n\n SHOW TOPICS;", f"\n\n{' ' * 14}SHOW TYPES;"]
    assert prompt.out.getvalue() == f"Version: {engine_version()}\n"
    assert prompt.execute("no 'statement")
    assert prompt.ran[-1] == "no 'statement"


@pytest.mark.rules("R15.5")
def test_an_error_stops_the_text_or_costs_its_statement_only(tmp_path: Path) -> None:
    prompt = Prompt(tmp_path)
    assert not prompt.execute("SHOW STREAMS;\nwrong;\nSHOW TABLES;")
    assert prompt.ran == ["SHOW STREAMS;", "\nwrong;"]
    prompt.on_error = OnError.CONTINUE
    assert not prompt.execute("wrong \u201cx\u201d; SHOW TABLES; RUN SCRIPT 'none.sql'; SHOW TYPES;")
    assert [text.strip() for text in prompt.ran[2:]] == ["wrong \u201cx\u201d;", "SHOW TABLES;", "SHOW TYPES;"]
    assert "none.sql cannot be read" in prompt.errors.getvalue()


@pytest.mark.rules("R15.4")
@pytest.mark.parametrize("word", ["exit", "QUIT;", "SHOW STREAMS; quit; SHOW TABLES;"])
def test_nothing_runs_after_exit(tmp_path: Path, word: str) -> None:
    prompt = Prompt(tmp_path)
    with pytest.raises(Leave):
        prompt.execute(word)
    assert prompt.ran in ([], ["SHOW STREAMS;"])


@pytest.mark.rules("R15.3")
def test_set_cli_changes_tables(tmp_path: Path) -> None:
    prompt = Prompt(tmp_path)
    assert prompt.execute("set cli column-width 4; SET CLI WRAP OFF;")
    prompt.display.rows(["A"], [["abcdefgh"]])
    assert "abc\u2026 " in prompt.out.getvalue()
    assert prompt.execute("SET CLI WRAP 'ON'; SET CLI COLUMN-WIDTH 0;")
    prompt.display.rows(["A"], [["x" * 200]])
    assert "x" * 200 in prompt.out.getvalue()
    assert not prompt.execute("SET CLI COLOUR ON;")
    assert "SET CLI WRAP" in prompt.errors.getvalue()


PIPED = [
    ("SHOW TABLES;\nquit\nnonsense", 0, ["Table Name"], ""),
    ("SHOW TABLES;\nSHOW\n  STREAMS;", 0, ["Table Name", "Stream Name"], ""),
    ("SHOW TABLES;\nnonsense;\nSHOW STREAMS;", 1, ["Table Name"], "at 2:1"),
    ("SHOW TABLES; exit; nonsense;", 0, ["Table Name"], ""),
    ("SHOW STREAMS", 1, [], "a statement ends with a semicolon"),
    ("set cli wrap off\nSET CLI COLUMN-WIDTH 9\nSHOW TABLES;\nquit\n", 0, ["Table Name"], ""),
]


@pytest.mark.rules("R15.4", "R15.5")
@pytest.mark.parametrize(("text", "code", "shown", "said"), PIPED)
def test_piped_statements_run_as_they_come(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    text: str,
    code: int,
    shown: list[str],
    said: str,
) -> None:
    monkeypatch.setattr("sys.stdin", StringIO(text))
    assert main(["shell"]) == code
    found = capsys.readouterr()
    assert [line.partition("\t")[0] for line in found.out.splitlines()] == shown
    assert said in found.err


@pytest.mark.rules("R15.4")
def test_help_says_what_can_be_typed(tmp_path: Path) -> None:
    prompt = Prompt(tmp_path)
    assert prompt.execute("help")
    assert "SHOW STREAMS|TABLES" in prompt.out.getvalue()


@pytest.mark.rules("R15.1")
def test_a_script_runs_those_beside_it(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "a.sql").write_text("RUN SCRIPT 'b.sql'; SHOW TOPICS;")
    (tmp_path / "sub" / "b.sql").write_text("wrong;")
    prompt = Prompt(tmp_path)
    assert not prompt.execute("RUN SCRIPT 'sub/a.sql'; SHOW TYPES;")
    assert prompt.ran == ["wrong;"]
    assert prompt.errors.getvalue().splitlines() == [
        f"  in the script {tmp_path}/sub/b.sql",
        f"  in the script {tmp_path}/sub/a.sql",
    ]


@pytest.mark.rules("R15.1")
@pytest.mark.parametrize(
    ("content", "said"), [(None, "cannot be read"), ("  \n", "is empty"), ("RUN SCRIPT 'a.sql';", "runs itself")]
)
def test_a_script_that_cannot_run(tmp_path: Path, content: str | None, said: str) -> None:
    if content is not None:
        (tmp_path / "a.sql").write_text(content)
    prompt = Prompt(tmp_path)
    assert not prompt.execute("SHOW TYPES;\nRUN SCRIPT 'a.sql';")
    assert prompt.ran == ["SHOW TYPES;"]
    shown = prompt.errors.getvalue()
    assert said in shown
    assert "^" in shown


@pytest.mark.rules("R15.1")
def test_the_shell_runs_them(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "a.sql").write_text("SHOW STREAMS;")
    (tmp_path / "all.sql").write_text("RUN SCRIPT 'a.sql'; VERSION;")
    assert main(["shell", "--file", str(tmp_path / "all.sql")]) == ExitCode.OK
    said = capsys.readouterr().out
    assert "Stream Name" in said
    assert engine_version() in said
    assert main(["shell", "--execute", "RUN SCRIPT 'nowhere.sql';"]) == ExitCode.REFUSED


@pytest.mark.rules("R15.1", "R15.2")
def test_run_knows_them(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "a.sql").write_text(
        "CREATE STREAM s (k INT KEY) WITH (kafka_topic='s', value_format='JSON', partitions=1);"
    )
    app = tmp_path / "app.sql"
    app.write_text("RUN SCRIPT 'sub/a.sql';\nVERSION;\nSHOW STREAMS;")
    assert main(["run", str(app)]) == ExitCode.OK
    said = capsys.readouterr()
    assert "JSON" in said.out
    assert f"Version: {engine_version()}" in said.err
    (tmp_path / "sub" / "a.sql").write_text("CREATE STREAM s;\nSHOW WRONG;")
    assert main(["run", str(app)]) == ExitCode.REFUSED
    assert f"in the script {tmp_path / 'sub' / 'a.sql'}" in capsys.readouterr().err
