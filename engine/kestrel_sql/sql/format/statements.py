"""Formats statements as canonical SQL text, such that `parse(format(x)) == x`."""

from __future__ import annotations

import decimal
from collections.abc import Iterable
from functools import singledispatch

from kestrel_sql.sql.format.expressions import (
    format_base,
    format_decimal,
    format_double,
    format_expression,
    format_identifier,
    format_string,
    format_type,
)
from kestrel_sql.sql.format.kafka_source import format_generated_source, format_kafka_source
from kestrel_sql.sql.nodes import admin as a
from kestrel_sql.sql.nodes import statements as s
from kestrel_sql.sql.nodes.admin import Statement
from kestrel_sql.sql.nodes.expressions import Expression
from kestrel_sql.sql.nodes.kafka_source import CreateGeneratedSource, CreateKafkaSource

__all__ = ["format_expression", "format_identifier", "format_statement", "format_type", "format_window"]

_JOINS = {
    s.JoinType.INNER: "INNER JOIN",
    s.JoinType.LEFT: "LEFT OUTER JOIN",
    s.JoinType.RIGHT: "RIGHT OUTER JOIN",
    s.JoinType.OUTER: "FULL OUTER JOIN",
}


@singledispatch
def format_statement(statement: Statement) -> str:
    """Write a statement in the canonical form of rules E11.

    The text has no semicolon, except for CREATE STREAM and CREATE TABLE over a topic.

    Raises:
        TypeError: not a statement node.
    """
    raise TypeError(f"not a statement: {statement!r}")


@format_statement.register
def _(statement: s.Query) -> str:
    clauses = [_select(statement.select), f"FROM {_source(statement.source)}", *map(_join_clause, statement.joins)]
    if statement.window is not None:
        # The blank is ksqlDB's: clients compare the texts of statements.
        clauses.append(f"WINDOW {format_window(statement.window)} ")
    if statement.where is not None:
        clauses.append(f"WHERE {format_expression(statement.where)}")
    if statement.group_by is not None:
        clauses.append(f"GROUP BY {_expressions(statement.group_by) or '()'}")
    if statement.partition_by is not None:
        clauses.append(f"PARTITION BY {_expressions(statement.partition_by) or '()'}")
    if statement.having is not None:
        clauses.append(f"HAVING {format_expression(statement.having)}")
    return "\n".join([*clauses, *_ending(statement)])


@format_statement.register
def _(statement: s.CreateSource) -> str:
    kind = f"SOURCE {statement.kind.value}" if statement.is_source else statement.kind.value
    head = _words("CREATE", _or_replace(statement.or_replace), kind, _if_not_exists(statement.if_not_exists))
    name, elements = format_identifier(statement.name), _elements(statement.elements)
    return f"{_words(head, name, elements, _with(statement.properties))};"


@format_statement.register
def _(statement: s.CreateAs) -> str:
    head = _words(
        "CREATE", _or_replace(statement.or_replace), statement.kind.value, _if_not_exists(statement.if_not_exists)
    )
    return _words(
        head, format_identifier(statement.name), _with(statement.properties), "AS", format_statement(statement.query)
    )


@format_statement.register
def _(statement: CreateKafkaSource) -> str:
    return format_kafka_source(statement)


@format_statement.register
def _(statement: CreateGeneratedSource) -> str:
    return format_generated_source(statement)


@format_statement.register
def _(statement: s.InsertInto) -> str:
    return _words(
        "INSERT INTO",
        format_identifier(statement.target),
        _with(statement.properties),
        format_statement(statement.query),
    )


@format_statement.register
def _(statement: s.InsertValues) -> str:
    return _words(
        "INSERT INTO",
        format_identifier(statement.target),
        _names(statement.columns),
        "VALUES",
        _tuple(statement.values),
    )


@format_statement.register
def _(statement: s.DropSource) -> str:
    delete = "DELETE TOPIC" if statement.delete_topic else ""
    return _words(
        "DROP", statement.kind.value, _if_exists(statement.if_exists), format_identifier(statement.name), delete
    )


@format_statement.register
def _(statement: s.CreateType) -> str:
    head = _words("CREATE TYPE", _if_not_exists(statement.if_not_exists), format_identifier(statement.name))
    return f"{head} AS {format_type(statement.type)}"


