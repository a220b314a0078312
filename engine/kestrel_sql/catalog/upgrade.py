"""Checks what CREATE OR REPLACE changes about a source and about the query that writes it (rules L5)."""

from __future__ import annotations

import re
from typing import cast

from kestrel_sql.catalog.catalog import Source
from kestrel_sql.errors import StatementError
from kestrel_sql.plan.step import FormatInfo, Formats, Step, TimestampColumn, WindowInfo
from kestrel_sql.sql.format.expressions import format_expression
from kestrel_sql.sql.nodes.expressions import Expression, Node
from kestrel_sql.types.schema import Column, Schema
from kestrel_sql.types.sql_types import quote


def check_source_upgrade(old: Source, new: Source) -> None:
    """Check that `new` may replace `old`: only value columns may be appended.

    Raises:
        StatementError: lists all other differences.
    """
    issues = [
        _issue(old, name, before, after)
        for name, before, after in (
            ("type", old.kind.value, new.kind.value),
            ("topic", old.topic, new.topic),
            ("formats", old.formats, new.formats),
            ("window", old.window, new.window),
            ("timestamp column", old.timestamp_column, new.timestamp_column),
        )
        if before != after
    ]
    schema_issue = _schema_issue(old.schema, new.schema)
    if schema_issue:
        issues.append(f"{_issue(old, 'schema', old.schema, new.schema)}. ({schema_issue})")
    if issues:
        raise StatementError("Cannot upgrade data source: " + "\n\t".join(issues))


def _issue(old: Source, name: str, before: object, after: object) -> str:
    return f"DataSource '{quote(old.name)}' has {name} = {_sql(before)} which is not upgradeable to {_sql(after)}"


def _schema_issue(old: Schema, new: Schema) -> str | None:
    if old.key != new.key:
        return (
            f"Key columns must be identical. Differing key columns: {_bracketed(_changed(old.key, new.key) or new.key)}"
        )
    changed = (*_changed(old.value, new.value), *_changed(old.headers, new.headers))
    return f"The following columns are changed, missing or reordered: {_bracketed(changed)}" if changed else None


def _changed(old: tuple[Column, ...], new: tuple[Column, ...]) -> tuple[Column, ...]:
    return tuple(column for i, column in enumerate(old) if i >= len(new) or new[i] != column)


def _bracketed(columns: tuple[Column, ...]) -> str:
    return f"[{', '.join(map(str, columns))}]"


_TITLES = {"non_aggregate_columns": "columns not part of aggregate"}
"""What errors call a field, if not by its name."""


def check_plan_upgrade(old: Step, new: Step) -> None:
    """Check that the plan `new` can resume from the state of the plan `old`.

    Raises:
        StatementError: names the first step, from the sink to the sources, that changed or that no upgrade supports.
    """
    before, after = _enforced(old), _enforced(new)
    if before.kept is None:
        raise StatementError(f"Upgrades not yet supported for {_name(before)}")
    if type(before) is not type(after):
        raise StatementError(
            f"Query is not upgradeable. Plan type {_name(after)} cannot take the place of {_name(before)}"
        )
    for field in before.kept:
        was, now = getattr(before, field), getattr(after, field)
        if was != now:
            title = _TITLES.get(field, field.replace("_", " "))
            raise StatementError(
                f"{_name(before)} must have matching {title}. Values differ: {_sql(was)} vs. {_sql(now)}"
            )
    for left, right in zip(before.upstream, after.upstream, strict=True):
        check_plan_upgrade(left, right)


def _enforced(step: Step) -> Step:
    while step.passive:
        (step,) = step.upstream
    return step


def _name(step: Step) -> str:
    return re.sub(r"V[0-9]+$", "", type(step).__name__)


def _sql(value: object) -> str:
    """Format a part of a source or step as users write it."""
    match value:
        case tuple():
            return f"[{', '.join(quote(item) if isinstance(item, str) else _sql(item) for item in value)}]"
        case Node():
            return format_expression(cast(Expression, value))
        case WindowInfo(kind, size):
            return kind.value if size is None else f"{kind.value} of {size} ms"
        case TimestampColumn(column, pattern):
            return quote(column) if pattern is None else f"{quote(column)} by '{pattern}'"
        case FormatInfo(name, properties):
            return name + "".join(f" {key}={text}" for key, text in properties)
        case Formats():
            both = (("key", value.key_format, value.key_features), ("value", value.value_format, value.value_features))
            return ", ".join(
                f"{part} {_sql(info)}{''.join(sorted(f' {f.value}' for f in features))}"
                for part, info, features in both
            )
        case None:
            return "none"
        case _:
            return str(value)
