"""The configuration of Kafka clients.

Servers and properties, translated for both clients, Java's (in Spark) and librdkafka.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from kestrel_sql.errors import EngineError, unreadable
from kestrel_sql.kafka.client.translate import for_java, for_librdkafka

_ESCAPES = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}
_BLANK = " \t\f"


def read_properties(path: Path) -> dict[str, str]:
    """Read a properties file.

    Raises:
        EngineError: the file cannot be read, or a line is not `name=value`; the message does not quote the line, which
            may contain a secret.
    """
    try:
        return parse_properties(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise EngineError(f"the Kafka configuration {path} cannot be read: {unreadable(error)}") from error
    except ValueError as error:
        raise EngineError(
            f"the Kafka configuration {path}: {error}", hint="each line is NAME=VALUE, as for Kafka's own tools"
        ) from None


def parse_properties(text: str) -> dict[str, str]:
    """Parse a properties file with Java's rules for comments, continued lines and escapes.

    Raises:
        ValueError: a line has no name, or an invalid Unicode escape.
    """
    found = {}
    for number, line in _logical_lines(text):
        at = _end_of_name(line)
        name = _unescape(line[:at], number)
        if not name:
            raise ValueError(f"line {number} has no name")
        rest = line[at:].lstrip(_BLANK)
        if rest[:1] in ("=", ":"):
            rest = rest[1:].lstrip(_BLANK)
        found[name] = _unescape(rest, number)
    return found


def _logical_lines(text: str) -> Iterator[tuple[int, str]]:
    joined, start = "", 0
    for number, physical in enumerate(re.split(r"\r\n|\r|\n", text), 1):
        line = physical.lstrip(_BLANK)
        if not joined and (not line or line[0] in "#!"):
            continue
        start = start or number
        if _is_continued(line):
            joined += line[:-1]
            continue
        yield start, joined + line
        joined, start = "", 0
    if joined:
        yield start, joined


def _is_continued(line: str) -> bool:
    return (len(line) - len(line.rstrip("\\"))) % 2 == 1


def _end_of_name(line: str) -> int:
    at = 0
    while at < len(line) and line[at] not in f"=:{_BLANK}":
        at += 2 if line[at] == "\\" else 1
    return min(at, len(line))


def _unescape(text: str, line: int) -> str:
    def replace(match: re.Match[str]) -> str:
        escaped = match.group(1)
        if escaped == "u":
            raise ValueError(f"line {line} has a \\u without four hexadecimal digits")
        return chr(int(escaped[1:], 16)) if len(escaped) == 5 else _ESCAPES.get(escaped, escaped)

    return re.sub(r"\\(u[0-9a-fA-F]{4}|.|$)", replace, text)


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
