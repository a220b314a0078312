"""Answers DESCRIBE for streams, tables and functions."""

from __future__ import annotations

from collections.abc import Iterator

from kestrel_sql.admin.answer import Answer, moment, table
from kestrel_sql.admin.view import EngineView
from kestrel_sql.catalog.catalog import Source
from kestrel_sql.errors import UnsupportedError
from kestrel_sql.functions.declaration import Aggregate, Tabular
from kestrel_sql.session.session import PersistentQuery
from kestrel_sql.sql.nodes.admin import Describe
from kestrel_sql.sql.nodes.statements import SourceKind
from kestrel_sql.types.schema import Column, Role


def describe(statement: Describe, view: EngineView) -> Answer:
    """Answer DESCRIBE.

    Raises:
        UnknownSourceError: the stream or table does not exist.
        FunctionError: the function does not exist.
        UnsupportedError: DESCRIBE CONNECTOR.
    """
    match statement.what:
        case "SOURCE":
            source = view.source(statement.name or "", statement.span)
            return _extended([source], view) if statement.extended else _columns(source)
        case "STREAMS" | "TABLES":
            return extended_of_all(SourceKind(statement.what.removesuffix("S")), view)
        case "FUNCTION":
            return _function(statement, view)
        case other:
            raise UnsupportedError(
                f"DESCRIBE {other} is not supported", span=statement.span, hint="Kestrel does not run connectors"
            )


def extended_of_all(kind: SourceKind, view: EngineView) -> Answer:
    """Answer DESCRIBE … EXTENDED for every stream or every table."""
    return _extended([source for source in view.session.catalog.sources.values() if source.kind is kind], view)


def _columns(source: Source) -> Answer:
    """List the columns, key columns first; a schema has no pseudo columns."""
    rows = [(column.name, str(column.type), _role(column, source)) for column in source.schema.columns]
    return table(("Field", "Type", "Role"), rows)


def _role(column: Column, source: Source) -> str:
    match column.role:
        case Role.KEY:
            window = f" (Window type: {source.window.type.value})" if source.window is not None else ""
            return ("(primary key)" if source.kind is SourceKind.TABLE else "(key)") + window
        case Role.HEADERS:
            return "(headers)" if column.header_key is None else f"(header('{column.header_key}'))"
        case Role.VALUE:
            return ""


def _extended(sources: list[Source], view: EngineView) -> Answer:
    rows = [(source.name, name, value) for source in sources for name, value in _facts(source, view)]
    return table(("Source", "Property", "Value"), rows)


def _facts(source: Source, view: EngineView) -> Iterator[tuple[str, str]]:
    yield "Type", source.kind.value
    yield "Statement", source.statement_text
    yield "Kafka topic", source.topic
    for partitions, replicas in view.broker.partitions_and_replicas([source.topic]).values():
        yield "Partitions", str(partitions)
        yield "Replicas", str(replicas)
    if (count := view.broker.count(source.topic)) is not None:
        yield "Records", str(count)
    yield "Key format", source.formats.key_format.format
    yield "Value format", source.formats.value_format.format
    if source.timestamp_column is not None:
        yield "Timestamp field", source.timestamp_column.column
    if source.window is not None:
        size = "" if source.window.size_ms is None else f" of {source.window.size_ms} ms"
        yield "Window", f"{source.window.type.value}{size}"
    for column in source.schema.columns:
        yield f"Field {column.name}", f"{column.type} {_role(column, source)}".rstrip()
    for verb, queries in (("reads", view.readers(source)), ("writes", view.writers(source))):
        for query in queries:
            yield f"Query that {verb} it", f"{query.id} ({view.state(query)}): {query.statement_text}"
            yield from _error(query, view)
            for each in view.offsets(query.id):
                where = f"{each.topic}, partition {each.partition}"
                yield f"Offsets of {query.id}", f"{where}: {each.committed} of {each.start} to {each.end}"


def _error(query: PersistentQuery, view: EngineView) -> Iterator[tuple[str, str]]:
    failure = view.failed.get(query.id)
    if failure is not None:
        yield f"Error of {query.id}", f"{moment(failure.time)}: {failure.message}"


def _function(statement: Describe, view: EngineView) -> Answer:
    name = (statement.name or "").upper()
    rows = []
    for overload in view.session.functions.get(name, statement.span):
        function = overload.function
        kind = (
            "AGGREGATE" if isinstance(function, Aggregate) else "TABLE" if isinstance(function, Tabular) else "SCALAR"
        )
        rows += [(name, kind, signature, function.doc.strip()) for signature in function.signatures]
    return table(("Name", "Type", "Variation", "Description"), dict.fromkeys(rows))
