"""The command `kestrel`: a shell, scripts over files, the functions, and the import of a ksqlDB installation."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import IntEnum
from functools import partial
from pathlib import Path

from rich.console import Console
from rich.text import Text

from kestrel_sql.admin.describe import describe
from kestrel_sql.admin.lists import list_objects
from kestrel_sql.admin.view import EngineView
from kestrel_sql.cli.broker import add_broker_parser, broker_command
from kestrel_sql.cli.broker_options import (
    add_registry_option,
    memory_registry_of,
    refuse_broker_options,
    wants_broker,
)
from kestrel_sql.cli.client_commands import ClientCommands, Leave, OnError
from kestrel_sql.cli.prepare import add_prepare_parser, prepare_command
from kestrel_sql.cli.progress import Board, MemoryWatch, open_lines
from kestrel_sql.cli.prompt import WELCOME, piped_texts, run_shell, run_text
from kestrel_sql.cli.record_files import Inputs, InputShape, record_lines, sink_topics
from kestrel_sql.cli.remote import RemoteServer, add_remote_options
from kestrel_sql.cli.render import Display, Form, open_console, report, show_error, show_totals, warn
from kestrel_sql.cli.run_kafka import BAD_RECORDS, add_kafka_options, run_on_broker
from kestrel_sql.cli.serve import add_serve_parser, serve_command
from kestrel_sql.cli.state import add_state_parser, state_command
from kestrel_sql.cli.usage import refuse
from kestrel_sql.errors import EngineError, UsageError, unreadable
from kestrel_sql.functions.user_functions import functions_with
from kestrel_sql.importer.report import import_report
from kestrel_sql.plan.codec.plan_file import engine_version
from kestrel_sql.planner.config import Config
from kestrel_sql.queries.bad_records import BadRecords
from kestrel_sql.queries.engine import MemoryEngine
from kestrel_sql.queries.topic_rules import TopicRule
from kestrel_sql.session.session import Session
from kestrel_sql.sql.nodes.admin import Describe, ListObjects
from kestrel_sql.topics.memory import MemoryBroker
from kestrel_sql.topics.paths import path_part

EXAMPLES = """examples:
  kestrel shell                                         a prompt over topics in memory
  kestrel shell --execute "SHOW FUNCTIONS;"             statements from the command line
  kestrel shell --file app.sql                          statements from a file, then leave
  kestrel run app.sql --input orders=orders.jsonl       a script over records of a file; sinks go to standard output
  kestrel run app.sql --input a=a.json --output out     one out/TOPIC.jsonl for each topic that a query writes
  kestrel run app.sql --bootstrap-servers H:P --checkpoint DIR
                                                        a script against a Kafka broker, until Ctrl-C
  kestrel run app.sql --functions mine.py …             the same, with functions of your own
  kestrel shell --server http://127.0.0.1:8088          the same prompt against a server of Kestrel or ksqlDB
  kestrel serve                                         ksqlDB's HTTP API over topics in memory, and a page
  kestrel serve --bootstrap-servers H:P --checkpoint DIR
                                                        the same over the topics of a Kafka broker
  kestrel functions SUBSTRING                           what a function takes and gives
  kestrel broker --once make demo-kafka                 a Kafka broker for the time of a command, not for production
  kestrel import app.sql                                which statements of a script would run, without running them
  kestrel import plans/                                 which statements of a ksqlDB installation would run

A record of an input is {"key": …, "value": …, "timestamp": ms, "headers": [{"KEY": …, "VALUE": base64}]},
in a JSON list or one a line; a source without key columns needs no key. With --input-shape plain it is the value alone.

