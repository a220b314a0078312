"""The configuration of Kafka clients.

Servers and properties, translated for both clients, Java's (in Spark) and librdkafka.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from kestrel_sql.errors import EngineError
from kestrel_sql.kafka.client.properties_file import read_properties
from kestrel_sql.kafka.client.translate import for_java, for_librdkafka

_SHOWN = frozenset({"bootstrap.servers", "security.protocol", "sasl.mechanism", "sasl.mechanisms", "client.id"})
"""Properties whose values may be shown; any other value may be a secret or lead to one."""

_SERVERS = "bootstrap.servers"

_ALWAYS: Mapping[str, str | int] = {
    # librdkafka also reports as errors what it would write to standard error.
    "log_level": 2,
    # Reconnect quickly even after a long outage.
    "reconnect.backoff.max.ms": 1_000,
    # The default starts again from the bootstrap servers when all brokers are down. It forgets open requests (ADR 16),
    # and makes its threads anew each time, which takes three times the work.
    "metadata.recovery.strategy": "none",
}

SPARK_REDACTION = "(?i)secret|password|token|access[.]?key|jaas|[.]key$|keystore|truststore"
"""The value of `spark.redaction.regex` and `spark.sql.redaction.options.regex` that hides secret properties."""


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class KafkaConfig:
    """The servers and client properties of a broker. It can be pickled, and its `repr` hides secrets.

    It is the key under which clients are cached, so configurations with the same values are equal. `properties` have
    the names of Java clients (`sasl.jaas.config`) or of librdkafka (`sasl.username`).
    """

    servers: str
    properties: Mapping[str, str] = field(default_factory=dict)

    @staticmethod
    def of(servers: str | None, file: Path | None = None) -> KafkaConfig:
        """Make the configuration from `--bootstrap-servers` and `--kafka-config`.

        The servers override those in the file.

        Raises:
            EngineError: no servers are given, the file cannot be read, or a property cannot be translated for both
                clients.
        """
        properties = read_properties(file) if file is not None else {}
        chosen = servers or properties.get(_SERVERS)
        if not chosen:
            raise EngineError(
                "no Kafka broker was given",
                hint="use --bootstrap-servers HOST:PORT, or bootstrap.servers in the Kafka configuration",
            )
        config = KafkaConfig(servers=chosen, properties={k: v for k, v in properties.items() if k != _SERVERS})
        config.client()
        config.spark()
        return config

    def client(self, **extra: str | int | float | bool) -> dict[str, str | int | float | bool]:
        """Return the configuration of a confluent-kafka client; `extra` overrides it, with underscores for dots.

        Raises:
            EngineError: a property cannot be translated for librdkafka.
        """
        given = {name.replace("_", "."): value for name, value in extra.items()}
        return {"bootstrap.servers": self.servers, **_ALWAYS, **for_librdkafka(self.properties), **given}

    def spark(self) -> dict[str, str]:
        """Return the options of Spark's Kafka source.

        Raises:
            EngineError: a property cannot be translated for a Java client.
        """
        return {
            "kafka.bootstrap.servers": self.servers,
            **{f"kafka.{name}": value for name, value in for_java(self.properties).items()},
        }

    def __hash__(self) -> int:
        return hash((self.servers, frozenset(self.properties.items())))

    def __repr__(self) -> str:
        shown = {name: value if name in _SHOWN else "[hidden]" for name, value in sorted(self.properties.items())}
        return f"KafkaConfig(servers={self.servers!r}, properties={shown!r})"