@format_statement.register
def _(statement: s.DropType) -> str:
    return _words("DROP TYPE", _if_exists(statement.if_exists), format_identifier(statement.name))


@format_statement.register
def _(statement: s.AlterSource) -> str:
    added = ", ".join(
        f"ADD COLUMN {format_identifier(name)} {format_type(sql_type)}" for name, sql_type in statement.columns
    )
    return _words("ALTER", statement.kind.value, format_identifier(statement.name), added)


@format_statement.register
def _(statement: s.SetProperty) -> str:
    return f"SET {format_string(statement.name)} = {format_string(statement.value)}"


@format_statement.register
def _(statement: s.UnsetProperty) -> str:
    return f"UNSET {format_string(statement.name)}"


@format_statement.register
def _(statement: s.AlterSystem) -> str:
    return f"ALTER SYSTEM {format_string(statement.name)} = {format_string(statement.value)}"


@format_statement.register
def _(statement: s.DefineVariable) -> str:
    return f"DEFINE {statement.name} = {format_string(statement.value)}"


@format_statement.register
def _(statement: s.UndefineVariable) -> str:
    return f"UNDEFINE {statement.name}"


@format_statement.register
def _(statement: a.ListObjects) -> str:
    return _words("LIST", statement.what, _extended(statement.extended))


@format_statement.register
def _(statement: a.Describe) -> str:
    if statement.what == "SOURCE":
        name = statement.name or ""
        # Unquoted, TABLES would mean all tables.
        written = "`TABLES`" if name == "TABLES" else format_identifier(name)
        return _words("DESCRIBE", written, _extended(statement.extended))
    name = "" if statement.name is None else format_identifier(statement.name)
    return _words("DESCRIBE", statement.what, name, _extended(statement.extended))


@format_statement.register
def _(statement: a.PrintTopic) -> str:
    beginning = "FROM BEGINNING" if statement.from_beginning else ""
    interval = "" if statement.interval is None else f"INTERVAL {statement.interval}"
    return _words("PRINT", format_string(statement.topic), beginning, interval, _limit(statement.limit))


@format_statement.register
def _(statement: a.ControlQuery) -> str:
    return f"{statement.verb} {'ALL' if statement.query_id is None else format_identifier(statement.query_id)}"


@format_statement.register
def _(statement: a.CreateConnector) -> str:
    head = _words("CREATE", statement.kind, "CONNECTOR", _if_not_exists(statement.if_not_exists))
    return _words(head, format_identifier(statement.name), _with(statement.properties))


@format_statement.register
def _(statement: a.DropConnector) -> str:
    return _words("DROP CONNECTOR", _if_exists(statement.if_exists), format_identifier(statement.name))


@format_statement.register
def _(statement: a.Explain) -> str:
    target = statement.target
    return f"EXPLAIN {format_identifier(target) if isinstance(target, str) else format_statement(target)}"


@format_statement.register
def _(statement: a.AssertTopic) -> str:
    head = _words("ASSERT", _exists(statement.exists), "TOPIC", format_string(statement.topic))
    return _words(head, _with(statement.properties), _timeout(statement.timeout))


@format_statement.register
def _(statement: a.AssertSchema) -> str:
    subject = "" if statement.subject is None else f"SUBJECT {format_string(statement.subject)}"
    schema_id = "" if statement.id is None else f"ID {statement.id}"
    return _words("ASSERT", _exists(statement.exists), "SCHEMA", subject, schema_id, _timeout(statement.timeout))


@format_statement.register
def _(statement: a.AssertValues) -> str:
    return _words(
        "ASSERT VALUES",
        format_identifier(statement.source),
        _names(statement.columns),
        "VALUES",
        _tuple(statement.values),
    )


@format_statement.register
def _(statement: a.AssertNullValues) -> str:
    return _words(
        "ASSERT NULL VALUES",
        format_identifier(statement.source),
        _names(statement.columns),
        "KEY",
        _tuple(statement.values),
    )


@format_statement.register
def _(statement: a.AssertSource) -> str:
    head = _words("ASSERT", statement.kind.value, format_identifier(statement.name))
    return _words(head, _elements(statement.elements), _with(statement.properties))


@format_statement.register
def _(statement: a.RunScript) -> str:
    return f"RUN SCRIPT {format_string(statement.path)}"


