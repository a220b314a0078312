"""ASSERT TOPIC and ASSERT SCHEMA: what has to hold now, or within a time while others change topics and schemas."""

from __future__ import annotations

import time
from collections.abc import Callable

from kestrel_sql.admin.answer import Answer, said
from kestrel_sql.admin.view import View
from kestrel_sql.errors import StatementError
from kestrel_sql.sql.nodes.admin import AssertSchema, AssertTopic
from kestrel_sql.sql.nodes.statements import TimeSpan

_ASSERTED = ("PARTITIONS", "REPLICAS")

_DEFAULT_MS = 1000
"""How long an assertion without TIMEOUT is waited for (rules L5)."""


def assert_topic(statement: AssertTopic, view: View) -> Answer:
    """Check that a topic exists, with the partitions asked for, or that it does not.

    Raises:
        StatementError: it is otherwise, and stays so for the time of TIMEOUT.
    """
    unknown = next((name for name, _ in statement.properties if name not in _ASSERTED), None)
    if unknown is not None:
        raise StatementError(
            f"Cannot assert topic property {unknown}",
            span=statement.span,
            hint="only PARTITIONS and REPLICAS can be asserted",
        )
    return _within(statement.timeout, view, lambda: _topic(statement, view))


def assert_schema(statement: AssertSchema, view: View) -> Answer:
    """Check that the registry has a subject, an id, or an id under a subject, or that it does not.

    Raises:
        StatementError: it is otherwise, and stays so for the time of TIMEOUT.
    """
    return _within(statement.timeout, view, lambda: _schema(statement, view))


def _within(timeout: TimeSpan | None, view: View, check: Callable[[], Answer]) -> Answer:
    """Check until it holds or the time is over; where nothing happens in between, one look is enough."""
    ends = time.monotonic() + (_DEFAULT_MS if timeout is None else timeout.millis) / 1000
    while True:
        try:
            return check()
        except StatementError:
            if view.wait is None or time.monotonic() >= ends:
                raise
        view.wait()


def _topic(statement: AssertTopic, view: View) -> Answer:
    found = view.broker.copies([statement.topic]).get(statement.topic)
    if found is not None and not statement.exists:
        raise StatementError(f"Topic {statement.topic} exists", span=statement.span)
    if found is None and statement.exists:
        raise StatementError(f"Topic {statement.topic} does not exist", span=statement.span)
    actual = dict(zip(_ASSERTED, found or (), strict=False))
    for name, wanted in statement.properties if statement.exists else ():
        if str(wanted) != str(actual[name]):
            raise StatementError(
                f"Mismatched configuration for topic {statement.topic}: For config {name.lower()}, expected {wanted} got {actual[name]}",
                span=statement.span,
            )
    return said(f"Topic {statement.topic} {'exists' if statement.exists else 'does not exist'}.")


def _schema(statement: AssertSchema, view: View) -> Answer:
    registry = view.session.registry
    found = registry.latest(statement.subject) if statement.subject is not None else None
    if statement.id is not None:
        by_id = registry.by_id(statement.id)
        found = (
            by_id
            if statement.subject is None or (found is not None and by_id is not None and found.id == by_id.id)
            else None
        )
    parts = (("subject name", statement.subject), ("id", statement.id))
    name = " and ".join(f"{word} {value}" for word, value in parts if value is not None)
    if (found is not None) is not statement.exists:
        raise StatementError(f"Schema with {name} {'exists' if found else 'does not exist'}", span=statement.span)
    return said(f"Schema with {name} {'exists' if statement.exists else 'does not exist'}.")
