"""The command `kestrel adopt`: what a take-over of a ksqlDB service would do, query by query."""

from __future__ import annotations

import argparse
from pathlib import Path

from rich.console import Console
from rich.text import Text

from kestrel_sql.cli.broker_options import SINK_FROM, check_sink_from, properties_of, sink_from_option
from kestrel_sql.cli.exit_codes import ExitCode
from kestrel_sql.cli.options import add_engine_options
from kestrel_sql.cli.registry_options import add_registry_option, registry_of
from kestrel_sql.cli.render import Display
from kestrel_sql.cli.scripts import texts_of
from kestrel_sql.errors import UsageError
from kestrel_sql.functions.user_functions import functions_with
from kestrel_sql.kafka.client.config import KafkaConfig
from kestrel_sql.kafka.run.adoption import Adoption
from kestrel_sql.planner.config import Config
from kestrel_sql.server.broker.dry_run import forecasts
from kestrel_sql.session.session import Session
from kestrel_sql.sql.script_files import script_files


def add_options(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    add = parser.add_argument
    script = "a script, or a folder of them, that a service without a command topic runs (headless)"
    add("scripts", type=Path, nargs="*", metavar="SCRIPT", help=script)
    add("--dry-run", action="store_true", help="change nothing, which is all that this command does")
    add("--bootstrap-servers", metavar="HOST:PORT", help="the broker")
    add("--kafka-config", type=Path, metavar="FILE", help="properties of Kafka's clients, for SASL, TLS and the like")
    add("--service-id", default="default_", metavar="ID", help="the service (default: default_)")
    add("--rebuild", action="store_true", help="as in `kestrel serve --adopt --rebuild`")
    add("--sink-from", type=sink_from_option, metavar="OFFSETS", help=SINK_FROM)
    add_registry_option(parser)
    add_engine_options(parser)


def command(arguments: argparse.Namespace, out: Console, errors: Console) -> ExitCode:
    """`kestrel adopt --dry-run`."""
    if not arguments.dry_run:
        raise UsageError(
            "kestrel adopt needs --dry-run, as it only looks",
            hint="add --dry-run; kestrel serve --adopt takes a service over",
        )
    check_sink_from(arguments)
    properties, functions = Config.of(properties_of(arguments)), functions_with(arguments.functions)
    session = Session(config=properties, registry=registry_of(arguments), functions=functions)
    config = KafkaConfig.of(arguments.bootstrap_servers, arguments.kafka_config)
    refused = 0
    texts = texts_of(script_files(arguments.scripts), Display.of(None, out, errors)) if arguments.scripts else ()
    adoption = Adoption(
        config, arguments.service_id, lambda _: None, rebuilds=arguments.rebuild, sink_from=arguments.sink_from
    )
    for each in forecasts(adoption, session, texts):
        out.print(Text(f"{each.query_id} {each.text}", "" if each.is_taken else "yellow"), soft_wrap=True)
        refused += not each.is_taken
    return ExitCode.REFUSED if refused else ExitCode.OK
