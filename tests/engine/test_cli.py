"""The command `kestrel`, as far as it needs no Spark."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from io import StringIO
from pathlib import Path

import pytest
from prompt_toolkit.application import create_app_session
from prompt_toolkit.completion import CompleteEvent
from prompt_toolkit.document import Document
from prompt_toolkit.history import FileHistory
from prompt_toolkit.input import create_pipe_input
from prompt_toolkit.output import DummyOutput
from rich.console import Console

from kestrel_sql.admin.answer import table
from kestrel_sql.cli.client_commands import ClientCommands
from kestrel_sql.cli.completion import SqlCompleter
from kestrel_sql.cli.main import ExitCode, main
from kestrel_sql.cli.prompt import prompt_session, run_shell
from kestrel_sql.cli.record_files import Inputs, InputShape, record_lines
from kestrel_sql.cli.render import Display, Form, shown, to_json
from kestrel_sql.cli.texts import is_complete, run_text
from kestrel_sql.errors import EngineError
from kestrel_sql.planner.config import Config
from kestrel_sql.queries.bad_records import BadRecords
from kestrel_sql.queries.engine import MemoryEngine
from kestrel_sql.server.broker.dry_run import Forecast
from kestrel_sql.session.session import Session

STREAM = "CREATE STREAM s (k INT KEY, v DOUBLE, b BYTES) WITH (kafka_topic='t', value_format='JSON', partitions=1);"


@pytest.fixture
def engine() -> Iterator[MemoryEngine]:
    made = MemoryEngine(Session(config=Config.of({"auto.offset.reset": "earliest"})))
    yield made
    made.close()


def test_functions(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["functions", "lpad"]) == ExitCode.OK
    assert "LPAD" in capsys.readouterr().out
    assert main(["functions"]) == ExitCode.OK
    capsys.readouterr()
    assert main(["functions", "nothing"]) == ExitCode.REFUSED
    assert capsys.readouterr().err.startswith("FUNCTION")


def test_shell_executes_statements_of_the_command_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["shell", "--execute", f"{STREAM} SHOW STREAMS;"]) == ExitCode.OK
    assert "KAFKA" in capsys.readouterr().out


def test_the_shell_says_what_each_statement_did(capsys: pytest.CaptureFixture[str]) -> None:
    changes = """
        CREATE STREAM T AS SELECT * FROM s;
        INSERT INTO T SELECT * FROM s;
        CREATE TYPE POINT AS STRUCT<X INT>;
        ALTER STREAM s ADD COLUMN w INT;
        TERMINATE CSAS_T_0;
        CREATE STREAM IF NOT EXISTS T AS SELECT * FROM s;
        SET 'auto.offset.reset' = 'latest';
        TERMINATE ALL;
        DROP STREAM T;
    """
    assert main(["shell", "--execute", f"{STREAM}{changes}"]) == ExitCode.OK
    assert capsys.readouterr().out.splitlines() == [
        "Stream created",
        "Created query with ID CSAS_T_0",
        "Created query with ID INSERTQUERY_1",
        "Registered custom type with name 'POINT' and SQL type STRUCT<`X` INTEGER>",
        "Stream S altered.",
        "Query terminated.",
        "Cannot add stream `T`: A stream with the same name already exists.",
        "Done",
        "Query terminated.",
        "Source `T` (topic: T) was dropped.",
    ]


LONG = "x" * 200
FORMS = [
    ([], ["V\tB", f"{LONG}\ta\\tb", "Done"]),
    (["--format", "tsv"], ["V\tB", f"{LONG}\ta\\tb", "Done"]),
    (["--format", "json"], [f'{{"V": "{LONG}", "B": "a\\tb"}}']),
    (["--format", "csv"], ["V,B", f"{LONG},a\tb"]),
]


@pytest.mark.parametrize(("options", "lines"), FORMS)
def test_what_goes_to_no_terminal_is_whole(options: list[str], lines: list[str]) -> None:
    out, errors = StringIO(), StringIO()
    form = Form(options[1]) if options else None
    display = Display.of(form, Console(file=out), Console(file=errors))
    display.answer(table(("V", "B"), [(LONG, "a\tb")]))
    display.say("Done")
    assert out.getvalue().splitlines() == lines
    assert errors.getvalue() == ("Done\n" if options[1:] in (["json"], ["csv"]) else "")


@pytest.mark.parametrize(
    ("form", "line"),
    [
        (Form.TSV, '\\N\tNULL\t\t\\\\N\ta,"b'),
        (Form.CSV, ',NULL,"",\\N,"a,""b"'),
        (Form.JSON, '{"A": null, "B": "NULL", "C": "", "D": "\\\\N", "E": "a,\\"b"}'),
    ],
)
def test_a_null_is_no_text(form: Form, line: str) -> None:
    out = StringIO()
    display = Display.of(form, Console(file=out), Console(file=StringIO()))
    display.answer(table(tuple("ABCDE"), [(None, "NULL", "", "\\N", 'a,"b')]))
    assert out.getvalue().splitlines()[-1] == line


def test_a_table_that_goes_to_no_terminal_is_whole(capsys: pytest.CaptureFixture[str]) -> None:
    statements = (
        f"CREATE STREAM s (k INT KEY) WITH (kafka_topic='{LONG}', value_format='JSON', partitions=1); SHOW STREAMS;"
    )
    assert main(["shell", "--format", "table", "--execute", statements]) == ExitCode.OK
    assert LONG in capsys.readouterr().out


def test_errors_show_the_place_and_no_trace(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["shell", "--execute", "DROP STREAM nothing;"]) == ExitCode.REFUSED
    err = capsys.readouterr().err
    assert "UNKNOWN_SOURCE" in err
    assert "^" in err
    assert "Traceback" not in err


def test_an_error_without_a_place_points_at_its_statement(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["shell", "--execute", f"{STREAM}\n  DROP TABLE s;"]) == ExitCode.REFUSED
    assert capsys.readouterr().err.splitlines() == [
        "STATEMENT at 2:3: Incompatible data source type is STREAM, but statement was DROP TABLE",
        "    DROP TABLE s;",
        "    ^^^^^^^^^^^^^",
    ]


def test_a_file_of_statements(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    script = tmp_path / "app.sql"
    script.write_text(f"{STREAM} DESCRIBE s;", encoding="utf-8")
    assert main(["shell", "--file", str(script)]) == ExitCode.OK
    assert "(key)" in capsys.readouterr().out
    assert main(["shell", "--file", str(tmp_path / "no.sql")]) == ExitCode.REFUSED


def test_a_dry_run_of_a_take_over_says_what_would_become_of_each_query(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    found = [Forecast("CTAS_A_1", "goes on", is_taken=True)]
    monkeypatch.setattr("kestrel_sql.cli.adopt.forecasts", lambda *_, **__: iter(found))
    options = ["adopt", "--bootstrap-servers", "h:1", "--service-id", "s_"]
    assert main(options) == ExitCode.USAGE
    assert "--dry-run" in capsys.readouterr().err
    assert main([*options, "--dry-run"]) == ExitCode.OK
    assert capsys.readouterr().out == "CTAS_A_1 goes on\n"
    found.append(Forecast("CTAS_B_2", "cannot be taken over", is_taken=False))
    assert main([*options, "--dry-run"]) == ExitCode.REFUSED


def test_run_without_a_query_needs_no_spark(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    script, data = tmp_path / "app.sql", tmp_path / "d.jsonl"
    script.write_text(f"{STREAM} PRINT t;", encoding="utf-8")
    data.write_text('{"key": 1, "value": {"V": 1.5}}\n', encoding="utf-8")
    assert main(["run", str(script), "--input", f"t={data}", "--set", "ksql.lambdas.enabled=false"]) == ExitCode.OK
    capsys.readouterr()
    assert main(["run", str(script), "--input", f"unread={data}"]) == ExitCode.REFUSED
    assert "no stream or table reads the topic unread" in capsys.readouterr().err
    assert main(["run", str(script), "--set", "colour=red"]) == ExitCode.REFUSED


@pytest.mark.parametrize("arguments", [[], ["run"], ["run", "x", "--input", "t"], ["shell", "--set", "x"], ["dance"]])
def test_wrong_usage(arguments: list[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        main(arguments)
    assert caught.value.code == ExitCode.USAGE


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ('[{"key": 1, "value": {"V": 1}}, {"key": 2, "value": null, "headers": [{"KEY": "h", "VALUE": "aGk="}]}]', 2),
        ('{"inputs": [{"key": 1, "value": {"V": 1}}]}', 1),
        ('{"key": 1, "value": {"V": 1}}', 1),
        ('{"key": 1, "value": {"V": 1}}\n\n{"key": 1, "value": {"V": 2}, "timestamp": 7}\n', 2),
    ],
)
def test_inputs(engine: MemoryEngine, tmp_path: Path, text: str, count: int) -> None:
    file = tmp_path / "x.json"
    file.write_text(text, encoding="utf-8")
    inputs = Inputs({"t": [file]})
    assert inputs.feed(engine) == 0
    for parsed in engine.session.parse(STREAM):
        engine.execute(parsed)
    assert inputs.feed(engine) == count
    assert inputs.feed(engine) == 0
    lines = list(record_lines(engine, "t"))
    assert len(lines) == count
    assert lines[0].startswith('{"topic": "t", "key": 1, "value": {"V": 1')


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{", "line 1: not JSON: Expecting property name enclosed in double quotes (column 2)"),
        ('[\n{"key": 1, "value": {}}\n{}]', "line 3: not JSON: Expecting ',' delimiter (column 1)"),
        ('{"key": 1, "value": {}}\n\nvalue\n', "line 3: not JSON: Expecting value (column 1)"),
        ('{"key": 1, "value": {}}\n{"key": 1, "valeu": {}}', "line 2: unknown member valeu of a record"),
        ('{"key": 1, "value": {}, "other": 1}', "record 1: unknown member other of a record"),
        ('{"inputs": [], "key": 1}', "record 1: unknown member inputs of a record"),
        ('{"V": 1.5}', "record 1: unknown member V of a record"),
        ("[1]", "record 1: expected an object with a value"),
        ('[{"key": 1, "value": {}}, {"key": 1}]', "record 2: the record has no value"),
        ('{"value": {}}', "record 1: the record has no key"),
        ("{}", "record 1: the record has no key and no value"),
        ('{"key": "x", "value": {}}', "record 1 does not fit S: "),
        ('{"key": 1, "value": {}, "timestamp": 1.5}', "record 1 does not fit S: expected a timestamp in milliseconds"),
        ('{"key": 1, "value": {}, "headers": [{"KEY": "h", "VALUE": "!"}]}', "record 1 does not fit S: "),
    ],
)
@pytest.mark.rules("E12.4")
def test_inputs_that_cannot_be_read(engine: MemoryEngine, tmp_path: Path, text: str, said: str) -> None:
    file = tmp_path / "x.json"
    file.write_text(text, encoding="utf-8")
    for parsed in engine.session.parse(STREAM):
        engine.execute(parsed)
    with pytest.raises(EngineError) as refused:
        Inputs({"t": [file]}).feed(engine)
    position = said if said.startswith(" ") else f", {said}"
    assert refused.value.message.startswith(f"{file}{position}")


@pytest.mark.rules("E12.5")
@pytest.mark.parametrize("text", ['{"V": 1}\n\n{"V": 2}', '[{"V": 1}, {"V": 2}]', '{"key": 1}\n{"inputs": []}'])
def test_bare_values(engine: MemoryEngine, tmp_path: Path, text: str) -> None:
    file = tmp_path / "x.json"
    file.write_text(text, encoding="utf-8")
    for parsed in engine.session.parse(STREAM):
        engine.execute(parsed)
    assert Inputs({"t": [file]}, InputShape.PLAIN).feed(engine) == 2
    assert [record.key for record in engine.broker.records("t")] == [None, None]


@pytest.mark.rules("E12.5")
def test_a_table_takes_no_bare_values(engine: MemoryEngine, tmp_path: Path) -> None:
    file = tmp_path / "x.json"
    file.write_text("{}", encoding="utf-8")
    for parsed in engine.session.parse(STREAM.replace("STREAM", "TABLE").replace("KEY", "PRIMARY KEY")):
        engine.execute(parsed)
    with pytest.raises(EngineError, match="record 1: a bare value has no key, which the table S needs"):
        Inputs({"t": [file]}, InputShape.PLAIN).feed(engine)


def test_shell_goes_on_after_errors_and_interrupts(engine: MemoryEngine, tmp_path: Path) -> None:
    lines: list[str | type[BaseException]] = [
        "",
        "help",
        "nonsense;",
        KeyboardInterrupt,
        STREAM,
        "SHOW STREAMS;",
        "exit",
        "SHOW TABLES;",
    ]
    asked = iter(lines)

    def ask() -> str:
        line = next(asked, EOFError)
        if isinstance(line, str):
            return line
        raise line

    out, errors = StringIO(), StringIO()
    console = Console(file=errors)
    display = Display(Console(file=out), console)
    commands = ClientCommands(lambda text: run_text(engine, text, display, Inputs({}), BadRecords(print)), display)

    run_shell(engine, display.out, console, None, run=lambda text: commands.execute(text, tmp_path), ask=ask)
    assert "KAFKA" in out.getvalue()
    assert "SYNTAX" in errors.getvalue()
    assert [*asked] == ["SHOW TABLES;"]


def test_completion_offers_names_before_keywords(engine: MemoryEngine) -> None:
    for parsed in engine.session.parse(STREAM.replace("STREAM s", "STREAM `Sel`")):
        engine.execute(parsed)
    found = [c.text for c in SqlCompleter(engine).get_completions(Document("sel"), CompleteEvent())]
    assert found == ["SELECT"] or found[-1] == "SELECT"
    assert [c.text for c in SqlCompleter(engine).get_completions(Document(""), CompleteEvent())] == []


@pytest.mark.parametrize(
    ("text", "first", "absent"),
    [
        ("SELECT * FROM ", ["S", "U"], "SELECT"),
        ("SELECT * FROM s JOIN ", ["S", "U"], "K"),
        ("INSERT INTO ", ["S", "U"], "K"),
        ("SELECT * FROM s WHERE ", [], ""),
        ("SELECT * FROM u WHERE w", ["WORD", "WHEN", "WHERE"], "V"),
        ("SELECT 'from ' || v", ["V"], "S"),
        ("SHOW STREAMS; DROP STREAM ", ["S", "U"], "K"),
        ("PRINT ", ["t", "w"], "S"),
        ("CREATE STREAM x (a INT) WITH (kafka_topic='x', va", ["VALUE_AVRO_SCHEMA_FULL_NAME"], "VALUES"),
        ("CREATE STREAM x (a INT) WITH (kafka_topic='x', ", ["FORMAT"], "SELECT"),
        ("CREATE STREAM x (a INT) WITH (value_format=", [], ""),
        ("CREATE STREAM x (a INT) WITH (value_format='js", ["JSON'", "JSON_SR'"], "AVRO'"),
        ("CREATE STREAM x (a INT) WITH (kafka_topic='x') AS sel", ["SELECT"], "S"),
    ],
)
def test_completion_knows_where_the_cursor_is(engine: MemoryEngine, text: str, first: list[str], absent: str) -> None:
    other = "CREATE STREAM u (word STRING) WITH (kafka_topic='w', value_format='JSON');"
    for parsed in engine.session.parse(STREAM + other):
        engine.execute(parsed)
    found = [c.text for c in SqlCompleter(engine).get_completions(Document(text), CompleteEvent())]
    assert [each for each in first if each not in found] == [], found
    assert first != [] or found == []
    assert absent not in found


def test_values_as_text() -> None:
    assert [shown(v) for v in (None, "a", b"hi", 1, [1, None], {"x": "y"}, True)] == [
        "NULL",
        "a",
        "aGk=",
        "1",
        "[1, null]",
        '{"x": "y"}',
        "true",
    ]
    assert to_json({"d": 1.5, "b": b"hi"}) == '{"d": 1.5, "b": "aGk="}'


@pytest.mark.parametrize(
    ("text", "complete"),
    [
        ("", True),
        ("help", True),
        ("exit;", True),
        ("set cli column-width 20", True),
        ("RUN SCRIPT 'a b.sql'", True),
        ("SET 'x'='y'", False),
        ("SELECT 1", False),
        ("SELECT 1;", True),
        ("SELECT 1;  -- that is all", True),
        ("SELECT 'a;", False),
        ("SELECT 'it''s; ';", True),
        ("SELECT `a;", False),
        ("SELECT 1 -- no;", False),
        ("-- only a comment", True),
    ],
)
def test_when_enter_ends_a_statement(text: str, complete: bool) -> None:
    assert is_complete(text) is complete


def test_a_statement_of_several_lines_is_one_entry_of_the_history(engine: MemoryEngine, tmp_path: Path) -> None:
    history = tmp_path / "history"
    with create_pipe_input() as keys, create_app_session(input=keys, output=DummyOutput()):
        session = prompt_session(engine, history)
        keys.send_text("SHOW\rSTREAMS;\r")
        assert session.prompt("> ") == "SHOW\nSTREAMS;"
        keys.send_text("SHOW TABLES;\r")
        session.prompt("> ")
    assert list(FileHistory(str(history)).load_history_strings()) == ["SHOW TABLES;", "SHOW\nSTREAMS;"]


def test_completion_knows_topics_and_queries(engine: MemoryEngine) -> None:
    for parsed in engine.session.parse(f"{STREAM} CREATE STREAM o WITH (kafka_topic='other') AS SELECT * FROM s;"):
        engine.execute(parsed)

    def offered(text: str) -> list[tuple[str, str]]:
        found = SqlCompleter(engine).get_completions(Document(text), CompleteEvent())
        return [(c.text, c.display_meta_text) for c in found]

    assert ("other", "topic") in offered("PRINT ot")
    assert ("CSAS_O_0", "query") in offered("PAUSE csas")
    assert ("O", "stream") in offered("SELECT * FROM o")


def test_a_name_that_is_almost_right(engine: MemoryEngine, capsys: pytest.CaptureFixture[str]) -> None:
    assert (
        main(["shell", "--execute", f"{STREAM.replace('STREAM s', 'STREAM orders')} DESCRIBE ordrs;"])
        == ExitCode.REFUSED
    )
    assert "did you mean ORDERS?" in capsys.readouterr().err


def test_sigterm_ends_a_server_that_does_not_serve_yet(monkeypatch: pytest.MonkeyPatch) -> None:
    released = []

    @contextmanager
    def opening(*_: object) -> Iterator[None]:
        try:
            signal.raise_signal(signal.SIGTERM)
            yield
        finally:
            released.append("lease")

    monkeypatch.setattr("kestrel_sql.cli.serve._server", opening)
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        assert main(["serve"]) == ExitCode.INTERRUPTED
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    assert released == ["lease"]


def test_the_shell_imports_neither_spark_nor_a_server_nor_a_broker() -> None:
    late = (
        "pyspark",
        "py4j",
        "kestrel_sql.spark",
        "kestrel_sql.formats.bulk",
        "numpy",
        "pyarrow",
        "sqlglot",
        "kestrel_sql.operators.group_columns",
        "kestrel_sql.server",
        "kestrel_sql.kafka",
        "confluent_kafka",
    )
    statements = (
        "CREATE STREAM S (A INT) WITH (KAFKA_TOPIC='s', PARTITIONS=1, VALUE_FORMAT='JSON');"
        " INSERT INTO S VALUES (1); SELECT * FROM S;"
    )
    code = (
        "import sys; from kestrel_sql.cli.main import main;"
        f" main(['shell', '--execute', {statements!r}]);"
        f" print([name for name in sys.modules if name.startswith({late})], len(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    found, _, number = done.stdout.splitlines()[-1].rpartition(" ")
    assert found == "[]"
    assert int(number) < BUDGET


@pytest.mark.rules("U4.9")
def test_half_of_a_character_is_an_escape_in_a_file(tmp_path: Path) -> None:
    (tmp_path / "app.sql").write_text(
        "CREATE STREAM S (K STRING KEY) WITH (kafka_topic='s', value_format='JSON');"
        "CREATE STREAM R WITH (kafka_topic='r') AS SELECT K, CHR('\\ud83d') AS H FROM S;"
    )
    (tmp_path / "s.json").write_text('{"key": "k", "value": {}}')
    out = tmp_path / "out"
    assert main(["run", f"{tmp_path}/app.sql", "--input", f"s={tmp_path}/s.json", "--output", str(out)]) == 0
    assert '{"H": "\\ud83d"}' in (out / "r.jsonl").read_text()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["run", "{0}/app.sql", "--input", "s={0}/s.json", "--output", "{0}/app.sql"], "{0}/app.sql: File exists"),
        (["broker", "--port", "0", "--data", "{0}/app.sql"], "{0}/app.sql: File exists"),
        (["serve", "--jwks", "{0}/nothing"], "the keys of {0}/nothing cannot be read: No such file or directory"),
        (
            ["serve", "--tls-certificate", "{0}/nothing", "--tls-key", "{0}/app.sql"],
            "{0}/nothing, {0}/app.sql cannot be used for TLS: No such file or directory",
        ),
    ],
)
def test_a_file_that_cannot_be_used_is_no_bug(
    capfd: pytest.CaptureFixture[str], tmp_path: Path, words: list[str], said: str
) -> None:
    (tmp_path / "app.sql").write_text(
        "CREATE STREAM s (a INT) WITH (KAFKA_TOPIC='s', FORMAT='JSON', PARTITIONS=1); CREATE STREAM t AS SELECT * FROM s;"
    )
    (tmp_path / "s.json").write_text('{"value": {"A": 1}}')
    assert main([word.format(tmp_path) for word in words]) == ExitCode.REFUSED
    assert said.format(tmp_path) in capfd.readouterr().err


BUDGET = 850
"""The modules that `kestrel shell` may import, Python's own among them."""


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["shell", "--on-error", "ask"], "expected stop or continue, got 'ask'"),
        (["functions", "--format", "xml"], "expected table or json or tsv or csv, got 'xml'"),
        (["run", "a.sql", "--delivery", "twice"], "expected exactly-once or"),
        (["serve", "--push-queue-rows", "0"], "expected a number above 0, got '0'"),
        (["serve", "--listen", "127.0.0.1:99999"], "expected HOST:PORT or PORT, got '127.0.0.1:99999'"),
        (["broker", "--port", "99999"], "expected a port up to 65535, got '99999'"),
        (["state", "rescale", "--checkpoint", "c", "--partitions", "-1"], "expected a number above 0"),
    ],
)
def test_a_value_that_an_option_does_not_have_is_wrong_usage(
    capsys: pytest.CaptureFixture[str], words: list[str], said: str
) -> None:
    with pytest.raises(SystemExit):
        main(words)
    assert said in capsys.readouterr().err
