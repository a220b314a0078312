"""`kestrel serve`: the engine behind ksqlDB's HTTP API."""

from __future__ import annotations

import argparse
import gc
import getpass
import logging
import os
import signal
import sys
import threading
import time
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from types import FrameType

from confluent_kafka import KafkaException
from msgspec.structs import replace
from rich.console import Console

from kestrel_sql.admin.connect import SKIP
from kestrel_sql.admin.shown import shown
from kestrel_sql.cli.broker_options import (
    REMOVE_MEMBERS,
    SINK_FROM,
    add_broker_options,
    check_sink_from,
    properties_of,
    refuse_broker_options,
    run_settings,
    sink_from_option,
    wants_broker,
)
from kestrel_sql.cli.client_commands import ClientCommands
from kestrel_sql.cli.exit_codes import ExitCode
from kestrel_sql.cli.options import add_engine_options, add_script_options
from kestrel_sql.cli.registry_options import memory_registry_of, registry_of
from kestrel_sql.cli.render import Display, show_error, warn
from kestrel_sql.cli.usage import address_option, count_option, refuse
from kestrel_sql.errors import EngineError
from kestrel_sql.functions.user_functions import functions_with
from kestrel_sql.kafka.client.admin import admin_client
from kestrel_sql.kafka.run.run import connect
from kestrel_sql.planner.config import Config, check_property, is_known
from kestrel_sql.queries.served_engine import ServedEngine
from kestrel_sql.queries.topic_rules import TopicRule
from kestrel_sql.server.broker.backend import BrokerEngineSettings
from kestrel_sql.server.http.bodies import Limits
from kestrel_sql.server.http.listen import Tls
from kestrel_sql.server.open import Running, ServerSettings, broker_server, memory_server
from kestrel_sql.server.security.open import SecuritySettings
from kestrel_sql.server.security.users import hash_password
from kestrel_sql.server.service import State
from kestrel_sql.server.serving.scripts import ServedScript
from kestrel_sql.server.traces import Traces, open_traces
from kestrel_sql.session.session import Session
from kestrel_sql.sql.script_files import script_files

SWITCH_S = 0.0005
"""How long (s) a thread may keep others from Python: a request waits so long while the copy of a table takes rows."""

_LOOK_S = 0.2
_GRACE_S, _GONE_S, _STARTING_S = 25.0, 2.0, 1.0
"""Seconds that a server may take to end: as a rule, without its broker, which may take as long to answer, and before
Spark has started."""

_COLLECT_S, _REST = 30.0, 1_000
"""Seconds between two collections of all objects, and how many times the last one's processor time is the least."""

_COLLECT = 10_000, 5, 2_000
"""After how many new objects the garbage collector works, and how often its second and third generation.

The second is 60,000 objects at most, which takes 30 ms where their memory is cold. The third, which holds up every
request for as long as all records and rows of state in memory take, comes after a hundred million new objects.
"""


