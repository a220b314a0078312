"""`kestrel run` against a broker: its options, and what it shows while it runs."""

from __future__ import annotations

import argparse
import re
import signal
from contextlib import ExitStack
from pathlib import Path
from threading import Event
from typing import Any

from rich.console import Console
from rich.text import Text

from kestrel_sql.cli.progress import Board, open_lines
from kestrel_sql.cli.render import show, show_error
from kestrel_sql.errors import EngineError
from kestrel_sql.formats.registry.memory import MemoryRegistry, SchemaRegistry
from kestrel_sql.formats.registry.remote import open_registry
from kestrel_sql.functions.user_functions import functions_with
from kestrel_sql.kafka.client.config import KafkaConfig
from kestrel_sql.kafka.run.application import Application
from kestrel_sql.kafka.run.run import RunSettings
from kestrel_sql.kafka.sink.sink import Delivery
from kestrel_sql.planner.config import Config
from kestrel_sql.session.session import Session

_REGISTRY = "ksql.schema.registry."


def add_kafka_options(parser: Any) -> None:
    """Add the options of a run against a broker."""
    group = parser.add_argument_group("against a Kafka broker (docs/production.md)")
    group.add_argument("--bootstrap-servers", metavar="HOST:PORT", help="the broker; without it topics are in memory")
    group.add_argument(
        "--checkpoint",
        type=_folder,
        metavar="DIR",
        help="where the run keeps its progress and state; the same command resumes from it",
    )
    group.add_argument(
        "--until-caught-up",
        action="store_true",
        help="read all that the topics hold now, from their beginning, then leave",
    )
    group.add_argument(
        "--kafka-config", type=Path, metavar="FILE", help="properties of Kafka's clients, for SASL, TLS and the like"
    )
    group.add_argument(
        "--delivery", type=Delivery, choices=list(Delivery), default=Delivery.EXACTLY_ONCE, help="default: exactly-once"
    )
    group.add_argument(
        "--batch-records",
        type=_count,
        default=100_000,
        metavar="N",
        help="about how many records a query takes at once",
    )
    group.add_argument("--master", default="local[*]", metavar="URL", help="where Spark runs; default: local[*]")
    group.add_argument(
        "--spark-conf",
        action="append",
        default=[],
        type=_pair,
        metavar="K=V",
        help="a setting of Spark; may be repeated",
    )
    group.add_argument(
        "--patience", type=_count, default=60, metavar="SECONDS", help="how long to wait for a broker that is away"
    )
    group.add_argument(
        "--json-progress", type=Path, metavar="FILE", help="append one JSON object for each query's progress"
    )
    registry = (
        "a Confluent schema registry; its settings are properties such as ksql.schema.registry.basic.auth.user.info"
    )
    group.add_argument("--schema-registry", metavar="URL", help=registry)
    group.add_argument("--processing-log-topic", metavar="TOPIC", help="where entries of the processing log go")


def wants_broker(arguments: argparse.Namespace) -> bool:
    """Whether the options name a broker."""
    return arguments.bootstrap_servers is not None or arguments.kafka_config is not None


def _folder(text: str) -> Path:
    """The folder that an option names; a URL is refused, because `Path` would make a local folder called `hdfs:` of it."""
    if re.match(r"[A-Za-z][A-Za-z0-9+.-]+:", text):
        raise argparse.ArgumentTypeError(f"{text} is a URL; a checkpoint must be a folder that the driver can open")
    return Path(text)


def run_on_broker(text: str, arguments: argparse.Namespace, out: Console, errors: Console) -> bool:
    """Run a script against a broker until SIGTERM, Ctrl-C, or until it has caught up; say whether all went well.

    Raises:
        EngineError: an option, the broker, a statement or the checkpoint forbids it.
    """
    if arguments.input or arguments.output:
        raise EngineError(
            "--input and --output are for topics in memory", hint="leave them out, or --bootstrap-servers"
        )
    if arguments.checkpoint is None:
        raise EngineError(
            "--checkpoint is missing", hint="--checkpoint DIR names the folder for its progress and state"
        )
    config = Config.of({})
    for name, value in arguments.set:
        if not name.startswith(_REGISTRY):
            config = config.with_property(name, value)
    settings = RunSettings(
        config=KafkaConfig.of(arguments.bootstrap_servers, arguments.kafka_config),
        checkpoint=arguments.checkpoint,
        until_caught_up=arguments.until_caught_up,
        delivery=arguments.delivery,
        batch_records=arguments.batch_records,
        master=arguments.master,
        spark=dict(arguments.spark_conf),
        patience=float(arguments.patience),
    )
    stop = _stop_on_signals()
    with ExitStack() as stack:
        board = Board(errors, stack.enter_context(open_lines(arguments.json_progress)))
        stack.enter_context(board.live())
        application = Application(
            settings=settings,
            session=Session(
                config=config, registry=_registry(arguments), functions=functions_with(arguments.functions)
            ),
            log_topic=arguments.processing_log_topic,
            say=lambda sentence: errors.print(Text(sentence, "yellow"), soft_wrap=True),
            show=board.show,
            answer=lambda answer: show(out, answer),
            stop=stop,
        )
        try:
            return application.run(text)
        except EngineError as error:
            show_error(errors, error, text)
            return False


def _registry(arguments: argparse.Namespace) -> SchemaRegistry:
    """The registry of the options; without a URL one in memory, that lives as long as the run."""
    settings = {name: value for name, value in arguments.set if name.startswith(_REGISTRY)}
    if arguments.schema_registry is not None:
        return open_registry(arguments.schema_registry, settings)
    if settings:
        raise EngineError(f"{min(settings)} is a setting of a schema registry", hint="--schema-registry URL says which")
    return MemoryRegistry()


def _stop_on_signals() -> Event:
    """An event that SIGTERM and Ctrl-C set; a second Ctrl-C ends the process as usual."""
    stop = Event()

    def end(number: int, _: object) -> None:
        if stop.is_set() and number == signal.SIGINT:
            raise KeyboardInterrupt
        stop.set()

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, end)
    return stop


def _count(text: str) -> int:
    if not text.isdecimal() or int(text) == 0:
        raise argparse.ArgumentTypeError(f"a number above 0, not {text!r}")
    return int(text)


def _pair(text: str) -> tuple[str, str]:
    name, separator, value = text.partition("=")
    if not (name and separator):
        raise argparse.ArgumentTypeError(f"K=V, not {text!r}")
    return name, value
