"""Answers ASSERT TOPIC and ASSERT SCHEMA, and waits until the assertion holds or its TIMEOUT is over."""

from __future__ import annotations

import time
from collections.abc import Callable

from kestrel_sql.admin.view import EngineView
from kestrel_sql.errors import StatementError
from kestrel_sql.sql.nodes.admin import AssertSchema, AssertTopic
from kestrel_sql.sql.nodes.statements import TimeSpan

_ASSERTED = ("PARTITIONS", "REPLICAS")

_DEFAULT_MS = 1000
"""The timeout (ms) of an assertion without TIMEOUT (rules L5)."""


def assert_topic(statement: AssertTopic, view: EngineView) -> None:
    """Check that a topic exists with the given partitions and replicas, or under NOT EXISTS that it does not exist.

    Raises:
        StatementError: the assertion fails until the timeout.
    """
    if any(name not in _ASSERTED for name, _ in statement.properties):
        _topic(statement, view)
    else:
        _within(statement.timeout, view, lambda: _topic(statement, view))


def assert_schema(statement: AssertSchema, view: EngineView) -> None:
    """Check that the registry has a subject, a schema id, or an id under a subject, or that it does not.

    Raises:
        StatementError: the assertion fails until the timeout.
    """
    _within(statement.timeout, view, lambda: _schema(statement, view))


def _within(timeout: TimeSpan | None, view: EngineView, check: Callable[[], None]) -> None:
    """Repeat a check until it passes or the timeout is over; without `view.wait` nothing can change, so check once."""
    deadline = time.monotonic() + (_DEFAULT_MS if timeout is None else timeout.millis) / 1000
    while True:
        try:
            check()
            return
        except StatementError:
            if view.wait is None or time.monotonic() >= deadline:
                raise
        view.wait()


def _topic(statement: AssertTopic, view: EngineView) -> None:
    counts = view.broker.partitions_and_replicas([statement.topic]).get(statement.topic)
    if counts is not None and not statement.exists:
        raise StatementError(f"Topic {statement.topic} exists", span=statement.span)
    if counts is None and statement.exists:
        raise StatementError(f"Topic {statement.topic} does not exist", span=statement.span)
    actual = dict(zip(_ASSERTED, counts or (), strict=False))
    wrong = [
        f"Cannot assert unknown topic property: {name}"
        if name not in _ASSERTED
        else f"Mismatched configuration for topic {statement.topic}: "
        f"For config {name.lower()}, expected {wanted} got {actual[name]}"
        for name, wanted in statement.properties
        if statement.exists and str(wanted) != str(actual.get(name))
    ]
    if wrong:
        raise StatementError("\n".join(wrong), span=statement.span)


def _schema(statement: AssertSchema, view: EngineView) -> None:
    registry = view.session.registry
    schema = registry.latest(statement.subject) if statement.subject is not None else None
    if statement.id is not None:
        by_id = registry.by_id(statement.id)
        is_latest = schema is not None and by_id is not None and schema.id == by_id.id
        schema = by_id if statement.subject is None or is_latest else None
    parts = (("subject name", statement.subject), ("id", statement.id))
    name = " and ".join(f"{part} {value}" for part, value in parts if value is not None)
    if (schema is not None) is not statement.exists:
        raise StatementError(f"Schema with {name} {'exists' if schema else 'does not exist'}", span=statement.span)
