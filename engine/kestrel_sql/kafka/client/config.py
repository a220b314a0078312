"""How to reach a broker: servers and client properties, translated for the two clients, Java's (in Spark) and librdkafka."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from kestrel_sql.errors import EngineError
from kestrel_sql.kafka.client.properties_file import read_properties
from kestrel_sql.kafka.client.translate import for_java, for_librdkafka

_SHOWN = frozenset({"bootstrap.servers", "security.protocol", "sasl.mechanism", "sasl.mechanisms", "client.id"})
"""Properties whose values may be shown; any other might be a secret or lead to one."""

_SERVERS = "bootstrap.servers"

_ALWAYS = {
    # What librdkafka would write to standard error comes to us as errors, too.
    "log_level": 2,
    # A broker that was away for long is found again at once.
    "reconnect.backoff.max.ms": 1_000,
}

SPARK_REDACTION = "(?i)secret|password|token|access[.]?key|jaas|[.]key$|keystore|truststore"
"""A value for `spark.redaction.regex` and `spark.sql.redaction.options.regex`, under which Spark shows none of these properties."""


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class KafkaConfig:
    """A broker and the properties of clients for it; it may travel to workers, and never shows its values.

    Clients are kept by it from batch to batch: two that say the same are equal, wherever they come from.
    `properties` are spelled as for Java clients (`sasl.jaas.config`) or as for librdkafka (`sasl.username`).
    """

    servers: str
    properties: Mapping[str, str] = field(default_factory=dict)

    @staticmethod
    def of(servers: str | None, file: Path | None = None) -> KafkaConfig:
        """Make the configuration of `--bootstrap-servers` and `--kafka-config`; the former wins over the file's.

        Raises:
            EngineError: no servers are given, the file cannot be read, or a property cannot be told to both clients.
        """
        properties = read_properties(file) if file is not None else {}
        chosen = servers or properties.get(_SERVERS)
        if not chosen:
            raise EngineError(
                "no Kafka broker is given",
                hint="--bootstrap-servers HOST:PORT, or bootstrap.servers in the Kafka configuration",
            )
        config = KafkaConfig(servers=chosen, properties={k: v for k, v in properties.items() if k != _SERVERS})
        config.client()
        config.spark()
        return config

    def client(self, **extra: str | int | float | bool) -> dict[str, str | int | float | bool]:
        """The configuration of a confluent-kafka client; `extra` has underscores for dots and wins.

        Raises:
            EngineError: a property cannot be said to librdkafka.
        """
        given = {name.replace("_", "."): value for name, value in extra.items()}
        return {"bootstrap.servers": self.servers, **_ALWAYS, **for_librdkafka(self.properties), **given}

    def spark(self) -> dict[str, str]:
        """The options of Spark's Kafka source.

        Raises:
            EngineError: a property cannot be said to a Java client.
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