exit codes: 0 all went well, 1 a statement was refused or a query failed, 2 wrong usage, 3 a bug in Kestrel,
130 Ctrl-C
"""


class ExitCode(IntEnum):
    """What the command tells its caller."""

    OK = 0
    REFUSED = 1
    USAGE = 2
    INTERNAL = 3
    INTERRUPTED = 130


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command with `argv` (the arguments of the process by default) and return its exit code."""
    arguments = build_parser().parse_args(argv)
    out, errors = open_console(), open_console(stderr=True)
    try:
        return int(_COMMANDS[arguments.command](arguments, out, errors))
    except UsageError as error:
        show_error(errors, error, None)
        return ExitCode.USAGE
    except EngineError as error:
        show_error(errors, error, None)
        return ExitCode.REFUSED
    except KeyboardInterrupt:
        errors.print("interrupted", style="yellow")
        return ExitCode.INTERRUPTED
    except BrokenPipeError:
        return ExitCode.OK
    except Exception as error:
        if arguments.debug:
            raise
        first = (str(error) or type(error).__name__).splitlines()[0]
        errors.print(
            Text(f"INTERNAL: {first}\n  hint: this is a bug in Kestrel; rerun with --debug for a traceback", "red"),
            soft_wrap=True,
        )
        return ExitCode.INTERNAL


def build_parser() -> argparse.ArgumentParser:
    """Build the parser of all commands."""
    raw = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(prog="kestrel", description=__doc__, epilog=EXAMPLES, formatter_class=raw)
    parser.add_argument("--debug", action="store_true", help="show the Python trace of an internal error")
    parser.add_argument("--version", action="version", version=f"kestrel {engine_version()}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    shell = commands.add_parser(
        "shell", help="a prompt, or statements from a text or file", epilog=EXAMPLES, formatter_class=raw
    )
    shell.add_argument("--execute", metavar="SQL", help="execute these statements and leave")
    shell.add_argument("--file", type=Path, metavar="FILE", help="execute the statements of a file and leave")
    history = "where the prompt keeps its history (default: ~/.kestrel_history)"
    shell.add_argument("--history", type=Path, metavar="FILE", help=history)
    add_remote_options(shell)
    add_registry_option(shell)
    shell.add_argument(
        "--on-error",
        type=OnError,
        choices=list(OnError),
        help="whether the statements after one that failed run (default: stop); either way the exit code is 1",
    )
    _add_format_option(shell)
    _add_fail_option(shell)
    _add_input_options(shell)
    _add_engine_options(shell)
    help_ = "run a script over records of files, or against a Kafka broker"
    run = commands.add_parser("run", help=help_, epilog=EXAMPLES, formatter_class=raw)
    run.add_argument("script", type=Path, metavar="SCRIPT", help="a file of statements")
    run.add_argument("--output", type=Path, metavar="DIR", help="write what queries wrote to DIR/TOPIC.jsonl")
    _add_format_option(run)
    _add_fail_option(run)
    _add_input_options(run)
    _add_engine_options(run)
    add_kafka_options(run)
    _add_engine_options(add_serve_parser(commands))
    functions = commands.add_parser("functions", help="list the functions, or describe one")
    functions.add_argument("name", nargs="?", help="a function to describe")
    _add_format_option(functions)
    _add_functions_option(functions)
    add_broker_parser(commands, EXAMPLES)
    add_prepare_parser(commands)
    add_state_parser(commands)
    importing = commands.add_parser(
        "import", help="say which statements of a script or of a ksqlDB installation would run"
    )
    importing.add_argument("--json", action="store_true", help="print the report as JSON")
    _add_functions_option(importing)
    importing.add_argument(
        "path",
        type=Path,
        metavar="PATH",
        help="a script (.sql), a folder of plan.json files, one such file, or a command topic backup",
    )
    return parser


def _add_input_options(parser: argparse.ArgumentParser) -> None:
    inputs = "records of a topic; may be repeated"
    parser.add_argument("--input", action="append", default=[], type=_input, metavar="TOPIC=FILE", help=inputs)
    shape = "record: each is {…}, see below; plain: each is a value, without key (default: record)"
    parser.add_argument("--input-shape", type=InputShape, choices=list(InputShape), help=shape)


def _add_engine_options(parser: argparse.ArgumentParser) -> None:
    setting = "a property; may be repeated"
    parser.add_argument(
        "--set", "--property", action="append", default=[], type=_setting, metavar="NAME=VALUE", help=setting
    )
    _add_functions_option(parser)


def _add_format_option(parser: argparse.ArgumentParser) -> None:
    help_ = "how rows are printed: a table by default at a terminal, else tab-separated lines with whole values"
    parser.add_argument("--format", type=Form, choices=list(Form), help=help_)


