"""Dispatches each admin statement to the function that answers it."""

from __future__ import annotations

from functools import singledispatch

from kestrel_sql.admin.answer import Answer
from kestrel_sql.admin.asserts import assert_schema, assert_topic
from kestrel_sql.admin.describe import describe
from kestrel_sql.admin.explain import explain
from kestrel_sql.admin.lists import list_objects
from kestrel_sql.admin.print_topic import print_topic
from kestrel_sql.admin.view import EngineView
from kestrel_sql.errors import UnsupportedError
from kestrel_sql.sql.nodes import admin as a


@singledispatch
def answer_of(statement: object, view: EngineView) -> Answer | None:
    """Answer an admin statement; return None for any other statement.

    Raises:
        StatementError: the statement names a thing that does not exist, or an assertion fails.
    """
    return None


@answer_of.register
def _(statement: a.ListObjects, view: EngineView) -> Answer:
    return list_objects(statement, view)


@answer_of.register
def _(statement: a.Describe, view: EngineView) -> Answer:
    return describe(statement, view)


@answer_of.register
def _(statement: a.Explain, view: EngineView) -> Answer:
    return explain(statement, view)


@answer_of.register
def _(statement: a.PrintTopic, view: EngineView) -> Answer:
    return print_topic(statement, view)


@answer_of.register
def _(statement: a.AssertTopic, view: EngineView) -> Answer:
    return assert_topic(statement, view)


@answer_of.register
def _(statement: a.AssertSchema, view: EngineView) -> Answer:
    return assert_schema(statement, view)


@answer_of.register(a.CreateConnector)
@answer_of.register(a.DropConnector)
def _(statement: a.CreateConnector | a.DropConnector, view: EngineView) -> Answer:
    raise UnsupportedError(
        "Kestrel does not run connectors",
        span=statement.span,
        hint="run the connector with Kafka Connect, and CREATE STREAM over its topic",
    )
