"""Options that several commands share, and what they mean for an engine in memory."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Mapping
from pathlib import Path

from kestrel_sql.admin.connect import SKIP, URL
from kestrel_sql.cli.client_commands import ClientCommands, Leave, OnError
from kestrel_sql.cli.record_files import Inputs, InputShape
from kestrel_sql.cli.registry_options import REGISTRY, memory_registry_of
from kestrel_sql.cli.render import Form
from kestrel_sql.cli.usage import one_of, pairs_of, refuse
from kestrel_sql.functions.user_functions import functions_with
from kestrel_sql.planner.config import Config
from kestrel_sql.queries.bad_records import BadRecords
from kestrel_sql.queries.engine import MemoryEngine
from kestrel_sql.queries.topic_rules import TopicRule
from kestrel_sql.session.session import Session

BAD_RECORDS = "bad-records"


def add_scripts(parser: argparse.ArgumentParser) -> None:
    """Declare the scripts of a command that runs them."""
    script = "a file of statements, or a folder of them, such as V000001__begin.sql; may be several"
    parser.add_argument("scripts", type=Path, nargs="+", metavar="SCRIPT", help=script)


def add_input_options(parser: argparse.ArgumentParser) -> None:
    """Declare the options for records of files."""
    inputs = "records of a topic; may be repeated"
    parser.add_argument("--input", **pairs_of("TOPIC=FILE", Path), help=inputs)
    shape = "record: each is {…}, see below; plain: each is a value, without key (default: record)"
    parser.add_argument("--input-shape", **one_of(InputShape), help=shape)


def add_engine_options(parser: argparse.ArgumentParser) -> None:
    """Declare the options of an engine in memory."""
    add_set_option(parser, "a property; may be repeated")
    add_functions_option(parser)


def add_set_option(parser: argparse.ArgumentParser, what: str) -> None:
    """Declare properties; `what` is the help."""
    parser.add_argument("--set", "--property", **pairs_of("NAME=VALUE"), help=what)


def add_script_options(parser: argparse._ActionsContainer) -> None:
    """Declare what scripts of others need: their variables, and what to do about connectors."""
    define = "a variable of the scripts, as DEFINE sets it; may be repeated"
    parser.add_argument("--define", **pairs_of("NAME=VALUE"), help=define)
    skip = f"pass over statements about connectors, each with a warning; --set {URL}=URL has Kafka Connect run them"
    parser.add_argument("--skip-connectors", action="store_true", help=skip)


def config_of(arguments: argparse.Namespace, defaults: Mapping[str, object] | None = None) -> Config:
    """Return the properties of the options, those of a schema registry apart.

    Raises:
        PropertyError: one does not exist, or does not take its value.
    """
    fixed = {name: value for name, value in arguments.set if name.startswith("ksql.connect.")}
    skipped = {SKIP: "true"} if arguments.skip_connectors else {}
    config = Config.of({**(defaults or {}), **fixed, **skipped})
    for name, value in arguments.set:
        if name not in fixed and not name.startswith(REGISTRY):
            config = config.with_property(name, value)
    return config


def add_format_option(parser: argparse.ArgumentParser) -> None:
    """Declare how rows are printed."""
    help_ = "how rows are printed: a table by default at a terminal, else tab-separated lines with whole values"
    parser.add_argument("--format", **one_of(Form), help=help_)


def add_fail_option(parser: argparse.ArgumentParser) -> None:
    """Declare what is a failure."""
    help_ = "exit with 1 if a record could not be read, computed or written"
    parser.add_argument("--fail-on", action="append", default=[], choices=[BAD_RECORDS], help=help_)


def add_functions_option(parser: argparse.ArgumentParser) -> None:
    """Declare the files of a user's functions."""
    file = "functions of your own: a Python file with decorated functions, which is executed; may be repeated"
    parser.add_argument("--functions", action="append", default=[], type=Path, metavar="FILE", help=file)


def memory_engine(arguments: argparse.Namespace) -> tuple[MemoryEngine, Inputs]:
    """Open an engine in memory as the options say, with what it is fed."""
    config = config_of(arguments, {"auto.offset.reset": "earliest"})
    files: dict[str, list[Path]] = {}
    for topic, file in arguments.input:
        files.setdefault(topic, []).append(file)
    session = Session(
        config=config,
        registry=memory_registry_of(arguments),
        functions=functions_with(arguments.functions),
        variables=dict(arguments.define),
    )
    if not files:
        refuse(arguments, ("input_shape",), "without --input", "name the files with --input TOPIC=FILE")
    engine = MemoryEngine(session, by_time=True, topics=TopicRule.BROKER)
    for topic in files:
        engine.broker.create(topic)
    return engine, Inputs(files, arguments.input_shape or InputShape.RECORD)


def execute_all(commands: ClientCommands, texts: Iterable[str], folder: Path) -> bool:
    """Execute texts, whose paths are relative to a folder, and say whether all went well."""
    well = True
    try:
        for text in texts:
            well = commands.execute(text, folder) and well
            if not well and commands.on_error is OnError.STOP:
                break
    except Leave:
        pass
    return well


def fails(arguments: argparse.Namespace, bad: BadRecords) -> bool:
    """Whether bad records make the command fail."""
    return BAD_RECORDS in arguments.fail_on and bad.total > 0
