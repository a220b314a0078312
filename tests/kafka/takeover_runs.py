"""Takes random queries of ksqlDB's own server over, and compares them with those of one that nobody disturbs.

    python -m tests.kafka.takeover_runs --runs 1000 --seed 1

A run is one query with topics, random records and a comparison of its own (`tests.kafka.takeover_kinds`). So many as
`--at-once` are in one service, which is stopped amid the records of all of them, in good order or by SIGKILL: each has
read another part of its topics then. One server of Kestrel takes the service over, and reads what ksqlDB had not read
and as many records more; in one of three services another one was killed before, amid the take-over. A run is equal if
both together wrote what the undisturbed server wrote.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from http.server import ThreadingHTTPServer
from pathlib import Path
from typing import Any

from confluent_kafka import KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import NewTopic
from pyspark.sql import SparkSession

from kestrel_sql.formats.registry.memory import SchemaRegistry
from kestrel_sql.formats.registry.remote import open_registry
from kestrel_sql.kafka.broker.broker import Broker
from kestrel_sql.kafka.client.admin import admin_client
from kestrel_sql.kafka.client.config import KafkaConfig
from kestrel_sql.kafka.client.offsets import BrokerOffsets
from kestrel_sql.kafka.client.positions import Position
from kestrel_sql.kafka.connector.jars import connector_jars
from kestrel_sql.kafka.takeover.broker import committed_of
from kestrel_sql.session.session import Session
from kestrel_sql.session.source_records import SourceRecords
from tests.bench.tables import write_rows
from tests.engine.formats.registry_stub import Stub, handler_of
from tests.kafka.helpers import SUBMIT_ARGUMENTS, read
from tests.kafka.ksqldb import COMMAND, start_ksqldb
from tests.kafka.scenario import LEAN
from tests.kafka.servers import EARLIEST, Server, Servers, eventually
from tests.kafka.takeover_kinds import KINDS, Row, Run

AT_ONCE = 20
BEFORE, AFTER = 40, 40
"""Records of the streams of a run before and after the stop; as many again are written while ksqlDB is stopped."""
_EQUAL_S, _LOOK_S = 90.0, 1.0
_SESSION = "ksql.streams.session.timeout.ms=10000"
_AGO_MS = 600_000
_KILLED, _KILLED_AFTER_S = 0.3, (5.0, 45.0)
"""How often Kestrel is killed amid a take-over, and after how long."""
_FRAME = 5
"""The bytes in front of the JSON of JSON_SR."""
_NAN = bytes.fromhex("000000000000f8ff"), bytes.fromhex("000000000000f87f")
"""NaN in AVRO with and without its sign, which an x86 sets where it divides 0 by 0."""


@contextmanager
def registry_server() -> Iterator[str]:
    """A schema registry; yields its URL."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler_of(Stub()))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()


@dataclass(slots=True)
class Bench:
    """What all services share: a broker, a registry, Spark, and the server of ksqlDB that nobody disturbs."""

    servers: str
    registry_url: str
    spark: SparkSession
    folder: Path
    stack: ExitStack
    control: Server
    control_name: str

    @property
    def config(self) -> KafkaConfig:
        return KafkaConfig(servers=self.servers)

    @property
    def registry(self) -> SchemaRegistry:
        return open_registry(self.registry_url, {})


