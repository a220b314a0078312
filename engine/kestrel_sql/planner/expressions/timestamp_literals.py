"""Converts timestamp strings that WHERE and HAVING compare with the time of a row or window (rules L11)."""

from __future__ import annotations

from msgspec.structs import replace

from kestrel_sql.errors import StatementError
from kestrel_sql.java.time.iso import parse_timestamp
from kestrel_sql.sql.nodes.expressions import Between, ColumnRef, Comparison, Expression, StringLiteral
from kestrel_sql.sql.nodes.walk import rewrite
from kestrel_sql.sql.parse.parser import parse_expression

TIME_COLUMNS = frozenset({"ROWTIME", "WINDOWSTART", "WINDOWEND"})


def rewrite_timestamps(expression: Expression) -> Expression:
    """Replace strings that are compared with ROWTIME, WINDOWSTART or WINDOWEND by milliseconds.

    Raises:
        StatementError: such a string is not a timestamp.
    """
    return rewrite(expression, _rule)


def _rule(node: Expression) -> Expression | None:
    match node:
        case Comparison(_, ColumnRef(name), StringLiteral()) if name in TIME_COLUMNS:
            return replace(node, right=_millis(node.right))
        case Comparison(_, StringLiteral(), ColumnRef(name)) if name in TIME_COLUMNS:
            return replace(node, left=_millis(node.left))
        case Between(ColumnRef(name), lower, upper) if name in TIME_COLUMNS:
            return replace(node, lower=_millis(lower), upper=_millis(upper))
        case _:
            return None


def _millis(expression: Expression) -> Expression:
    if not isinstance(expression, StringLiteral):
        return expression
    # As the plan is read: what fits into an INTEGER is one.
    return replace(parse_expression(str(parse_partial_timestamp(expression.value))), span=expression.span)


def parse_partial_timestamp(text: str) -> int:
    """Parse a timestamp whose trailing parts may be missing; return ms since the epoch, in UTC without an offset.

    Raises:
        StatementError: the text is not such a timestamp.
    """
    try:
        return parse_timestamp(text)
    except ValueError as error:
        required = (
            "Required format is: \"yyyy-MM-dd'T'HH:mm:ss.SSS\", with an optional numeric 4-digit timezone, for example "
            "'2020-05-26T23.59.58.000' or with tz: '2020-05-26T23.59.58.000+0200'. "
            'Partials are also supported, for example "2020-05-26"'
        )
        raise StatementError(
            f"Failed to parse timestamp '{text}': {error}. {required}",
            public=f"Failed to parse timestamp. {required}",
        ) from error
