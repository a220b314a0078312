"""The entity of each statement that asks about the engine."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from kestrel_sql.admin.answer import Entity
from kestrel_sql.admin.asserts import assert_schema, assert_topic
from kestrel_sql.admin.entities.connectors import (
    created_connector,
    described_connector,
    dropped_connector,
    listed_connectors,
)
from kestrel_sql.admin.entities.functions import function_entry, function_names
from kestrel_sql.admin.entities.queries import described_plan, query_description
from kestrel_sql.admin.entities.schemas import schema_info
from kestrel_sql.admin.entities.sources import (
    running_query,
    source_description,
    source_entry,
    sources_of_kind,
    topic_entries,
)
from kestrel_sql.admin.explain import explained_plan
from kestrel_sql.admin.view import EngineView
from kestrel_sql.planner.config import IMMUTABLE
from kestrel_sql.sql.format.statements import format_statement
from kestrel_sql.sql.nodes import admin as a
from kestrel_sql.sql.nodes.statements import SourceKind, UndefineVariable


def entity_of(statement: object, text: str, view: EngineView) -> Entity | None:
    """Answer a statement that changes nothing; None for one that does.

    Raises:
        StatementError: it asks about a thing that does not exist, or an assertion does not hold.
    """
    found = _entity(statement, view)
    if found is None:
        return None
    kind = found.pop("@type")
    return {"@type": kind, "statementText": text, **found, "warnings": found.get("warnings", [])}


def _entity(statement: object, view: EngineView) -> Entity | None:
    match statement:
        case a.ListObjects(what, extended):
            build = _LISTS.get(what)
            return listed_connectors(what, view) if build is None else build(view, extended)
        case UndefineVariable(name) if name.upper() not in map(str.upper, view.session.variables):
            message = f"Cannot undefine variable '{name}' which was never defined"
            return {"@type": "warning_entity", "message": message}
        case a.Describe():
            return _described(statement, view)
        case a.Explain():
            return _explained(statement, view)
        case a.AssertTopic(topic, exists=exists):
            assert_topic(statement, view)
            return {"@type": "assert_topic", "topicName": topic, "exists": exists}
        case a.AssertSchema(subject, schema_id, exists=exists):
            assert_schema(statement, view)
            return {"@type": "assert_schema", "subject": subject, "id": schema_id, "exists": exists}
        case a.CreateConnector():
            return created_connector(statement, view)
        case a.DropConnector():
            return dropped_connector(statement, view)
        case _:
            return None


def _described(statement: a.Describe, view: EngineView) -> Entity:
    match statement.what:
        case "SOURCE":
            source = view.source(statement.name or "", statement.span)
            described = source_description(source, view, extended=statement.extended)
            return {"@type": "sourceDescription", "sourceDescription": described}
        case "STREAMS" | "TABLES":
            return _descriptions(SourceKind(statement.what.removesuffix("S")), view, statement.extended)
        case "FUNCTION":
            functions = view.session.functions
            return {"@type": "describe_function", **function_entry(statement.name or "", functions, statement.span)}
        case _:
            return described_connector(statement, view)


def _explained(statement: a.Explain, view: EngineView) -> Entity:
    running = view.session.queries.get(statement.target) if isinstance(statement.target, str) else None
    plan = explained_plan(statement, view)
    if isinstance(statement.target, str):
        described = described_plan(plan, view) if running is None else query_description(running, view)
    else:
        described = {**described_plan(plan, view), "statementText": f"{format_statement(statement.target)};"}
    return {"@type": "queryDescription", "queryDescription": described}


def _sources(kind: SourceKind) -> Callable[[EngineView, bool], Entity]:
    def build(view: EngineView, extended: bool) -> Entity:
        if extended:
            return _descriptions(kind, view, extended)
        name = f"{kind.value.lower()}s"
        return {"@type": name, name: [source_entry(source) for source in sources_of_kind(kind, view)]}

    return build


def _descriptions(kind: SourceKind, view: EngineView, extended: bool) -> Entity:
    described = [source_description(each, view, extended=extended) for each in sources_of_kind(kind, view)]
    return {"@type": "source_descriptions", "sourceDescriptions": described}


def _topics(*, hidden: bool) -> Callable[[EngineView, bool], Entity]:
    def build(view: EngineView, extended: bool) -> Entity:
        entries = topic_entries(view, hidden=hidden, extended=extended)
        return {"@type": "kafka_topics_extended" if extended else "kafka_topics", "topics": entries}

    return build


def _queries(view: EngineView, extended: bool) -> Entity:
    queries = list(view.session.queries.values())
    if extended:
        return {"@type": "query_descriptions", "queryDescriptions": [query_description(each, view) for each in queries]}
    return {"@type": "queries", "queries": [running_query(query, view) for query in queries]}


def _properties(view: EngineView, extended: bool) -> Entity:
    config = view.session.config
    listed: list[dict[str, Any]] = [
        {"name": name, "scope": "KSQL", "value": config[name], "editable": name not in IMMUTABLE, "level": "QUERY"}
        for name in sorted(config)
    ]
    return {
        "@type": "properties",
        "properties": listed,
        "overwrittenProperties": sorted(config.beyond(view.base)),
        "defaultProperties": [each["name"] for each in listed if each["name"] not in config.overrides],
    }


def _functions(view: EngineView, extended: bool) -> Entity:
    return {"@type": "function_names", "functions": function_names(view.session.functions)}


def _types(view: EngineView, extended: bool) -> Entity:
    types = view.session.catalog.types
    return {"@type": "type_list", "types": {name: schema_info(types[name]) for name in sorted(types)}}


def _variables(view: EngineView, extended: bool) -> Entity:
    return {
        "@type": "variables",
        "variables": [{"name": name, "value": value} for name, value in sorted(view.session.variables.items())],
    }


_LISTS: Mapping[str, Callable[[EngineView, bool], Entity]] = {
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