def format_window(window: s.Window) -> str:
    """Write a window as plans up to 7.1 hold it, without leading and trailing blanks."""
    match window:
        case s.TumblingWindow(size):
            return _window("TUMBLING", window, f"SIZE {_span(size)}")
        case s.HoppingWindow(size, advance):
            return _window("HOPPING", window, f"SIZE {_span(size)}", f"ADVANCE BY {_span(advance)}")
        case s.SessionWindow(gap):
            return _window("SESSION", window, _span(gap))


def _window(kind: str, window: s.Window, *spans: str) -> str:
    if window.retention is not None:
        spans += (f"RETENTION {_span(window.retention)}",)
    if window.grace is not None:
        spans += (f"GRACE PERIOD {_span(window.grace)}",)
    return f"{kind} ( {' , '.join(spans)} )"


def _words(*words: str) -> str:
    return " ".join(word for word in words if word)


def _expressions(expressions: Iterable[Expression]) -> str:
    return ", ".join(map(format_expression, expressions))


def _tuple(values: Iterable[Expression]) -> str:
    return f"({_expressions(values)})"


def _names(names: tuple[str, ...]) -> str:
    return f"({', '.join(map(format_identifier, names))})" if names else ""


def _or_replace(written: bool) -> str:
    return "OR REPLACE" if written else ""


def _if_not_exists(written: bool) -> str:
    return "IF NOT EXISTS" if written else ""


def _if_exists(written: bool) -> str:
    return "IF EXISTS" if written else ""


def _exists(wanted: bool) -> str:
    return "" if wanted else "NOT EXISTS"


def _extended(written: bool) -> str:
    return "EXTENDED" if written else ""


def _limit(limit: int | None) -> str:
    return "" if limit is None else f"LIMIT {limit}"


def _span(span: s.TimeSpan) -> str:
    return f"{span.value} {span.unit}"


def _timeout(span: s.TimeSpan | None) -> str:
    return "" if span is None else f"TIMEOUT {_span(span)}"


def _select(items: tuple[s.SelectItem, ...]) -> str:
    written = list(map(_select_item, items))
    return f"SELECT {written[0]}" if len(written) == 1 else "SELECT\n  " + ",\n  ".join(written)


def _select_item(item: s.SelectItem) -> str:
    match item:
        case s.SelectAll(str(qualifier)):
            return f"{format_identifier(qualifier)}.*"
        case s.SelectAll():
            return "*"
        case s.SelectStructAll(expression):
            return f"{format_base(expression)}->*"
        case s.SelectExpression(expression, alias):
            return _words(format_expression(expression), "" if alias is None else format_identifier(alias))


def _source(source: s.AliasedSource) -> str:
    # Without AS, these two would start the next clause.
    alias = f"AS {source.alias}" if source.alias in ("EMIT", "PARTITION") else format_identifier(source.alias)
    return f"{format_identifier(source.name)} {alias}"


def _join_clause(join: s.Join) -> str:
    within = "" if join.within is None else _within(join.within)
    return _words(_JOINS[join.type], _source(join.source), within, f"ON ({format_expression(join.criteria)})")


def _within(within: s.Within) -> str:
    before, after = _span(within.before), _span(within.after)
    grace = "" if within.grace is None else f"GRACE PERIOD {_span(within.grace)}"
    return _words("WITHIN", before if before == after else f"({before}, {after})", grace)


def _ending(query: s.Query) -> list[str]:
    emit = "" if query.emit is None else f"EMIT {query.emit.value}"
    return [clause for clause in (emit, _limit(query.limit)) if clause]


def _elements(elements: tuple[s.Element, ...]) -> str:
    return f"({', '.join(map(_element, elements))})" if elements else ""


def _element(element: s.Element) -> str:
    role = element.role.value
    if element.header_key is not None:
        role += f"({format_string(element.header_key)})"
    return _words(format_identifier(element.name), format_type(element.type), role)


def _with(properties: s.Properties) -> str:
    return (
        f"WITH ({', '.join(f'{format_identifier(name)}={_property(value)}' for name, value in properties)})"
        if properties
        else ""
    )


def _property(value: s.PropertyValue) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return "true" if value else "false"
        case str():
            return format_string(value)
        case decimal.Decimal():
            return format_decimal(value)
        case float():
            return format_double(value)
        case int():
            return str(value)
