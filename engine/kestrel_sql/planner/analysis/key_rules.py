"""Checks that a persistent query selects the key of its result (rules N7, E10)."""

from __future__ import annotations

from collections.abc import Sequence

from kestrel_sql.errors import StatementError
from kestrel_sql.planner.analysis.analyze import Analysis
from kestrel_sql.planner.analysis.join_criteria import is_foreign_key, key_of, viable_keys
from kestrel_sql.planner.analysis.join_names import and_list, or_list
from kestrel_sql.sql.format.statements import format_expression
from kestrel_sql.sql.nodes.expressions import ColumnRef, Expression, NullLiteral
from kestrel_sql.sql.nodes.statements import SelectAll
from kestrel_sql.types.sql_types import quote

_SYNTHETIC_NOTE = (
    "was added as a synthetic key column because the join criteria did not match any source column. "
    "This expression must be included in the projection and may be aliased. "
)


def check_key_selected(analysis: Analysis, sink: str) -> None:
    """Check that the projection of a query without aggregates contains the key.

    Raises:
        StatementError: a key column is missing; the message names it.
    """
    if analysis.partition_by is not None:
        _check_partition_by(analysis.partition_by, analysis, sink)
    elif analysis.scope.is_join:
        _check_join(analysis, sink)
    else:
        (source,) = analysis.scope.sources
        if not all(map(analysis.selects, key_of(source))):
            raise missing_key(sink, "key column", [key.name for key in key_of(source)])


def _check_partition_by(expressions: tuple[Expression, ...], analysis: Analysis, sink: str) -> None:
    if all(isinstance(e, NullLiteral) for e in expressions) or all(map(analysis.selects, expressions)):
        return
    raise missing_key(sink, "partitioning expression", [format_expression(e) for e in expressions])


def _check_join(analysis: Analysis, sink: str) -> None:
    if len(analysis.joins) == 1 and is_foreign_key(analysis.joins[0]):
        _check_foreign_key(analysis)
        return
    viable = viable_keys(analysis.joins)
    if not viable:
        _check_synthetic(analysis, sink)
    elif not any(map(analysis.selects, viable)):
        raise missing_key(sink, "join expression", [format_expression(key) for key in viable], any_of=True)


def _check_foreign_key(analysis: Analysis) -> None:
    left = analysis.scope.sources[0]
    missing = [quote(key.name) for key in key_of(left) if not analysis.selects(key)]
    if missing:
        plural = "s" if len(missing) > 1 else ""
        raise StatementError(
            f"Primary key column{plural} missing in projection. For foreign-key table-table joins, the projection must "
            f"include all primary key columns from the left input table ({quote(left.alias)}). "
            f"Missing column{plural}: {', '.join(missing)}."
        )


def _check_synthetic(analysis: Analysis, sink: str) -> None:
    name = analysis.scope.synthetic_key()
    star = any(isinstance(item, SelectAll) and item.qualifier is None for item in analysis.select)
    if star or analysis.selects(ColumnRef(name)):
        return
    plain = missing_key(sink, "join expression", [name])
    first, second = plain.message.split("\n")
    raise StatementError(f"{first}See https://cnfl.io/2LV7ouS.\n{second}\n{name} {_SYNTHETIC_NOTE}")


def missing_key(sink: str, noun: str, wanted: Sequence[str], *, any_of: bool = False) -> StatementError:
    """Make the error for a projection without its key; with `any_of` one of `wanted` is enough."""
    plural = "s" if len(wanted) > 1 else ""
    listed = or_list(wanted) if any_of else and_list(wanted)
    example = wanted[0] if any_of else ", ".join(wanted)
    return StatementError(
        f"Key{'' if any_of else plural} missing from projection (ie, SELECT). \n"
        f"The query used to build {quote(sink)} must include the {noun}{plural} {listed} in its projection "
        f"(eg, SELECT {example}...)."
    )