def _add_fail_option(parser: argparse.ArgumentParser) -> None:
    help_ = "exit with 1 if a record could not be read, computed or written"
    parser.add_argument("--fail-on", action="append", default=[], choices=[BAD_RECORDS], help=help_)


def _add_functions_option(parser: argparse.ArgumentParser) -> None:
    file = "functions of your own: a Python file with decorated functions, which is executed; may be repeated"
    parser.add_argument("--functions", action="append", default=[], type=Path, metavar="FILE", help=file)


def _input(text: str) -> tuple[str, Path]:
    topic, separator, file = text.partition("=")
    if not (topic and separator and file):
        raise argparse.ArgumentTypeError(f"expected TOPIC=FILE, got {text!r}")
    return topic, Path(file)


def _setting(text: str) -> tuple[str, str]:
    name, separator, value = text.partition("=")
    if not (name and separator):
        raise argparse.ArgumentTypeError(f"expected NAME=VALUE, got {text!r}")
    return name, value


def _engine(arguments: argparse.Namespace) -> tuple[MemoryEngine, Inputs]:
    config = Config.of({"auto.offset.reset": "earliest"})
    for name, value in arguments.set:
        config = config.with_property(name, value)
    files: dict[str, list[Path]] = {}
    for topic, file in arguments.input:
        files.setdefault(topic, []).append(file)
    session = Session(
        config=config, registry=memory_registry_of(arguments), functions=functions_with(arguments.functions)
    )
    if not files:
        refuse(arguments, ("input_shape",), "without --input", "name the files with --input TOPIC=FILE")
    engine = MemoryEngine(session, by_time=True, topics=TopicRule.BROKER)
    for topic in files:
        engine.broker.create(topic)
    return engine, Inputs(files, arguments.input_shape or InputShape.RECORD)


_HISTORY = Path.home() / ".kestrel_history"


def _check_shell(arguments: argparse.Namespace) -> None:
    if arguments.server:
        alone = ("input", "input_shape", "functions", "fail_on")
        refuse(arguments, alone, "with --server, which has topics and functions of its own", "leave them out")
    else:
        refuse(arguments, ("user", "ca"), "without --server", "name the server with --server URL")
    if arguments.file is not None or arguments.execute is not None or not sys.stdin.isatty():
        refuse(arguments, ("history",), "without a prompt", "leave it out")
    else:
        refuse(arguments, ("on_error",), "at a prompt, which goes on after errors", "leave it out")


def shell_command(arguments: argparse.Namespace, out: Console, errors: Console) -> ExitCode:
    """`kestrel shell`."""
    _check_shell(arguments)
    engine, inputs = _engine(arguments)
    server = RemoteServer.of(arguments) if arguments.server else None
    bad = BadRecords(warn(errors))
    display = Display.of(arguments.format, out, errors)

    def execute(text: str) -> bool:
        if server is not None:
            return server.run_text(text, display)
        return run_text(engine, text, display, inputs, bad)

    try:
        commands = ClientCommands(execute, display, arguments.on_error or OnError.STOP)
        here = Path.cwd() if arguments.file is None else arguments.file.absolute().parent
        texts: Iterable[str] = [text for text in (_file(arguments.file), arguments.execute) if text is not None]
        if not texts and not sys.stdin.isatty():
            texts = piped_texts(sys.stdin)
        if texts:
            done = _execute_all(commands, texts, here)
            show_totals(errors, bad)
            failed = bool(bad.stopped) or _fails(arguments, bad)
            return ExitCode.OK if done and not failed else ExitCode.REFUSED
        welcome = WELCOME if server is None else f"{server.version()}. A statement ends with a semicolon; help, exit."
        run_shell(
            engine,
            out,
            errors,
            arguments.history or _HISTORY,
            run=lambda text: commands.execute(text, here),
            welcome=welcome,
        )
        return ExitCode.OK
    finally:
        engine.close()


def _execute_all(commands: ClientCommands, texts: Iterable[str], folder: Path) -> bool:
    well = True
    try:
        for text in texts:
            well = commands.execute(text, folder) and well
            if not well and commands.on_error is OnError.STOP:
                break
    except Leave:
        pass
    return well


