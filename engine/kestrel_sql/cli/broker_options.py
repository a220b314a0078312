"""The options of commands that work against a Kafka broker."""

from __future__ import annotations

import argparse
import re
from argparse import ArgumentParser, _ArgumentGroup
from pathlib import Path
from urllib.parse import urlsplit

from kestrel_sql.cli.registry_options import REGISTRY, add_registry_option
from kestrel_sql.cli.usage import count_option, one_of, pairs_of, refuse
from kestrel_sql.errors import EngineError
from kestrel_sql.kafka.client.config import KafkaConfig
from kestrel_sql.kafka.client.positions import Position
from kestrel_sql.kafka.connector.store import STORES
from kestrel_sql.kafka.run.run import BATCH_RECORDS, RunSettings, StoreUri
from kestrel_sql.kafka.sink.sink import Delivery
from kestrel_sql.spark.checkpoint.compatibility import folder_of

SINK_FROM = (
    "with --rebuild: write the results of the records from these offsets of the sources on, and compute the state of"
    " those before; `committed` stands for the offsets that ksqlDB has read to"
)
REMOVE_MEMBERS = (
    "with --adopt: have the broker remove the members that a ksqlDB which has ended leaves in its consumer groups, and"
    " do not wait 45 s for it"
)


def add_broker_options(parser: ArgumentParser) -> _ArgumentGroup:
    """Add the options of everything that works against a broker, and return their group."""
    group = parser.add_argument_group("against a Kafka broker (docs/production.md)")
    group.add_argument("--bootstrap-servers", metavar="HOST:PORT", help="the broker; without it topics are in memory")
    group.add_argument(
        "--checkpoint",
        type=checkpoint_option,
        metavar="DIR|URI",
        help="a folder, s3a://… or hdfs://… for the progress and state of the run; the same command resumes from it",
    )
    group.add_argument(
        "--kafka-config", type=Path, metavar="FILE", help="properties of Kafka's clients, for SASL, TLS and the like"
    )
    group.add_argument("--delivery", **one_of(Delivery), help="default: exactly-once")
    group.add_argument(
        "--batch-records",
        type=count_option,
        metavar="N",
        help=f"about how many records a query takes at once (default: {BATCH_RECORDS})",
    )
    group.add_argument("--master", metavar="URL", help="where Spark runs; default: local[*]")
    group.add_argument("--spark-conf", **pairs_of("K=V"), help="a setting of Spark; may be repeated")
    group.add_argument(
        "--patience",
        type=count_option,
        metavar="SECONDS",
        help="how long to wait for a broker that is away (default: 60)",
    )
    add_registry_option(group)
    return group


_BROKER_ONLY = (
    "checkpoint",
    "delivery",
    "batch_records",
    "master",
    "spark_conf",
    "patience",
    "adopt",
    "rebuild",
    "sink_from",
    "remove_members",
    "prune",
    "until_caught_up",
    "share_sources",
    "processing_log_topic",
    "metrics",
    "health_file",
    "log_format",
    "grace",
)


def refuse_broker_options(arguments: argparse.Namespace) -> None:
    """Refuse the options of a broker where topics are in memory.

    Raises:
        UsageError: one of them was given.
    """
    hint = "name a broker with --bootstrap-servers, or leave them out"
    refuse(arguments, _BROKER_ONLY, "over topics in memory", hint)


def wants_broker(arguments: argparse.Namespace) -> bool:
    """Whether the options name a broker."""
    return arguments.bootstrap_servers is not None or arguments.kafka_config is not None


def properties_of(arguments: argparse.Namespace) -> dict[str, str]:
    """Return the properties of `--set` that are not the registry's."""
    return {name: value for name, value in arguments.set if not name.startswith(REGISTRY)}


def checkpoint_option(text: str) -> Path | StoreUri:
    """The folder or store that an option names.

    Raises:
        ArgumentTypeError: there are no such checkpoints.
    """
    scheme = re.match(r"([A-Za-z][A-Za-z0-9+.-]+):", text)
    if scheme is None:
        return Path(text)
    if scheme[1] == "file":
        return folder_of(text)
    if scheme[1] not in STORES or not re.match(r"[^:]+:/", text):
        raise argparse.ArgumentTypeError(
            f"expected a folder, file:///…, {' or '.join(f'{name}://…' for name in STORES)}, got {text}"
        )
    if not urlsplit(text).path.strip("/"):
        raise argparse.ArgumentTypeError(f"expected a path in the store, such as {text.rstrip('/')}/app, got {text}")
    return StoreUri(text)


def run_settings(arguments: argparse.Namespace, *, until_caught_up: bool = False) -> RunSettings:
    """Return how to run against the broker of the options.

    Raises:
        EngineError: there is no checkpoint, or a property of Kafka's clients is refused.
    """
    if arguments.checkpoint is None:
        raise EngineError(
            "--checkpoint is missing", hint="--checkpoint DIR names the folder for its progress and state"
        )
    names = ("delivery", "batch_records", "master", "patience")
    given = {name: value for name in names if (value := getattr(arguments, name)) is not None}
    return RunSettings(
        config=KafkaConfig.of(arguments.bootstrap_servers, arguments.kafka_config),
        checkpoint=arguments.checkpoint,
        until_caught_up=until_caught_up,
        spark=dict(arguments.spark_conf),
        **given,
    )


def check_sink_from(arguments: argparse.Namespace) -> None:
    """Refuse --sink-from without --rebuild, where it has no effect."""
    if not arguments.rebuild:
        refuse(arguments, ("sink_from",), "without --rebuild", "add it: its offsets are for queries that begin anew")


def sink_from_option(text: str) -> dict[Position, int]:
    """The offsets from which results are written, empty for those that ksqlDB committed.

    Raises:
        ArgumentTypeError: it is neither.
    """
    if text == "committed":
        return {}
    found = {}
    for each in text.split(","):
        match = re.fullmatch(r"(.+)-(\d+)=(\d+)", each.strip())
        if match is None:
            raise argparse.ArgumentTypeError(f"expected committed or TOPIC-PARTITION=OFFSET,…, got {text!r}")
        found[match[1], int(match[2])] = int(match[3])
    return found