@dataclass(slots=True)
class Service:
    """One service of ksqlDB with its runs; `prefix` begins the names of its topics."""

    bench: Bench
    runs: Sequence[Run]
    rng: random.Random
    prefix: str
    stack: ExitStack
    servers: Servers = field(init=False)
    session: Session = field(init=False)
    codecs: dict[str, SourceRecords] = field(default_factory=dict)
    ids: dict[int, Mapping[str, str]] = field(default_factory=dict)
    """The id of the query of each run by service."""
    producer: Any = field(init=False)
    _written: dict[tuple[int, str], int] = field(default_factory=dict)
    """How many records each sink has."""

    def __post_init__(self) -> None:
        """Prepare what writes records."""
        self.servers = Servers(self.bench.servers, self.bench.folder / self.prefix, self.stack)
        self.servers.folder.mkdir()
        self.session = Session(registry=self.bench.registry)
        settings = {"partitioner": "murmur2_random", "linger.ms": 0, "enable.idempotence": True}
        self.producer = Producer({"bootstrap.servers": self.bench.servers, **settings})

    def compared(self) -> list[tuple[Run, Any, Any]]:
        """Carry all runs out, and return what differs: what was written together, and what should have been."""
        self._create({topic: run.partitions for run in self.runs for topic in run.names(self.prefix).values()})
        is_killed = self.rng.random() < 0.5
        guarantee = "exactly_once_v2" if is_killed or self.rng.random() < 0.7 else "at_least_once"
        ksqldb = self._start(guarantee)
        say(f"{len(self.runs)} queries, {guarantee}, {'SIGKILL' if is_killed else 'SIGTERM'}")
        self._declare(ksqldb)
        both = (self.servers.service, self.bench.control_name)
        self._write(self._shuffled(run.table_rows() for run in self.runs))
        self._await(both, ksqldb)
        self._write(self._shuffled(run.stream_rows(BEFORE) for run in self.runs))
        self._await(both, ksqldb)
        say("both read")
        self._feed_and_stop(ksqldb, is_killed=is_killed)
        self._await(both[1:], self.bench.control)
        self._trim()
        if self.rng.random() < _KILLED:
            self._kill_amid()
        heir = self.servers.here(
            self.bench.spark, adopts=True, removes_members=self.rng.random() < 0.5, registry=self.bench.registry
        )
        say("Kestrel takes over")
        refused = self._refused(heir)
        self._write(self._shuffled(run.table_rows() for run in self.runs))
        self._await(both[1:], self.bench.control)
        self._write(self._shuffled(run.stream_rows(AFTER) for run in self.runs))
        for _ in range(3):
            # ksqlDB looks at most once a second whether windows have closed.
            time.sleep(1.2)
            self._await(both[1:], self.bench.control)
            self._write([(run, row) for run in self.runs for row in run.closing_rows()])
        self._await(both[1:], self.bench.control)
        found = self._differing([run for run in self.runs if run.number not in refused])
        heir.end()
        return found + [(run, refused[run.number], "goes on") for run in self.runs if run.number in refused]

    def _kill_amid(self) -> None:
        """Kill a server of Kestrel that has begun to take over."""
        first = self.servers.start(*LEAN, "--adopt", "--schema-registry", self.bench.registry_url)
        seconds = self.rng.uniform(*_KILLED_AFTER_S)
        time.sleep(seconds)
        first.end()
        begun = first.said().count("goes on")
        say(f"a server of Kestrel is killed after {seconds:.0f} s, when {begun} queries went on")

    def _refused(self, heir: Server) -> dict[int, str]:
        """Wait until all queries go on, and return why those do not that are refused."""
        ids = {run.number: self.ids[run.number][self.servers.service] for run in self.runs}
        found: dict[int, str] = {}

        def is_decided() -> bool:
            if not heir.is_up():
                return False
            said = heir.said()
            for number, query in ids.items():
                if number not in found and f"{query} goes on" not in said:
                    (answer,) = heir.ksql(f"EXPLAIN {query};")
                    for each in answer.get("queryDescription", {}).get("queryErrors", []):
                        found[number] = each["errorMessage"]
            return all(number in found or f"{query} goes on" in said for number, query in ids.items())

        eventually(is_decided, heir, 400)
        return found

    def _start(self, guarantee: str) -> Server:
        url = f"ksql.schema.registry.url={self.bench.registry_url}"
        return start_ksqldb(
            self.bench.servers,
            self.servers.service,
            self.servers.folder,
            self.stack,
            url,
            f"processing.guarantee={guarantee}",
            f"commit.interval.ms={self.rng.choice((200, 1000))}",
        )

    def _declare(self, ksqldb: Server) -> None:
        """Create the queries in both services."""
        eventually(ksqldb.is_up, ksqldb)
        for run in self.runs:
            ids = {}
            for name, server in ((self.bench.control_name, self.bench.control), (self.servers.service, ksqldb)):
                properties = {**EARLIEST, "cache.max.bytes.buffering": run.cache}
                found = server.ksql(run.statements(self.prefix, name), streamsProperties=properties)
                assert isinstance(found, list), (str(run), found)
                ids[name] = found[-1]["commandStatus"]["queryId"]
            self.ids[run.number] = ids
            for parsed in self.session.parse(run.statements(self.prefix, self.servers.service)):
                done = self.session.execute(parsed)
                if done.plan is not None and done.plan.query_plan is None:
                    name = run_name(parsed.text)
                    source = self.session.catalog.sources[name.upper()]
                    self.codecs[name] = SourceRecords.of(source, self.session.serde())

    def _create(self, topics: Mapping[str, int]) -> None:
        admin = admin_client(self.bench.config)
        for future in admin.create_topics([NewTopic(name, count) for name, count in topics.items()]).values():
            future.result()

    def _shuffled(self, given: Iterable[Sequence[Row]]) -> list[tuple[Run, Row]]:
        """Records of all runs, in the order of each run's own."""
        waiting = [(run, [*rows][::-1]) for run, rows in zip(self.runs, given, strict=True)]
        found = []
        while waiting:
            run, rows = self.rng.choice(waiting)
            if rows:
                found.append((run, rows.pop()))
            else:
                waiting.remove((run, rows))
        return found

    def _write(self, rows: Iterable[tuple[Run, Row]]) -> None:
        for run, (source, columns, timestamp) in rows:
            run.written.append((source, columns, timestamp))
            name = run.names(self.prefix)[source]
            record = self.codecs[name].from_row(columns, timestamp)
            value = None if len(columns) == 1 else record.value
            self.producer.produce(name, key=record.key, value=value, timestamp=timestamp)
            self.producer.poll(0)
        assert self.producer.flush(60) == 0

    def _feed_and_stop(self, ksqldb: Server, *, is_killed: bool) -> None:
        """Write records, and stop the service at a random one of them."""
        rows = self._shuffled(run.stream_rows(BEFORE) for run in self.runs)
        at, step = self.rng.randrange(len(rows)), 20
        ending = threading.Thread(target=ksqldb.end)
        for begin in range(0, len(rows), step):
            self._write(rows[begin : begin + step])
            time.sleep(0.05)
            if begin <= at < begin + step:
                if is_killed:
                    os.kill(ksqldb.process, signal.SIGKILL)
                else:
                    ending.start()
        if not is_killed:
            ending.join()

    def _await(self, services: Iterable[str], server: Server) -> None:
        """Wait until services have read everything."""
        waiting = [(name, run) for name in services for run in self.runs]
        ends = BrokerOffsets(self.bench.config).ends([each for run in self.runs for each in self._places(run)])

        def are_done() -> bool:
            waiting[:] = [
                (name, run)
                for name, run in waiting
                if any(at < ends[place] for place, at in self._committed(run, name).items())
            ]
            return not waiting

        try:
            eventually(are_done, server, 200)
        except AssertionError:
            raise AssertionError(f"not read: {[f'{name} {run}' for name, run in waiting]}") from None

    def _trim(self) -> None:
        """Delete what the service has read of some runs, as retention does."""
        wanted = [
            TopicPartition(*place, at)
            for run in self.runs
            if run.is_trimmed
            for place, at in self._committed(run, self.servers.service).items()
            if at > 0
        ]
        for future in (admin_client(self.bench.config).delete_records(wanted) if wanted else {}).values():
            future.result()

    def _places(self, run: Run) -> list[Position]:
        """The partitions of the sources of a run."""
        return [(topic, at) for topic in run.names(self.prefix).values() for at in range(run.partitions)]

    def _committed(self, run: Run, service: str) -> dict[Position, int]:
        """How far a service has read them."""
        group, places = f"_confluent-ksql-{service}query_{self.ids[run.number][service]}", self._places(run)
        try:
            found = committed_of(self.bench.config, group, places)
        except KafkaException as error:
            # A transaction with its offsets is open.
            if error.args[0].code() != KafkaError.UNSTABLE_OFFSET_COMMIT:
                raise
            found = {}
        return {place: found[place].offset if place in found else 0 for place in places}

    def _differing(self, left: Sequence[Run]) -> list[tuple[Run, Any, Any]]:
        """The runs that still differ when Kestrel has written nothing more for a while."""
        counts, deadline = -1, 0.0
        while True:
            services = self.servers.service, self.bench.control_name
            found = [(run, *(self._rows(run, name) for name in services)) for run in left]
            found = [each for each in found if each[1] != each[2]]
            if counts != (counts := sum(self._written.values())):
                deadline = time.monotonic() + _EQUAL_S
            if not found or time.monotonic() > deadline:
                return found
            left = [run for run, _, _ in found]
            time.sleep(_LOOK_S)

    def _rows(self, run: Run, service: str) -> Any:
        """What counts of the records of a sink."""
        records = [
            (at, key, _sorted(value), time)
            for at, key, value, time in read(self.bench.servers, f"{service}{run.number}", run.partitions)
        ]
        self._written[run.number, service] = len(records)
        if run.kind.sink == "STREAM":
            # A record without a key may go to any partition.
            return Counter((None if key is None else at, key, value, time) for at, key, value, time in records)
        last = {(at, key): (value, time) for at, key, value, time in records}
        return {
            place: (value, time if run.kind.is_timed else None)
            for place, (value, time) in last.items()
            if value is not None
        }

    def clean(self) -> None:
        """Leave nothing behind on the broker and in the undisturbed server."""
        name = self.bench.control_name
        for run in self.runs:
            self.bench.control.ksql(f"TERMINATE {self.ids[run.number][name]};")
        admin = admin_client(self.bench.config)
        begins = tuple(f"{each}{run.number}_" for run in self.runs for each in (self.prefix,))
        own = {f"{service}{run.number}" for run in self.runs for service in (self.servers.service, name)}
        topics = [
            topic
            for topic in admin.list_topics(timeout=20).topics
            if topic in own or topic.startswith((*begins, f"_confluent-ksql-{self.servers.service}"))
        ]
        for future in admin.delete_topics(topics).values():
            future.exception()


