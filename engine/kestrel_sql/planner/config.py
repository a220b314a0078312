"""The configuration of a session: the properties that SET and UNSET change, and their defaults."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from kestrel_sql.errors import PropertyError, did_you_mean
from kestrel_sql.java.numbers import parse_int
from kestrel_sql.planner.known_properties import STREAMS_PREFIX, bare_name, boolean, known_properties

DEFAULTS: Mapping[str, str | None] = MappingProxyType(
    {
        "ksql.persistence.default.format.key": "KAFKA",
        "ksql.persistence.default.format.value": None,
        "ksql.persistence.wrap.single.values": None,
        "ksql.headers.columns.enabled": "true",
        "ksql.rowpartition.rowoffset.enabled": "true",
        "ksql.lambdas.enabled": "true",
        "ksql.insert.into.values.enabled": "true",
        "ksql.create.or.replace.enabled": "true",
        "ksql.suppress.enabled": "true",
        "ksql.suppress.buffer.size.bytes": "-1",
        "ksql.source.table.materialization.enabled": "true",
        "ksql.nested.error.set.null": "true",
        "ksql.cast.strings.preserve.nulls": "true",
        "ksql.timestamp.throw.on.invalid": "false",
        "ksql.fail.on.deserialization.error": "false",
        "ksql.fail.on.production.error": "true",
        "ksql.json_sr.converter.deserializer.enabled": "true",
        "ksql.variable.substitution.enable": "true",
        "ksql.new.query.planner.enabled": "false",
        "ksql.output.topic.name.prefix": "",
        "ksql.sink.partitions": None,
        "ksql.sink.replicas": None,
        "ksql.service.id": "default_",
        "ksql.properties.overrides.denylist": "",
        "ksql.query.pull.enable": "true",
        "ksql.query.pull.table.scan.enabled": "true",
        "ksql.query.pull.range.scan.enabled": "true",
        "ksql.query.pull.limit.clause.enabled": "true",
        "ksql.query.pull.stream.enabled": "true",
        "ksql.query.push.v2.enabled": "false",
        "ksql.server.sni.check.enable": "false",
        "ksql.windowed.session.key.legacy": None,
        "auto.offset.reset": "latest",
        "kestrel.upsert.inline.errors.enabled": "true",
    }
)
"""The default of each property (rules L8); None means unset."""

IMMUTABLE = frozenset(
    {
        "ksql.service.id",
        "ksql.properties.overrides.denylist",
        "ksql.readonly.topics",
        "ksql.hidden.topics",
        "ksql.connect.url",
        "ksql.connect.basic.auth.credentials.file",
        "kestrel.connectors.skip",
    }
)
"""Properties of a server that no session changes (rule L8.3)."""

OPEN_PREFIXES = (
    "ksql.functions.",
    "ksql.schema.registry.",
    "ksql.logging.",
    "kestrel.",
    "ksql.streams.__emit.interval.ms.",
)
"""Prefixes of properties that are not listed one by one: any name with such a prefix is known."""


@dataclass(frozen=True, slots=True)
class Config(Mapping[str, str]):
    """The properties of a statement by name; a property that is not set has its default.

    A property of Kafka's clients is found under its bare name and with the prefix `ksql.streams.`; the bare name wins.
    `Config.of` accepts any name, as a server's properties file does; `with_property` accepts the names that SET does.
    """

    overrides: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))

    @staticmethod
    def of(values: Mapping[str, object]) -> Config:
        """Make a configuration from properties; booleans and numbers become strings, None means unset."""
        return Config(MappingProxyType({key: _text(value) for key, value in values.items() if value is not None}))

    def __getitem__(self, name: str) -> str:
        value = self.overrides.get(name)
        if value is None and name in known_properties():
            value = self.overrides.get(STREAMS_PREFIX + name)
        if value is None:
            value = DEFAULTS.get(name)
        if value is None:
            raise KeyError(name)
        return value

    def __iter__(self) -> Iterator[str]:
        return iter({**{k: v for k, v in DEFAULTS.items() if v is not None}, **self.overrides})

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def with_property(self, name: str, value: str) -> Config:
        """Set a property of the session.

        Raises:
            PropertyError: the property does not exist, does not take the value, or a session may not change it (rules
                L8).
        """
        _check_changeable(name, self)
        check_property(name, value)
        return Config(MappingProxyType({**self.overrides, name: value}))

    def without_property(self, name: str) -> Config:
        """Reset a property of the session to its default.

        Raises:
            PropertyError: the property does not exist, or a session may not change it.
        """
        _check_changeable(name, self)
        return Config(MappingProxyType({key: text for key, text in self.overrides.items() if key != name}))

    def beyond(self, base: Config) -> dict[str, str]:
        """The properties that are set, and not so in `base`."""
        return {name: value for name, value in self.overrides.items() if base.overrides.get(name) != value}

    def flag(self, name: str) -> bool:
        """Return a property that has a true or false default.

        Raises:
            PropertyError: the value is neither true nor false.
        """
        return _boolean(name, self[name])

    def integer(self, name: str) -> int | None:
        """Return an integer property, None if it is unset.

        Raises:
            PropertyError: the value is not an integer.
        """
        text = self.get(name)
        if text is None:
            return None
        try:
            return parse_int(text.strip())
        except ValueError:
            raise PropertyError(f"Invalid value {text} for configuration {name}: Not a number of type INT") from None

    @property
    def default_key_format(self) -> str | None:
        """The key format of a source whose statement names none."""
        return _upper(self.get("ksql.persistence.default.format.key"))

    @property
    def default_value_format(self) -> str | None:
        """The value format of a source whose statement names none; None unless it is set."""
        return _upper(self.get("ksql.persistence.default.format.value"))

    @property
    def wrap_single_values(self) -> bool | None:
        """Whether a single value column is written as an object with one field; None leaves it to the format."""
        text = self.get("ksql.persistence.wrap.single.values")
        return None if not text else _boolean("ksql.persistence.wrap.single.values", text)

    @property
    def output_topic_prefix(self) -> str:
        """The prefix of a sink's topic name if the statement names no topic."""
        return self["ksql.output.topic.name.prefix"]

    @property
    def pseudo_column_version(self) -> int:
        """1 if the pseudo columns ROWPARTITION and ROWOFFSET exist, else 0."""
        return int(self.flag("ksql.rowpartition.rowoffset.enabled"))


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _upper(value: str | None) -> str | None:
    return value.upper() if value else None


