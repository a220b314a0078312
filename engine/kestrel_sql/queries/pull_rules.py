"""Checks that WHERE restricts the key if scans of whole tables are disabled (`ksql.query.pull.*.scan.enabled`)."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec
from msgspec.structs import replace

from kestrel_sql.catalog.catalog import Source
from kestrel_sql.errors import StatementError, TypeMismatchError
from kestrel_sql.planner.config import Config
from kestrel_sql.planner.expressions.types import Types
from kestrel_sql.sql.format.statements import format_expression
from kestrel_sql.sql.nodes.chains import along_chains, chain
from kestrel_sql.sql.nodes.expressions import (
    Between,
    ColumnRef,
    Comparison,
    ComparisonOp,
    Expression,
    InList,
    Like,
    Logical,
    LogicalOp,
    Not,
    NullLiteral,
    StringLiteral,
)
from kestrel_sql.sql.nodes.walk import column_refs, rewrite, walk
from kestrel_sql.types.schema import WINDOW_BOUNDS, Column
from kestrel_sql.types.sql_types import BYTES, STRING, SqlType, quote

_MIRRORED = {
    ComparisonOp.LESS_THAN: ComparisonOp.GREATER_THAN,
    ComparisonOp.LESS_THAN_OR_EQUAL: ComparisonOp.GREATER_THAN_OR_EQUAL,
    ComparisonOp.GREATER_THAN: ComparisonOp.LESS_THAN,
    ComparisonOp.GREATER_THAN_OR_EQUAL: ComparisonOp.LESS_THAN_OR_EQUAL,
}
_BOUNDS = frozenset(column.name for column in WINDOW_BOUNDS)


class KeyRules(msgspec.Struct, frozen=True):
    """The key of a table, and the scans that are allowed; a range of windowed keys is a scan of the table."""

    key: tuple[Column, ...]
    table_scan: bool
    range_scan: bool

    @staticmethod
    def of(key: tuple[Column, ...], config: Config, *, windowed: bool) -> KeyRules:
        """Return the rules of a configuration."""
        table, ranges = (config.flag(f"ksql.query.pull.{scan}.scan.enabled") for scan in ("table", "range"))
        return KeyRules(key, table, ranges and not windowed)

    def check(self, where: Expression | None) -> None:
        """Check that every alternative of WHERE restricts the key, if table scans are disabled.

        Raises:
            StatementError: an alternative would read the whole table; names it.
        """
        if self.table_scan:
            return
        if where is None:
            raise StatementError("Missing WHERE clause. Query requires table scan to be enabled.", hint=_HINT)
        alternatives = disjuncts(where)
        for alternative in alternatives:
            self._check_alternative(alternative, single=len(alternatives) == 1)

    def _check_alternative(self, alternative: tuple[Expression, ...], *, single: bool) -> None:
        seen: set[str] = set()
        ranged = False
        for condition in alternative:
            name, by_range = self._key_of(condition)
            if name in seen:
                raise _refused(
                    "A comparison condition on the key column cannot be combined with other comparisons such as an IN"
                    " predicate"
                )
            if name is not None:
                seen.add(name)
                ranged = ranged or by_range
        missing = [column.name for column in self.key if column.name not in seen]
        shown = " AND ".join(map(format_expression, alternative))
        if missing and (seen or len(self.key) > 1):
            raise _refused(
                f"Multi-column sources must specify every key in the WHERE clause. Specified: {sorted(seen)}"
            )
        if missing:
            raise _refused(f"WHERE clause missing key column for disjunct: {shown}")
        if ranged and not (self.range_scan and single and len(self.key) == 1 and self.key[0].type in (STRING, BYTES)):
            raise _refused("Query requires table scan to be enabled")

    def _key_of(self, condition: Expression) -> tuple[str | None, bool]:
        """The key column that a condition restricts (None without one), and whether to a range."""
        match condition:
            case Comparison(op, left, right):
                return self._compared(condition, op, left, right)
            case Like(operand):
                if not isinstance(operand, ColumnRef):
                    raise _refused("Like condition must be between strings")
                return None, False
            case _:
                raise _refused("Query requires table scan to be enabled")

    def _compared(
        self, whole: Expression, op: ComparisonOp, left: Expression, right: Expression
    ) -> tuple[str | None, bool]:
        if not isinstance(left, ColumnRef) and isinstance(right, ColumnRef):
            left, right, op = right, left, _MIRRORED.get(op, op)
        if not isinstance(left, ColumnRef):
            raise _refused(f"A comparison must directly reference a key column. Got: {format_expression(whole)}")
        if left.name in _BOUNDS or left.name not in {column.name for column in self.key}:
            return None, False
        if next(column_refs(right), None) is not None:
            raise _refused(
                "A comparison must be between a key column and a resolvable expression. Got:"
                f" {format_expression(whole)}"
            )
        if op is not ComparisonOp.EQUAL and op not in _MIRRORED:
            raise _refused("Query requires table scan to be enabled")
        return left.name, op in _MIRRORED


_HINT = "set ksql.query.pull.table.scan.enabled to true"


def _refused(message: str) -> StatementError:
    return StatementError(message, hint=_HINT)


@along_chains
def disjuncts(where: Expression) -> tuple[tuple[Expression, ...], ...]:
    """Return WHERE as alternatives, each of which is a list of conditions; IN and BETWEEN become comparisons."""
    match where:
        case Logical(LogicalOp.OR, left, right):
            return (*disjuncts(left), *disjuncts(right))
        case Logical(LogicalOp.AND, left, right):
            return tuple((*a, *b) for a in disjuncts(left) for b in disjuncts(right))
        case InList(operand, items):
            return tuple((Comparison(ComparisonOp.EQUAL, operand, item),) for item in items)
        case Between(operand, lower, upper):
            above = Comparison(ComparisonOp.GREATER_THAN_OR_EQUAL, operand, lower)
            return ((above, Comparison(ComparisonOp.LESS_THAN_OR_EQUAL, operand, upper)),)
        case Not(Logical() as operand):
            first, *_ = links = chain(operand)
            turned: Expression = Not(first.left)
            for link in links:
                turned = Logical(LogicalOp.AND if link.op is LogicalOp.OR else LogicalOp.OR, turned, Not(link.right))
            return disjuncts(turned)
        case Not(Not(inner)):
            return disjuncts(inner)
        case _:
            return ((where,),)


def check_in_lists(where: Expression, key: tuple[Column, ...]) -> None:
    """Refuse an IN list over a key column with NULL, or with a string if the key is a number.

    Raises:
        StatementError: names the item.
    """
    types = {column.name: column for column in key}
    for alternative in disjuncts(where):
        for condition in alternative:
            match condition:
                case Comparison(ComparisonOp.EQUAL, ColumnRef(name), NullLiteral()) if name in types:
                    raise StatementError(
                        f"Primary key columns can not be NULL: {format_expression(condition)}", span=where.span
                    )
                case Comparison(ComparisonOp.EQUAL, ColumnRef(name), StringLiteral() as text) if name in types:
                    _check_text(text, types[name])
                case _:
                    continue


def check_operands(where: Expression, source: Source, types: Types) -> None:
    """Check the operands of LIKE and BETWEEN, whose errors have texts of their own in pull queries (rules E10.11).

    Raises:
        StatementError: LIKE looks into a column that is no STRING, or BETWEEN compares types that do not compare.
    """
    scope = {column.name: column.type for column in source.schema.columns}
    for node in walk(where):
        if not isinstance(node, Like | Between) or not all(ref.name in scope for ref in column_refs(node)):
            continue
        match node:
            case Like(ColumnRef(name) as operand) if scope[name] != STRING:
                raise StatementError(
                    f"The column type for Like condition must be VARCHAR. The column type is {scope[name]}",
                    span=operand.span,
                    hint=f"compare its text: CAST({quote(name)} AS STRING) LIKE …",
                )
            case Between():
                _check_between(node, scope, types)
            case _:
                continue


def _check_between(node: Between, scope: Mapping[str, SqlType], types: Types) -> None:
    try:
        types.of(node, scope)
    except TypeMismatchError as error:
        raise StatementError(f"Invalid expression: {error.message}", span=error.span, hint=error.hint) from error


def _check_text(text: StringLiteral, column: Column) -> None:
    if column.type == STRING or not _is_number(column):
        return
    raise StatementError(
        f"{format_expression(text)} can not be converted to the type of the key column: {str(column).replace('`', '')}",
        span=text.span,
    )


def _is_number(column: Column) -> bool:
    return str(column.type).split("(")[0] in ("INTEGER", "BIGINT", "DOUBLE", "DECIMAL")


def unqualified(where: Expression) -> Expression:
    """Return a condition without the alias of its only source."""
    return rewrite(where, lambda node: replace(node, qualifier=None) if isinstance(node, ColumnRef) else None)
