"""The command `kestrel shadow`: compare what two systems write for the same queries, while both run."""

from __future__ import annotations

import argparse
from pathlib import Path

from rich.console import Console

from kestrel_sql.catalog.catalog import Source
from kestrel_sql.cli.exit_codes import ExitCode
from kestrel_sql.cli.options import add_engine_options, add_script_options, config_of
from kestrel_sql.cli.registry_options import add_registry_option, registry_of
from kestrel_sql.cli.render import Display
from kestrel_sql.cli.scripts import planning_session, texts_of
from kestrel_sql.cli.shadow_cases import Cases, Statement
from kestrel_sql.cli.shadow_report import Report
from kestrel_sql.cli.signals import stop_on_signals
from kestrel_sql.cli.usage import count_option
from kestrel_sql.errors import UsageError, attach_span, did_you_mean
from kestrel_sql.kafka.client.config import KafkaConfig
from kestrel_sql.kafka.shadow.causes import Causes
from kestrel_sql.kafka.shadow.matching import Difference
from kestrel_sql.kafka.shadow.shadow import Shadow, Sink
from kestrel_sql.queries.bad_records import count_of
from kestrel_sql.session.session import Session
from kestrel_sql.sql.nodes.kafka_source import CreateKafkaSource
from kestrel_sql.sql.nodes.statements import (
    SESSION_STATEMENTS,
    AlterSource,
    CreateAs,
    CreateSource,
    CreateType,
    DropSource,
    DropType,
    InsertInto,
)
from kestrel_sql.sql.script_files import script_files

_PATIENCE_S = 120
_PLANNED = (
    *SESSION_STATEMENTS,
    AlterSource,
    CreateAs,
    CreateKafkaSource,
    CreateSource,
    CreateType,
    DropSource,
    DropType,
    InsertInto,
)
Place = tuple[str, str | None]
"""The servers of a side, and its topic if one is named."""


def add_options(parser: argparse.ArgumentParser) -> None:
    """Declare the options of `kestrel shadow`."""
    add = parser.add_argument
    place = "HOST:PORT[/TOPIC]"
    add("--left", type=_place, required=True, metavar=place, help="the broker and topic that show what is right")
    add("--right", type=_place, required=True, metavar=place, help="those that are compared with it; without topics"
        " every sink of the script is compared, under its own name")  # fmt: skip
    script = "the script of the queries, or a folder of them, for formats, columns and keys"
    add("--app", type=Path, nargs="+", required=True, metavar="SCRIPT", help=script)
    add("--sink", metavar="NAME", help="the stream or table of the script that the topics are of, if their names do"
        " not say it")  # fmt: skip
    add("--until-caught-up", action="store_true", help="compare all that the topics hold now, then leave")
    patience = f"how long one side may be behind the other one (default: {_PATIENCE_S})"
    add("--patience", type=count_option, default=_PATIENCE_S, metavar="SECONDS", help=patience)
    add("--cases", type=Path, metavar="DIR", help="write a case for each difference, which `qtt shrink` makes small")
    add("--json", action="store_true", help="print progress, differences and the verdict as JSON lines")
    add("--kafka-config", type=Path, metavar="FILE", help="properties of Kafka's clients, for SASL, TLS and the like")
    add("--right-kafka-config", type=Path, metavar="FILE", help="those of the right side, if they are others")
    add_registry_option(parser)
    add("--right-schema-registry", metavar="URL", help="the schema registry of the right side, if it is another one")
    add_engine_options(parser)
    add_script_options(parser)


def command(arguments: argparse.Namespace, out: Console, errors: Console) -> ExitCode:
    """`kestrel shadow`."""
    session, statements = _planned(arguments, out, errors)
    sinks = _sinks(session, arguments)
    files = (arguments.kafka_config, arguments.right_kafka_config or arguments.kafka_config)
    left, right = (
        KafkaConfig.of(servers, file)
        for (servers, _), file in zip((arguments.left, arguments.right), files, strict=True)
    )
    registries = registry_of(arguments), registry_of(_of_right(arguments))
    causes = Causes(session, left, registries[0])
    report = Report(causes=causes, is_json=arguments.json, out=out, errors=errors)
    cases = Cases(
        folder=arguments.cases or Path(),
        causes=causes,
        sinks=sinks,
        configs=(left, right),
        statements=statements,
        properties=config_of(arguments).overrides,
    )

    def found(difference: Difference) -> None:
        report.difference(difference)
        cases.add(difference)

    with report.live():
        verdict = Shadow(
            sinks=sinks,
            configs=(left, right),
            registries=registries,
            patience=arguments.patience,
            until_caught_up=arguments.until_caught_up,
            report=found,
            show=report.progress,
            stop=stop_on_signals(),
        ).run()
    report.verdict(verdict)
    if arguments.cases is not None and report.counts:
        written = count_of(cases.write(), "case")
        errors.print(f"{written} written to {arguments.cases}", highlight=False, soft_wrap=True)
    return ExitCode.REFUSED if report.counts else ExitCode.OK


def _of_right(arguments: argparse.Namespace) -> argparse.Namespace:
    url = arguments.right_schema_registry or arguments.schema_registry
    return argparse.Namespace(**{**vars(arguments), "schema_registry": url})


def _planned(arguments: argparse.Namespace, out: Console, errors: Console) -> tuple[Session, list[Statement]]:
    """A session that knows the sources and queries of the scripts, and the statements that made it so."""
    session = planning_session(arguments)
    done: list[Statement] = []
    for text in texts_of(script_files(arguments.app), Display.of(None, out, errors)):
        for parsed in session.parse(text):
            if isinstance(parsed.statement, _PLANNED):
                with attach_span(parsed.span):
                    done.append((parsed.text, session.execute(parsed).created_query))
    return session, done


def _sinks(session: Session, arguments: argparse.Namespace) -> list[Sink]:
    """The sinks to compare, with their topics.

    Raises:
        UsageError: the options do not say which.
    """
    written = {query.plan.sink for query in session.queries.values()}
    known = {name: source for name, source in session.catalog.sources.items() if name in written}
    if not known:
        raise UsageError("the script has no query that writes a topic")
    (left_servers, left), (right_servers, right) = arguments.left, arguments.right
    if (left is None) != (right is None):
        raise UsageError("name a topic on both sides, or on none", hint="without topics all sinks are compared")
    if (left_servers, left) == (right_servers, right):
        raise UsageError("both sides are the same", hint="name another broker or topic on the right")
    if left is None or right is None:
        chosen = [_named(known, arguments.sink)] if arguments.sink else [*known.values()]
        return [Sink.of(session, source, (source.topic, source.topic)) for source in chosen]
    by_topic = [source for source in known.values() if source.topic in (left, right)] or [*known.values()]
    if arguments.sink is None and len(by_topic) > 1:
        raise UsageError(
            f"the topics {left} and {right} may be of {', '.join(source.name for source in by_topic)}",
            hint="--sink NAME says which",
        )
    return [Sink.of(session, _named(known, arguments.sink) if arguments.sink else by_topic[0], (left, right))]


def _named(known: dict[str, Source], name: str) -> Source:
    found = known.get(name) or known.get(name.upper())
    if found is None:
        raise UsageError(f"the script writes no stream or table {name}", hint=did_you_mean(name.upper(), known))
    return found


def _place(text: str) -> Place:
    servers, _, topic = text.partition("/")
    if not all(port.isdecimal() for _, _, port in (each.rpartition(":") for each in servers.split(","))):
        raise argparse.ArgumentTypeError(f"expected HOST:PORT or HOST:PORT/TOPIC, got {text!r}")
    return servers, topic or None
