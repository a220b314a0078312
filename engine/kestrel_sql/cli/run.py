"""The command `kestrel run`: a script over records of files, or against a broker."""

from __future__ import annotations

import argparse
from functools import partial
from pathlib import Path

from rich.console import Console

from kestrel_sql.cli.broker_options import refuse_broker_options, wants_broker
from kestrel_sql.cli.client_commands import ClientCommands
from kestrel_sql.cli.exit_codes import ExitCode
from kestrel_sql.cli.options import (
    add_engine_options,
    add_fail_option,
    add_format_option,
    add_input_options,
    add_script_options,
    add_scripts,
    fails,
    memory_engine,
)
from kestrel_sql.cli.progress import Board, MemoryWatch, open_lines
from kestrel_sql.cli.record_files import Inputs, record_lines, sink_topics
from kestrel_sql.cli.render import Display, report, show_error, show_totals, warn
from kestrel_sql.cli.run_kafka import add_kafka_options, run_on_broker
from kestrel_sql.errors import EngineError
from kestrel_sql.queries.bad_records import BadRecords
from kestrel_sql.queries.engine import MemoryEngine
from kestrel_sql.sql.script_files import script_files
from kestrel_sql.topics.paths import path_part


def add_options(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    add_scripts(parser)
    parser.add_argument("--output", type=Path, metavar="DIR", help="write what queries wrote to DIR/TOPIC.jsonl")
    add_format_option(parser)
    add_fail_option(parser)
    add_input_options(parser)
    add_engine_options(parser)
    add_script_options(parser)
    add_kafka_options(parser)


def command(arguments: argparse.Namespace, out: Console, errors: Console) -> ExitCode:
    """`kestrel run`: statements, inputs as soon as a source says how they are written, then what the sinks hold."""
    files = script_files(arguments.scripts)
    if wants_broker(arguments):
        return ExitCode.OK if run_on_broker(files, arguments, out, errors) else ExitCode.REFUSED
    refuse_broker_options(arguments)
    engine, inputs = memory_engine(arguments)
    report(errors)(f"running {', '.join(map(str, arguments.scripts))} over topics in memory")
    bad = BadRecords(warn(errors), limit=arguments.max_bad)
    display = Display.of(arguments.format, out, errors, rows_only=True)
    try:
        with open_lines(arguments.json_progress) as lines:
            board = Board(errors, lines, transient=True)
            with MemoryWatch(engine, bad).shown(board):
                run = partial(_run_in_memory, engine, inputs, display)
                if not ClientCommands(run, display).execute_files(files):
                    return ExitCode.REFUSED
                inputs.check_used()
                engine.flush()
        if flaw := _judged(board, bad):
            raise EngineError(flaw, hint="no sink is shown or written to a file")
        _write_sinks(engine, arguments.output, out)
        board.conclude()
        show_totals(errors, bad)
        failed = any(state.error for state in board.states)
        return ExitCode.REFUSED if failed or fails(arguments, bad) else ExitCode.OK
    except EngineError as error:
        show_error(errors, error, None)
        return ExitCode.REFUSED
    finally:
        engine.close()


def _judged(board: Board, bad: BadRecords) -> str | None:
    for state in board.states:
        bad.judge(state.query, state.rows_in, state.bad_records, is_last=True)
    return bad.flaw({state.query: state.rows_in for state in board.states if state.rows_in})


def _run_in_memory(engine: MemoryEngine, inputs: Inputs, display: Display, text: str) -> bool:
    try:
        for parsed in engine.session.parse(text):
            answer = engine.execute(parsed)
            if answer.columns or answer.warns:
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
        text = "".join(f"{line}\n" for line in lines)
        # Half of a surrogate pair becomes an escape of JSON.
        (folder / f"{path_part(topic)}.jsonl").write_text(text, encoding="utf-8", errors="backslashreplace")
