"""CREATE as ksqlDB keeps and shows it: properties, columns, types and aliases written out (rest-api.md, R6.4, R6.5)."""

from __future__ import annotations

from msgspec.structs import replace

from kestrel_sql.admin.view import EngineView
from kestrel_sql.errors import EngineError
from kestrel_sql.planner.analysis.analyze import Analysis, analyze
from kestrel_sql.planner.expressions.types import Types
from kestrel_sql.planner.properties.topic_shape import WEEK_MS
from kestrel_sql.sql.format.statements import format_statement
from kestrel_sql.sql.nodes.statements import (
    CreateAs,
    CreateSource,
    DropSource,
    Properties,
    PropertyValue,
    SourceKind,
)
from kestrel_sql.sql.parse.parser import ParsedStatement
from kestrel_sql.types.sql_types import resolve

_FORMATS = frozenset({"FORMAT", "KEY_FORMAT", "VALUE_FORMAT"})


def normal_form(parsed: ParsedStatement, view: EngineView) -> ParsedStatement:
    """Return a CREATE with its text in the normal form; another statement, or one that is wrong, as it is.

    DROP … DELETE TOPIC has deleted the topic once its text is kept, which says nothing of it any more.
    """
    statement, session = parsed.statement, view.session
    try:
        match statement:
            case CreateAs():
                types = Types(session.functions, session.config)
                analysis = analyze(statement.query, session.catalog, types, is_persistent=True)
                properties = _properties(statement, analysis, view)
                written = replace(statement, properties=properties, query=analysis.written_out)
                return replace(parsed, text=f"{format_statement(written)};")
            case CreateSource() if not (statement.if_not_exists and statement.name in session.catalog.sources):
                return replace(parsed, text=format_statement(_declared(statement, view)))
            case DropSource(delete_topic=True):
                return replace(parsed, text=f"{format_statement(replace(statement, delete_topic=False))};")
            case _:
                return parsed
    except EngineError:
        return parsed


def _declared(statement: CreateSource, view: EngineView) -> CreateSource:
    """CREATE without AS, its types and formats written out."""
    config, custom = view.session.config, view.session.catalog.types
    given = dict(statement.properties)
    written: dict[str, PropertyValue] = {
        "CLEANUP_POLICY": "delete" if statement.kind is SourceKind.STREAM else "compact"
    }
    if "FORMAT" not in given:
        written |= {"KEY_FORMAT": config.default_key_format, "VALUE_FORMAT": config.default_value_format}
    written |= given
    value_format = written.get("VALUE_FORMAT")
    if isinstance(value_format, str):
        written["VALUE_FORMAT"] = value_format.upper()
    return replace(
        statement,
        elements=tuple(replace(each, type=resolve(each.type, custom)) for each in statement.elements),
        properties=tuple(sorted((name, value) for name, value in written.items() if value is not None)),
    )


def _properties(statement: CreateAs, analysis: Analysis, view: EngineView) -> Properties:
    """All properties of the topic and those of the statement, by name."""
    source, window = analysis.scope.sources[0].source, statement.query.window
    partitions, replicas = view.broker.partitions_and_replicas([source.topic]).get(source.topic, (1, 1))
    expires = window is not None or source.window is not None
    policy = "delete" if statement.kind is SourceKind.STREAM else "compact,delete" if expires else "compact"
    given = {
        name: value.upper() if name in _FORMATS and isinstance(value, str) else value
        for name, value in statement.properties
    }
    written = {
        "CLEANUP_POLICY": policy,
        "KAFKA_TOPIC": f"{view.session.config['ksql.output.topic.name.prefix']}{statement.name}",
        "PARTITIONS": partitions,
        "REPLICAS": replicas,
        "RETENTION_MS": view.broker.retention_ms(source.topic) or WEEK_MS,
        **given,
    }
    return tuple(sorted(written.items()))