def add_options(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    add = parser.add_argument
    listen = "where to listen (127.0.0.1:8088)"
    add("--listen", type=address_option, metavar="[HOST:]PORT", default="127.0.0.1:8088", help=listen)
    add("--service-id", metavar="ID", help="the ksql.service.id (default_)")
    add(
        "--users",
        type=Path,
        metavar="FILE",
        help="users with hashed passwords and roles, in YAML: basic authentication",
    )
    add("--hash-password", action="store_true", help="ask for a password, print its hash for a users file, and leave")
    add("--jwks", metavar="FILE|URL", help="the keys that sign bearer tokens")
    add("--jwt-issuer", metavar="ISS", help="the issuer that tokens must name")
    add("--jwt-audience", metavar="AUD", help="the audience that tokens must name")
    add("--tls-certificate", type=Path, metavar="FILE", help="the server's certificate in PEM: HTTPS")
    add("--tls-key", type=Path, metavar="FILE", help="the key of the certificate")
    add("--client-ca", type=Path, metavar="FILE", help="who signs the certificates that clients must show")
    add("--cors-origin", action="append", default=[], metavar="ORIGIN", help="a page that may call; may be repeated")
    add("--audit-log", type=Path, metavar="FILE", help="append a line of JSON for each statement")
    add("--traces", action="store_true", help="send OpenTelemetry traces; OTEL_EXPORTER_OTLP_ENDPOINT says where to")
    for name, default, what in (
        ("max-body-bytes", 10 << 20, "the largest body of a request (10 MiB)"),
        ("max-statements", 500, "the most statements of a request (500)"),
        ("push-queue-rows", 10_000, "rows that may wait for a client (10000)"),
    ):
        add(f"--{name}", type=count_option, default=default, metavar="N", help=what)
    group = add_broker_options(parser)
    group.add_argument(
        "--adopt",
        action="store_true",
        help="take over a command topic that ksqlDB wrote, or whose checkpoint is lost",
    )
    group.add_argument(
        "--rebuild",
        action="store_true",
        help="let queries whose state cannot be taken over begin with empty state, and write their results again",
    )
    group.add_argument("--sink-from", type=sink_from_option, metavar="OFFSETS", help=SINK_FROM)
    group.add_argument("--remove-members", action="store_true", help=REMOVE_MEMBERS)
    add_engine_options(parser)
    script = "carry out these scripts, or those of a folder, once for each checkpoint, before the server is ready"
    parser.add_argument("--file", type=Path, nargs="+", action="extend", default=[], metavar="FILE", help=script)
    add_script_options(parser)


def command(arguments: argparse.Namespace, out: Console, errors: Console) -> int:
    """Serve until Ctrl-C or SIGTERM."""
    _check(arguments)
    if arguments.hash_password:
        out.print(
            hash_password(getpass.getpass() if sys.stdin.isatty() else sys.stdin.readline().rstrip("\n")),
            soft_wrap=True,
        )
        return 0
    logging.basicConfig(stream=sys.stderr, level=logging.WARNING, format="%(asctime)s %(name)s: %(message)s")
    # Where the JVM is gone, our errors say it.
    logging.getLogger("py4j").setLevel(logging.CRITICAL)
    stopped = threading.Event()

    def stop(number: int, frame: FrameType | None) -> None:
        stopped.set()

    sys.setswitchinterval(SWITCH_S)
    config = _config(arguments)
    # Until it serves, SIGTERM ends it as Ctrl-C does, so that a lease is released.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        with _traces(arguments, config) as traces, _server(arguments, config, traces, errors, stopped) as running:
            if not _carry_out(arguments, running, config, errors):
                return ExitCode.REFUSED
            signal.signal(signal.SIGINT, stop)
            signal.signal(signal.SIGTERM, stop)
            text = f"Kestrel answers at {running.url}; its page is {running.url}/ui. Ctrl-C ends it."
            out.print(text, highlight=False, soft_wrap=True)
            _settle(running, stopped)
            if wants_broker(arguments):
                _collect(stopped)
            stopped.wait()
            starts = running.service.state is State.STARTING
            threading.Thread(target=_end_in_time, args=(arguments,), kwargs={"starts": starts}, daemon=True).start()
    except OSError as error:
        host, port = arguments.listen
        raise EngineError(f"cannot listen on {host}:{port}: {error.strerror or error}") from error
    return 0


def _carry_out(arguments: argparse.Namespace, running: Running, config: Config, errors: Console) -> bool:
    """Carry out the scripts of the options, and say whether all went well."""
    display = Display(errors, errors)
    script = ServedScript(running.service.carry_out, Session(variables=dict(arguments.define)))

    def run(text: str) -> bool:
        try:
            for entity in script.run(text):
                display.answer(shown(entity))
        except EngineError as error:
            show_error(errors, error, text)
            return False
        return True

    return ClientCommands(run, display).execute_files(script_files(arguments.file))


def _check(arguments: argparse.Namespace) -> None:
    if not wants_broker(arguments):
        refuse_broker_options(arguments)
    check_sink_from(arguments)
    if arguments.tls_certificate is None:
        refuse(arguments, ("tls_key", "client_ca"), "without --tls-certificate", "name both files")
    if arguments.tls_key is None:
        refuse(arguments, ("tls_certificate",), "without --tls-key", "name both files")
    if arguments.jwks is None:
        refuse(arguments, ("jwt_issuer", "jwt_audience"), "without --jwks", "name the keys with --jwks FILE|URL")


def _settle(running: Running, stopped: threading.Event) -> None:
    """Wait for Spark, and spare the garbage collector from then on.

    To look at all objects of a server holds up every request for 0.1 s of processor time, and would come with each
    large statement and every few seconds while a table changes: words and records are objects, too.
    """
    while running.service.state is State.STARTING:
        if stopped.wait(_LOOK_S):
            return
    spare_collector()


def spare_collector() -> None:
    """Let the garbage collector look at new objects only, and at the oldest seldom."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(*_COLLECT)


def _collect(stopped: threading.Event) -> None:
    """Let go of Python's oldest objects now and then: as long the JVM keeps the plans of finished batches.

    It holds up every request, for longer the more rows the tables have, so that it comes the more seldom.
    """
    pause = 0.0
    while not stopped.wait(max(_COLLECT_S, pause * _REST)):
        # By the clock, a machine that is busy with other work would make the next one wait for an hour.
        begun = time.thread_time()
        gc.collect()
        pause = time.thread_time() - begun


def _end_in_time(arguments: argparse.Namespace, *, starts: bool = False) -> None:
    """End the process, whatever its threads still wait for: the next start repeats a batch that was not finished."""
    # While Spark starts no query has begun a batch.
    grace = _STARTING_S if starts else _GRACE_S
    if wants_broker(arguments) and not starts:
        try:
            admin_client(run_settings(arguments).config).list_topics(timeout=_GONE_S)
        except KafkaException:
            # Without its broker no query can finish its batch.
            grace = _GONE_S
    time.sleep(grace)
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)


def _config(arguments: argparse.Namespace) -> Config:
    service = {"ksql.service.id": arguments.service_id} if arguments.service_id else {}
    skipped = {SKIP: "true"} if arguments.skip_connectors else {}
    properties = properties_of(arguments)
    for name, value in properties.items():
        if not name.startswith("ksql.") or is_known(name):
            check_property(name, value)
    return Config.of({**properties, **service, **skipped})


def _traces(arguments: argparse.Namespace, config: Config) -> AbstractContextManager[Traces]:
    return open_traces(config["ksql.service.id"]) if arguments.traces else nullcontext(Traces())


def _server(
    arguments: argparse.Namespace, config: Config, traces: Traces, errors: Console, stopped: threading.Event
) -> AbstractContextManager[Running]:
    functions, settings = functions_with(arguments.functions), replace(_settings(arguments, config), traces=traces)
    if not wants_broker(arguments):
        session = Session(config=config, registry=memory_registry_of(arguments), functions=functions)
        return memory_server(ServedEngine(session, by_time=True, topics=TopicRule.BROKER), settings)
    run, say = run_settings(arguments), warn(errors)
    connect(run.config, say, run.patience, threading.Event())
    session = Session(config=config, registry=registry_of(arguments), functions=functions)
    return broker_server(
        session,
        BrokerEngineSettings(
            run=run,
            push_queue_rows=arguments.push_queue_rows,
            say=say,
            adopts=arguments.adopt,
            rebuilds=arguments.rebuild,
            sink_from=arguments.sink_from,
            removes_members=arguments.remove_members,
        ),
        settings,
        stopped,
    )


def _settings(arguments: argparse.Namespace, config: Config) -> ServerSettings:
    host, port = arguments.listen
    return ServerSettings(
        host=host,
        port=port,
        tls=None
        if arguments.tls_certificate is None
        else Tls(certificate=arguments.tls_certificate, key=arguments.tls_key, clients=arguments.client_ca),
        security=SecuritySettings(
            users=arguments.users,
            jwks=arguments.jwks,
            issuer=arguments.jwt_issuer,
            audience=arguments.jwt_audience,
            origins=tuple(arguments.cors_origin),
            audit_log=arguments.audit_log,
        ),
        limits=Limits(
            body_bytes=arguments.max_body_bytes,
            statements=arguments.max_statements,
            pulls_per_second=config.integer("ksql.query.pull.max.qps"),
            concurrent_pulls=config.integer("ksql.query.pull.max.concurrent.requests"),
        ),
        checks_server_name=config.flag("ksql.server.sni.check.enable"),
        push_queue_rows=arguments.push_queue_rows,
    )