def _sorted(value: bytes | None) -> bytes | None:
    """A value without what does not count: the order of the members of JSON, and the sign of NaN."""
    start = -1 if value is None else value.find(b"{")
    if value is None or start not in (0, _FRAME) or not value.endswith(b"}"):
        return value if value is None else value.replace(*_NAN)
    # As texts numbers keep their scales.
    members = json.loads(value[start:], parse_float=str, parse_int=str)
    return value[:start] + json.dumps(members, sort_keys=True).encode()


def run_name(statement: str) -> str:
    """The name that a statement creates."""
    return statement.split()[2]


def say(text: str) -> None:
    """Tell what happens, and when."""
    sys.stdout.write(f"{datetime.now(UTC):%H:%M:%S} {text}\n")
    sys.stdout.flush()


def difference(run: Run, ours: Any, wanted: Any) -> str:
    """What differs in a run, for people: the records of the first key that does, and what was written with it."""
    if isinstance(ours, str):
        return f"{run} is refused: {ours}"
    sides = [
        [*side.elements()] if isinstance(side, Counter) else [(*place, *row) for place, row in side.items()]
        for side in (ours, wanted)
    ]
    more, less = ([*(Counter(one) - Counter(other)).elements()] for one, other in (sides, sides[::-1]))
    key = [*more, *less][0][1]
    return "\n".join(
        [
            f"{run} differs in {len(more)} and {len(less)} records of {len(sides[1])}",
            *(f"  {sign} {each}" for sign, part in (("+", more), ("-", less)) for each in part[:4]),
            *(f"  given {each}" for each in run.written if (each[1]["K"] or "").encode() in (key or b"")),
            *(f"  ours {each}" for each in sides[0] if each[1] == key),
            *(f"  wanted {each}" for each in sides[1] if each[1] == key),
        ]
    )