def _boolean(name: str, text: str) -> bool:
    wrong = boolean(text)
    if wrong is not None:
        raise PropertyError(f"Invalid value {text} for configuration {name}: {wrong}")
    return text.strip().lower() == "true"


def _check_changeable(name: str, config: Config) -> None:
    denied = {key.strip() for key in config["ksql.properties.overrides.denylist"].split(",") if key.strip()}
    if name in IMMUTABLE or name in denied:
        raise PropertyError(f"Cannot override property '{name}'")
    _check_known(name)


def _check_known(name: str) -> None:
    if not is_known(name):
        raise PropertyError(
            f"Not recognizable as ksql, streams, consumer, or producer property: '{name}'",
            hint=did_you_mean(name, {**known_properties(), **DEFAULTS}),
        )


def is_known(name: str) -> bool:
    """Whether SET and UNSET accept the name."""
    return name in DEFAULTS or bare_name(name) in known_properties() or name.startswith(OPEN_PREFIXES)


def check_property(name: str, value: str) -> None:
    """Check that a property exists and takes a value (rule L8.2).

    Raises:
        PropertyError: it does not.
    """
    _check_known(name)
    bare = bare_name(name)
    check = known_properties().get(bare) or (boolean if DEFAULTS.get(name) in ("true", "false") else None)
    wrong = None if check is None else check(value)
    if wrong is not None:
        raise PropertyError(f"Invalid value {value} for configuration {bare}: {wrong}")
