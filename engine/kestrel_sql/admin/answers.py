"""The answer of each admin statement: SHOW, LIST, DESCRIBE, EXPLAIN, PRINT and ASSERT."""

from __future__ import annotations

from functools import singledispatch

from kestrel_sql.admin.answer import Answer
from kestrel_sql.admin.asserts import assert_schema, assert_topic
from kestrel_sql.admin.describe import describe
from kestrel_sql.admin.explain import explain
from kestrel_sql.admin.lists import list_objects
from kestrel_sql.admin.print_topic import print_topic
from kestrel_sql.admin.view import View
from kestrel_sql.errors import UnsupportedError
from kestrel_sql.sql.nodes import admin as a


@singledispatch
def answer_of(statement: object, view: View) -> Answer | None:
    """Answer a statement that only asks; None for one that does something.

    Raises:
        StatementError: it asks about a thing that does not exist, or an assertion does not hold.
    """
    return None


@answer_of.register
def _(statement: a.ListObjects, view: View) -> Answer:
    return list_objects(statement, view)


@answer_of.register
def _(statement: a.Describe, view: View) -> Answer:
    return describe(statement, view)


@answer_of.register
def _(statement: a.Explain, view: View) -> Answer:
    return explain(statement, view)


@answer_of.register
def _(statement: a.PrintTopic, view: View) -> Answer:
    return print_topic(statement, view)


@answer_of.register
def _(statement: a.AssertTopic, view: View) -> Answer:
    return assert_topic(statement, view)


@answer_of.register
def _(statement: a.AssertSchema, view: View) -> Answer:
    return assert_schema(statement, view)


@answer_of.register(a.CreateConnector)
@answer_of.register(a.DropConnector)
def _(statement: a.CreateConnector | a.DropConnector, view: View) -> Answer:
    raise UnsupportedError(
        "Kestrel runs no connectors",
        span=statement.span,
        hint="feed the topic by Kafka Connect itself, and CREATE a STREAM over it",
    )
