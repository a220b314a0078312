"""A server over a broker, for case after case: each has its streams, tables and topics there for as long as it runs."""

from __future__ import annotations

import http.client
import json
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from http import HTTPStatus
from pathlib import Path
from threading import Event
from urllib.parse import urlsplit
from uuid import uuid4

import msgspec
from pyspark.sql import SparkSession

from kestrel_qtt.cases import model
from kestrel_qtt.drivers.declared_topics import expected_topics
from kestrel_qtt.drivers.driver import DriverError
from kestrel_qtt.drivers.kafka.scratch_topics import ScratchTopics
from kestrel_sql.errors import EngineError
from kestrel_sql.kafka.client.config import KafkaConfig
from kestrel_sql.kafka.client.consume import partition_counts
from kestrel_sql.kafka.connector.jars import connector_jars
from kestrel_sql.kafka.run.broker_session import SESSION
from kestrel_sql.kafka.run.run import RunSettings
from kestrel_sql.planner.config import Config
from kestrel_sql.server.broker.backend import BrokerEngineSettings
from kestrel_sql.server.open import Running, ServerSettings, broker_server
from kestrel_sql.session.session import Session
from kestrel_sql.spark.runtime.session import open_test_session
from kestrel_sql.topics.records import Record

_ANSWER_S = 120.0
_PACE = 0.05
"""The looks at queries follow each other twenty times as fast as for users."""


class BrokerServer(msgspec.Struct, frozen=True):
    """The server, its session, and the topics of the broker."""

    config: KafkaConfig
    topics: ScratchTopics
    session: Session
    running: Running

    def send(self, records: Sequence[Record]) -> None:
        """Write records, in order.

        Raises:
            DriverError: the broker refuses one.
        """
        for sent in self.topics.send(records):
            if isinstance(sent, str):
                raise DriverError(f"the broker refused an input: {sent}")

    def records(self, *, of_queries: bool) -> Mapping[str, Sequence[Record]]:
        """What the topics of all sources hold, or of those only that queries write, by topic."""
        sinks = {query.plan.sink for query in self.session.queries.values()}
        sources = [each for each in self.session.catalog.sources.values() if each.name in sinks or not of_queries]
        counts = partition_counts(self.config, {source.topic for source in sources})
        self.topics.know(counts)
        found = self.topics.read(counts)
        # Each topic in the order of its records' time, as far as that is known over partitions.
        return {topic: sorted(records, key=lambda record: record.timestamp) for topic, records in found.items()}

    @contextmanager
    def case(self, case: model.Case) -> Iterator[None]:
        """Make the topics that a case expects to be there; at the end nothing of the case is left."""
        made = expected_topics(case)
        self.topics.make(made)
        self.topics.await_known(made)
        try:
            yield
        finally:
            self._clear(set(made))

    def _clear(self, topics: set[str]) -> None:
        catalog, registry = self.session.catalog, self.session.registry
        topics |= {source.topic for source in catalog.sources.values()}
        drops = [
            f"DROP {source.kind.value} IF EXISTS `{name.replace('`', '``')}`;"
            for name, source in [*catalog.sources.items()][::-1]
        ]
        types = [f"DROP TYPE IF EXISTS {name};" for name in catalog.types]
        text = " ".join(["TERMINATE ALL;", *drops, *types])
        status, said = _posted(f"{self.running.url}/ksql", {"ksql": text})
        for subject in registry.subjects():
            registry.delete(subject)
        self.session.partitions.clear()
        self.topics.remove(topics)
        if status != HTTPStatus.OK:
            raise DriverError(f"the server did not drop what the case created: {said}")


def _posted(url: str, body: object) -> tuple[int, str]:
    parts = urlsplit(url)
    with closing(http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=_ANSWER_S)) as connection:
        connection.request("POST", parts.path, json.dumps(body), {"Content-Type": "application/json"})
        answer = connection.getresponse()
        return answer.status, answer.read().decode()


@contextmanager
def broker_serving(servers: str) -> Iterator[BrokerServer]:
    """Run a server over a broker until the end of the block.

    Raises:
        DriverError: the broker does not answer, or Spark cannot be started.
    """
    with ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="kestrel-"))
        session = Session(config=Config.of({"ksql.service.id": f"qtt{uuid4().hex[:8]}_"}))
        try:
            config = KafkaConfig.of(servers)
            topics = ScratchTopics(config, 0)
            stack.callback(topics.close)
            engine = BrokerEngineSettings(
                run=RunSettings(config=config, checkpoint=Path(folder)),
                push_queue_rows=10_000,
                say=lambda _: None,
                pace=_PACE,
                open_spark=lambda *_: _open_spark(),
                close_spark=lambda _: None,
                # It only makes the first query of a server faster, and takes the time of ten cases.
                rehearse=lambda *_: None,
            )
            running = stack.enter_context(broker_server(session, engine, ServerSettings(port=0), Event()))
        except EngineError as error:
            raise DriverError(error.render()) from error
        stack.callback(topics.remove, [f"_confluent-ksql-{session.config['ksql.service.id']}_command_topic"])
        yield BrokerServer(config, topics, session, running)


def _open_spark() -> SparkSession:
    """A session with the settings of a server, on the JVM of the cases."""
    spark = open_test_session({"spark.jars": connector_jars().setting}).newSession()
    for name, value in {**SESSION, "spark.sql.shuffle.partitions": "2"}.items():
        if spark.conf.isModifiable(name):
            spark.conf.set(name, value)
    return spark