def go(arguments: argparse.Namespace) -> int:
    """Do the runs, and return how many differ."""
    from tests.kafka.applications import production_session

    os.environ.setdefault(SUBMIT_ARGUMENTS, f"--jars {connector_jars().setting} pyspark-shell")
    begun, flaws, done = time.monotonic(), 0, 0
    with ExitStack() as stack:
        quick = {"transaction.abort.timed.out.transaction.cleanup.interval.ms": "1000"}
        broker = stack.enter_context(Broker.start(more=quick))
        url = stack.enter_context(registry_server())
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        name = "c0_"
        control = start_ksqldb(
            broker.address, name, folder, stack, f"ksql.schema.registry.url={url}", "commit.interval.ms=500"
        )
        bench = Bench(broker.address, url, production_session(), folder, stack, control, name)
        eventually(control.is_up, control)
        numbers = [*range(arguments.first, arguments.first + arguments.runs)]
        chosen = [number for number in numbers if not arguments.kind or [*KINDS][number % len(KINDS)] in arguments.kind]
        for at in range(0, len(chosen), arguments.at_once):
            if arguments.minutes is not None and time.monotonic() - begun > arguments.minutes * 60:
                break
            part = chosen[at : at + arguments.at_once]
            now = int(time.time() * 1000) - _AGO_MS
            runs = [Run(arguments.seed, number, now) for number in part]
            with ExitStack() as own:
                service = Service(bench, runs, random.Random(f"{arguments.seed}/{part[0]}"), f"r{part[0]}_", own)
                found = service.compared()
                service.clean()
            done, flaws = done + len(part), flaws + len(found)
            for each in found:
                say(difference(*each))
            minutes = (time.monotonic() - begun) / 60
            row = (str(arguments.seed), f"{done:,}", str(flaws), f"{minutes:.0f}", f"{datetime.now(UTC):%Y-%m-%d}")
            # A night that is ended early has a figure, too.
            write_rows("takeovers", ["Seed", "Runs", "That differ", "Minutes", "Of"], [row])
    return flaws


def main() -> int:
    """Read the options, and return 1 if a run differs."""
    parser = argparse.ArgumentParser(prog="python -m tests.kafka.takeover_runs", description=__doc__)
    parser.add_argument("--runs", type=int, default=AT_ONCE, metavar="N", help="how many queries")
    parser.add_argument("--seed", type=int, default=1, metavar="S", help="what the runs come from")
    parser.add_argument("--first", type=int, default=0, metavar="N", help="the number of the first run")
    parser.add_argument("--at-once", type=int, default=AT_ONCE, metavar="N", help="how many are in one service")
    parser.add_argument("--minutes", type=float, metavar="N", help="begin no service after so many")
    parser.add_argument("--kind", nargs="+", choices=[*KINDS], help="runs of these kinds only")
    arguments = parser.parse_args()
    if not COMMAND.exists():
        say(f"{COMMAND.parent} is absent: there is no server of ksqlDB to take over from")
        return 0
    return 1 if go(arguments) else 0


if __name__ == "__main__":
    sys.exit(main())
