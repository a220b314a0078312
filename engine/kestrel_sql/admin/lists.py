"""Answers SHOW and LIST."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from kestrel_sql.admin.answer import Answer, table
from kestrel_sql.admin.describe import extended_of_all
from kestrel_sql.admin.view import EngineView
from kestrel_sql.errors import UnsupportedError
from kestrel_sql.functions.declaration import Aggregate, Tabular
from kestrel_sql.sql.nodes.admin import ListObjects
from kestrel_sql.sql.nodes.statements import SourceKind
from kestrel_sql.types.sql_types import BIGINT, BOOLEAN, INTEGER


def list_objects(statement: ListObjects, view: EngineView) -> Answer:
    """Answer SHOW or LIST.

    Raises:
        UnsupportedError: Kestrel has no such objects, such as connectors.
    """
    build = _LISTS.get(statement.what)
    if build is None:
        known = ", ".join(sorted(_LISTS))
        raise UnsupportedError(
            f"SHOW {statement.what} is not supported", span=statement.span, hint=f"SHOW lists {known}"
        )
    if statement.extended and statement.what in ("STREAMS", "TABLES"):
        return extended_of_all(SourceKind(statement.what.removesuffix("S")), view)
    return build(view)


def _sources(kind: SourceKind) -> Callable[[EngineView], Answer]:
    def build(view: EngineView) -> Answer:
        rows = [
            (s.name, s.topic, s.formats.key_format.format, s.formats.value_format.format, s.window is not None)
            for s in sorted(view.session.catalog.sources.values(), key=lambda source: source.name)
            if s.kind is kind
        ]
        return table(
            (f"{kind.value.capitalize()} Name", "Kafka Topic", "Key Format", "Value Format", ("Windowed", BOOLEAN)),
            rows,
        )

    return build


def _topics(*, hidden: bool) -> Callable[[EngineView], Answer]:
    def build(view: EngineView) -> Answer:
        names = view.topics(hidden=hidden)
        counts = view.broker.partitions_and_replicas(names)
        rows = ((name, *counts.get(name, (None, None)), view.broker.count(name)) for name in names)
        return table(("Kafka Topic", ("Partitions", INTEGER), ("Replicas", INTEGER), ("Records", BIGINT)), rows)

    return build


def _queries(view: EngineView) -> Answer:
    sources = view.session.catalog.sources
    rows = []
    for query in view.session.queries.values():
        sink = sources.get(query.plan.sink or "")
        rows.append(
            (
                query.id,
                "PERSISTENT",
                view.state(query),
                query.plan.sink,
                sink.topic if sink else None,
                query.statement_text,
            )
        )
    return table(("Query ID", "Query Type", "Status", "Sink Name", "Sink Kafka Topic", "Query String"), rows)


def _types(view: EngineView) -> Answer:
    return table(
        ("Type Name", "Schema"), ((name, str(type_)) for name, type_ in sorted(view.session.catalog.types.items()))
    )


def _functions(view: EngineView) -> Answer:
    functions = view.session.functions
    rows = []
    for name in sorted(functions):
        first = functions.get(name)[0].function
        kind = "AGGREGATE" if isinstance(first, Aggregate) else "TABLE" if isinstance(first, Tabular) else "SCALAR"
        rows.append((name, kind, first.doc.strip().split("\n", 1)[0]))
    return table(("Function Name", "Type", "Description"), rows)


def _properties(view: EngineView) -> Answer:
    config = view.session.config
    rows = ((name, "SESSION" if name in config.overrides else "", config[name]) for name in sorted(config))
    return table(("Property", "Override", "Value"), rows)


def _variables(view: EngineView) -> Answer:
    return table(("Variable Name", "Value"), sorted(view.session.variables.items()))


_LISTS: Mapping[str, Callable[[EngineView], Answer]] = {
    "STREAMS": _sources(SourceKind.STREAM),
    "TABLES": _sources(SourceKind.TABLE),
    "TOPICS": _topics(hidden=False),
    "ALL TOPICS": _topics(hidden=True),
    "QUERIES": _queries,
    "TYPES": _types,
    "FUNCTIONS": _functions,
    "PROPERTIES": _properties,
    "VARIABLES": _variables,
}
