"""The command `kestrel doctor`: whether this machine has what runs need, and what to do where it does not."""

from __future__ import annotations

import argparse
import os
import socket
import sys
from collections.abc import Callable, Iterator
from importlib import metadata
from pathlib import Path

from packaging.requirements import Requirement
from rich.console import Console
from rich.text import Text

from kestrel_sql.cli.exit_codes import ExitCode
from kestrel_sql.cli.options import add_set_option
from kestrel_sql.cli.registry_options import REGISTRY
from kestrel_sql.cli.usage import address_option
from kestrel_sql.errors import EngineError, UsageError

_PACKAGE = "kestrel-sql"
_LISTEN = "127.0.0.1:8088"
_NEEDED_MIB = 1024
"""What one query on a broker takes with Spark's JVM and its Python processes."""

_WAIT_S = 5.0
"""How long a broker may take to answer."""

Check = Callable[[], str]
"""Says what it found, or raises an EngineError with a hint."""


def add_options(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    about = "Say whether this machine has what runs need, and what to do where it does not."
    parser.description = f"{about} Changes nothing."
    add = parser.add_argument
    add("--bootstrap-servers", metavar="HOST:PORT", help="look whether this broker answers, too")
    add("--kafka-config", type=Path, metavar="FILE", help="properties of Kafka's clients, for SASL, TLS and the like")
    add(
        "--listen", type=address_option, metavar="[HOST:]PORT", default=_LISTEN, help=f"as in kestrel serve ({_LISTEN})"
    )
    add("--schema-registry", metavar="URL", help="look whether this schema registry answers, too")
    add_set_option(parser, "a setting of the schema registry, such as its credentials; may be repeated")


def command(arguments: argparse.Namespace, out: Console, errors: Console) -> ExitCode:
    """`kestrel doctor`."""
    other = [name for name, _ in arguments.set if not name.startswith(REGISTRY)]
    if other or (arguments.set and arguments.schema_registry is None):
        raise UsageError(
            f"--set {(other or [REGISTRY])[0]} has no effect here", hint="name --schema-registry beside it"
        )
    if arguments.kafka_config is not None and arguments.bootstrap_servers is None:
        raise UsageError("--kafka-config has no effect without a broker", hint="name it with --bootstrap-servers")
    is_well = True
    for name, check in _checks(arguments):
        try:
            said, style = f"ok    {name}: {check()}", ""
        except EngineError as error:
            said, style = f"WRONG {name}: {error.message}", "red"
            said += f"\n        {error.hint}" if error.hint else ""
            is_well = False
        out.print(Text(said, style), soft_wrap=True)
    return ExitCode.OK if is_well else ExitCode.REFUSED


def _checks(arguments: argparse.Namespace) -> Iterator[tuple[str, Check]]:
    yield "Python", lambda: sys.version.split()[0]
    yield "packages", _packages
    yield "Spark", _spark
    yield "Java", _java
    yield "Kafka connector", _connector
    yield "folder", _folder
    yield "memory", _memory
    yield f"port {arguments.listen[1]}", lambda: _port(*arguments.listen)
    if arguments.bootstrap_servers is not None:
        yield "broker", lambda: _broker(arguments)
    if arguments.schema_registry is not None:
        yield "schema registry", lambda: _registry(arguments)


def _packages() -> str:
    needed = [Requirement(text) for text in metadata.requires(_PACKAGE) or ()]
    wrong, count = [], 0
    for each in needed:
        if each.marker is not None and not each.marker.evaluate({"extra": ""}):
            continue
        count += 1
        try:
            found = metadata.version(each.name)
        except metadata.PackageNotFoundError:
            wrong.append(str(each))
            continue
        if not each.specifier.contains(found, prereleases=True):
            wrong.append(f"{each} ({found} is installed)")
    if wrong:
        quoted = " ".join(f"'{each.partition(' (')[0]}'" for each in wrong)
        raise EngineError(f"missing or of another version: {', '.join(wrong)}", hint=f"pip install {quoted}")
    return f"all {count}"


def _spark() -> str:
    from kestrel_sql.spark.releases import found_spark

    return found_spark()


def _java() -> str:
    from kestrel_sql.spark.runtime.environment import find_java

    java, version = find_java()
    return f"{version}, {java}"


def _connector() -> str:
    from kestrel_sql.kafka.connector.jars import connector_here

    jars = connector_here()
    if jars is None:
        return "the first run on a broker downloads it; `kestrel prepare` does it now"
    return jars.note or "here"


def _folder() -> str:
    from kestrel_sql.spark.runtime.environment import own_folder

    return f"{own_folder()} holds what is made once"


def _memory() -> str:
    free = os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") >> 20
    total = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") >> 20
    if total < _NEEDED_MIB:
        raise EngineError(
            f"{total:,} MiB in all; a query on a broker takes about {_NEEDED_MIB:,}",
            hint="shell, files and `qtt run --local` run in the process and need a tenth of it",
        )
    return f"{total:,} MiB, {free:,} unused, {os.cpu_count()} cores"


def _port(host: str, port: int) -> str:
    try:
        socket.create_server((host, port)).close()
    except OSError as error:
        raise EngineError(
            f"not free: {error.strerror or error}", hint="kestrel serve --listen names another"
        ) from error
    return "free"


def _broker(arguments: argparse.Namespace) -> str:
    from kestrel_sql.kafka.client.config import KafkaConfig
    from kestrel_sql.kafka.client.consume import partition_counts

    config = KafkaConfig.of(arguments.bootstrap_servers, arguments.kafka_config)
    return f"{arguments.bootstrap_servers} answers, with {len(partition_counts(config, timeout=_WAIT_S)):,} topics"


def _registry(arguments: argparse.Namespace) -> str:
    from kestrel_sql.formats.registry.remote import open_registry

    subjects = open_registry(arguments.schema_registry, dict(arguments.set)).subjects()
    return f"{arguments.schema_registry} answers, with {len(subjects):,} subjects"