def run_command(arguments: argparse.Namespace, out: Console, errors: Console) -> ExitCode:
    """`kestrel run`: statements, inputs as soon as a source says how they are written, then what the sinks hold."""
    text = _file(arguments.script) or ""
    here = Path.cwd() if arguments.script is None else arguments.script.absolute().parent
    if wants_broker(arguments):
        return ExitCode.OK if run_on_broker(text, here, arguments, out, errors) else ExitCode.REFUSED
    refuse_broker_options(arguments)
    engine, inputs = _engine(arguments)
    report(errors)(f"running {arguments.script} over topics in memory")
    bad = BadRecords(warn(errors), limit=arguments.max_bad)
    display = Display.of(arguments.format, out, errors, rows_only=True)
    try:
        with open_lines(arguments.json_progress) as lines:
            board = Board(errors, lines, transient=True)
            with MemoryWatch(engine, bad).shown(board):
                run = partial(_run_in_memory, engine, inputs, display)
                if not _execute_all(ClientCommands(run, display), [text], here):
                    return ExitCode.REFUSED
                inputs.check_used()
                engine.flush()
        if flaw := _judged(board, bad):
            raise EngineError(flaw, hint="no sink is shown or written to a file")
        _write_sinks(engine, arguments.output, out)
        board.conclude()
        show_totals(errors, bad)
        failed = any(state.error for state in board.states)
        return ExitCode.REFUSED if failed or _fails(arguments, bad) else ExitCode.OK
    except EngineError as error:
        show_error(errors, error, None)
        return ExitCode.REFUSED
    finally:
        engine.close()


def _judged(board: Board, bad: BadRecords) -> str | None:
    for state in board.states:
        bad.judge(state.query, state.rows_in, state.bad_records, is_last=True)
    return bad.flaw({state.query: state.rows_in for state in board.states if state.rows_in})


def _fails(arguments: argparse.Namespace, bad: BadRecords) -> bool:
    return BAD_RECORDS in arguments.fail_on and bad.total > 0


def _run_in_memory(engine: MemoryEngine, inputs: Inputs, display: Display, text: str) -> bool:
    try:
        for parsed in engine.parse(text):
            answer = engine.execute(parsed)
            if answer.columns:
                display.answer(answer)
            inputs.feed(engine)
    except EngineError as error:
        show_error(display.notes, error, text)
        return False
    return True


def _write_sinks(engine: MemoryEngine, folder: Path | None, out: Console) -> None:
    for topic in sink_topics(engine):
        lines = list(record_lines(engine, topic))
        if folder is None:
            for line in lines:
                out.print(line, markup=False, highlight=False, soft_wrap=True)
            continue
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{path_part(topic)}.jsonl").write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")


def _file(path: Path | None) -> str | None:
    if path is None:
        return None
    try:
        return path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise EngineError(f"{path} cannot be read: {unreadable(error)}") from error


def functions_command(arguments: argparse.Namespace, out: Console, errors: Console) -> ExitCode:
    """`kestrel functions`."""
    view = EngineView(session=Session(functions=functions_with(arguments.functions)), broker=MemoryBroker())
    display = Display.of(arguments.format, out, errors)
    if arguments.name:
        display.answer(describe(Describe("FUNCTION", arguments.name), view))
    else:
        display.answer(list_objects(ListObjects("FUNCTIONS"), view))
    return ExitCode.OK


def import_command(arguments: argparse.Namespace, out: Console, errors: Console) -> ExitCode:
    """`kestrel import`."""
    report = import_report(arguments.path, functions_with(arguments.functions))
    out.print(Text(report.to_json().rstrip() if arguments.json else str(report)), soft_wrap=True)
    return ExitCode.OK if report.is_complete else ExitCode.REFUSED


_COMMANDS: Mapping[str, Callable[[argparse.Namespace, Console, Console], int]] = {
    "shell": shell_command,
    "run": run_command,
    "serve": serve_command,
    "functions": functions_command,
    "broker": broker_command,
    "prepare": prepare_command,
    "state": state_command,
    "import": import_command,
}

if __name__ == "__main__":
    sys.exit(main())
