"""Formats statements as canonical SQL text, such that `parse(format(x)) == x`."""

from __future__ import annotations

import decimal
from collections.abc import Iterable

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


def format_statement(statement: Statement) -> str:
    """Write a statement in the canonical form of rules E11.

    The text has no semicolon, except for CREATE STREAM and CREATE TABLE over a topic.

    Raises:
        TypeError: not a statement node.
    """
    match statement:
        case s.Query():
            return _query(statement)
        case s.CreateSource(kind, name, elements, properties):
            written = f"SOURCE {kind.value}" if statement.is_source else kind.value
            head = _words("CREATE", _or_replace(statement.or_replace), written, _if_not_exists(statement.if_not_exists))
            return f"{_words(head, format_identifier(name), _elements(elements), _with(properties))};"
        case s.CreateAs(kind, name, query, properties):
            head = _words("CREATE", _or_replace(statement.or_replace), kind.value)
            name = _words(_if_not_exists(statement.if_not_exists), format_identifier(name))
            return _words(head, name, _with(properties), "AS", format_statement(query))
        case CreateKafkaSource():
            return format_kafka_source(statement)
        case CreateGeneratedSource():
            return format_generated_source(statement)
        case s.InsertInto(target, query, properties):
            return _words("INSERT INTO", format_identifier(target), _with(properties), format_statement(query))
        case s.InsertValues(target, columns, values):
            return _words("INSERT INTO", format_identifier(target), _names(columns), "VALUES", _tuple(values))
        case s.AlterSource(kind, name, added):
            items = (f"ADD COLUMN {format_identifier(column)} {format_type(sql_type)}" for column, sql_type in added)
            return _words("ALTER", kind.value, format_identifier(name), ", ".join(items))
        case _:
            return _drop_or_type(statement)


def _query(query: s.Query) -> str:
    clauses = [_select(query.select), f"FROM {_source(query.source)}", *map(_join_clause, query.joins)]
    if query.window is not None:
        # The blank is ksqlDB's: clients compare the texts of statements.
        clauses.append(f"WINDOW {format_window(query.window)} ")
    if query.where is not None:
        clauses.append(f"WHERE {format_expression(query.where)}")
    if query.group_by is not None:
        clauses.append(f"GROUP BY {_expressions(query.group_by) or '()'}")
    if query.partition_by is not None:
        clauses.append(f"PARTITION BY {_expressions(query.partition_by) or '()'}")
    if query.having is not None:
        clauses.append(f"HAVING {format_expression(query.having)}")
    if query.emit is not None:
        clauses.append(f"EMIT {query.emit.value}")
    if query.limit is not None:
        clauses.append(_limit(query.limit))
    return "\n".join(clauses)


def _drop_or_type(statement: Statement) -> str:
    match statement:
        case s.DropSource(kind, name, if_exists, delete_topic):
            delete = "DELETE TOPIC" if delete_topic else ""
            return _words("DROP", kind.value, _if_exists(if_exists), format_identifier(name), delete)
        case s.CreateType(name, sql_type, if_not_exists):
            head = _words("CREATE TYPE", _if_not_exists(if_not_exists), format_identifier(name))
            return f"{head} AS {format_type(sql_type)}"
        case s.DropType(name, if_exists):
            return _words("DROP TYPE", _if_exists(if_exists), format_identifier(name))
        case a.CreateConnector(kind, name, properties, if_not_exists):
            head = _words("CREATE", kind, "CONNECTOR", _if_not_exists(if_not_exists))
            return _words(head, format_identifier(name), _with(properties))
        case a.DropConnector(name, if_exists):
            return _words("DROP CONNECTOR", _if_exists(if_exists), format_identifier(name))
        case _:
            return _setting(statement)


def _setting(statement: Statement) -> str:
    match statement:
        case s.SetProperty(name, value):
            return f"SET {format_string(name)} = {format_string(value)}"
        case s.UnsetProperty(name):
            return f"UNSET {format_string(name)}"
        case s.AlterSystem(name, value):
            return f"ALTER SYSTEM {format_string(name)} = {format_string(value)}"
        case s.DefineVariable(name, value):
            return f"DEFINE {name} = {format_string(value)}"
        case s.UndefineVariable(name):
            return f"UNDEFINE {name}"
        case a.RunScript(path):
            return f"RUN SCRIPT {format_string(path)}"
        case _:
            return _question(statement)


def _question(statement: Statement) -> str:
    match statement:
        case a.ListObjects(what, extended):
            return _words("LIST", what, _extended(extended))
        case a.Describe("SOURCE", str(name), extended):
            # Unquoted, TABLES would mean all tables.
            return _words("DESCRIBE", "`TABLES`" if name == "TABLES" else format_identifier(name), _extended(extended))
        case a.Describe(what, name, extended):
            return _words("DESCRIBE", what, "" if name is None else format_identifier(name), _extended(extended))
        case a.PrintTopic(topic, from_beginning, interval, limit):
            beginning = "FROM BEGINNING" if from_beginning else ""
            every = "" if interval is None else f"INTERVAL {interval}"
            return _words("PRINT", format_string(topic), beginning, every, _limit(limit))
        case a.ControlQuery(verb, query_id):
            return f"{verb} {'ALL' if query_id is None else format_identifier(query_id)}"
        case a.Explain(target):
            return f"EXPLAIN {format_identifier(target) if isinstance(target, str) else format_statement(target)}"
        case _:
            return _assertion(statement)


def _assertion(statement: Statement) -> str:
    match statement:
        case a.AssertTopic(topic, properties, timeout, exists):
            head = _words("ASSERT", _exists(exists), "TOPIC", format_string(topic))
            return _words(head, _with(properties), _timeout(timeout))
        case a.AssertSchema(subject, schema_id, timeout, exists):
            of = "" if subject is None else f"SUBJECT {format_string(subject)}"
            number = "" if schema_id is None else f"ID {schema_id}"
            return _words("ASSERT", _exists(exists), "SCHEMA", of, number, _timeout(timeout))
        case a.AssertValues(source, columns, values):
            return _words("ASSERT VALUES", format_identifier(source), _names(columns), "VALUES", _tuple(values))
        case a.AssertNullValues(source, columns, values):
            return _words("ASSERT NULL VALUES", format_identifier(source), _names(columns), "KEY", _tuple(values))
        case a.AssertSource(kind, name, elements, properties):
            head = _words("ASSERT", kind.value, format_identifier(name))
            return _words(head, _elements(elements), _with(properties))
        case _:
            raise TypeError(f"not a statement: {statement!r}")


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
