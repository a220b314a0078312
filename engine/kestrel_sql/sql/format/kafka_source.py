"""Formats CREATE SOURCE … FROM KAFKA as SQL text."""

from __future__ import annotations

from kestrel_sql.sql.format.expressions import format_identifier, format_string
from kestrel_sql.sql.keywords import KAFKA_KEYWORDS
from kestrel_sql.sql.nodes import kafka_source as k


def format_kafka_source(statement: k.CreateKafkaSource) -> str:
    """Write the statement in canonical form, without a semicolon."""
    key = f"KEY FORMAT {_format(statement.key)} VALUE " if statement.key else ""
    return _words(
        _head(statement.name, statement.if_not_exists),
        _names(statement.columns),
        f"FROM KAFKA {_topic(statement.topic)}",
        f"{key}FORMAT {_format(statement.value)}",
        _include(statement.include),
        _envelope(statement.envelope),
    )


def format_generated_source(statement: k.CreateGeneratedSource) -> str:
    """Write the statement in canonical form, without a semicolon."""
    generator = f"FROM LOAD GENERATOR {_name(statement.generator)}"
    return _words(_head(statement.name, statement.if_not_exists), generator, _include(statement.include))


def _head(name: str, if_not_exists: bool) -> str:
    return _words("CREATE SOURCE", "IF NOT EXISTS" if if_not_exists else "", format_identifier(name))


def _name(name: str) -> str:
    return f"`{name}`" if name in KAFKA_KEYWORDS else format_identifier(name)


def _names(names: tuple[str, ...]) -> str:
    return f"({', '.join(map(_name, names))})" if names else ""


def _topic(topic: k.KafkaTopic) -> str:
    start = f"START OFFSET ({', '.join(map(str, topic.start_offsets))})" if topic.start_offsets else ""
    name = f"TOPIC {format_string(topic.name)}"
    if topic.broker is not None:
        return _words("BROKER", format_string(topic.broker), name, start)
    connection = "" if topic.connection is None else f"CONNECTION {_name(topic.connection)}"
    return _words(connection, f"({name}{', ' if start else ''}{start})")


def _format(form: k.MessageFormat) -> str:
    match form.name:
        case "CSV":
            columns = f"HEADER {_names(form.names)}" if form.names else f"{form.columns} COLUMNS"
            delimiter = "" if form.delimiter is None else f"DELIMITED BY {format_string(form.delimiter)}"
            return _words("CSV WITH", columns, delimiter)
        case "REGEX":
            return f"REGEX {format_string(form.pattern or '')}"
        case "AVRO" | "PROTOBUF":
            message = "" if form.message is None else f"MESSAGE {format_string(form.message)}"
            schema = "CONFLUENT SCHEMA REGISTRY" if form.schema is None else f"SCHEMA {format_string(form.schema)}"
            return _words(form.name, message, "USING", schema)
        case name:
            return name


def _include(items: tuple[k.IncludeItem, ...]) -> str:
    return f"INCLUDE {', '.join(map(_item, items))}" if items else ""


def _item(item: k.IncludeItem) -> str:
    key = "" if item.header_key is None else format_string(item.header_key)
    alias = "" if item.alias is None else f"AS {_name(item.alias)}"
    return _words(item.item.value, key, alias, "BYTES" if item.as_bytes else "")


def _envelope(clause: k.EnvelopeClause | None) -> str:
    if clause is None:
        return ""
    alias = "" if clause.error_name is None else f" AS {_name(clause.error_name)}"
    return _words(
        "ENVELOPE", _name(clause.name), f"(VALUE DECODING ERRORS = (INLINE{alias}))" if clause.inline_errors else ""
    )


def _words(*words: str) -> str:
    return " ".join(word for word in words if word)
