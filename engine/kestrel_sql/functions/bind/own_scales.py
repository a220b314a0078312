"""Finds the parts of an expression whose DECIMALs have a size of their own (rules L4.6.4, U4.7)."""

from __future__ import annotations

from msgspec.structs import replace

from kestrel_sql.functions.bind.nodes import Bound
from kestrel_sql.sql.nodes.chains import along_chains
from kestrel_sql.sql.nodes.expressions import Arithmetic, Cast, Lambda
from kestrel_sql.types.own_scales import has_own_scales, with_own_scales
from kestrel_sql.types.sql_types import STRING, Decimal, SqlType, contains


@along_chains
def mark_own_scales(bound: Bound) -> Bound:
    """Mark the types of CASTs that may add a digit, and of all parts that can return a value of a marked part."""
    if not bound.children:
        return bound
    children = tuple(map(mark_own_scales, bound.children))
    passes_on = any(map(_marked, children)) and not _rescales(bound)
    if bound.type is not None and (passes_on or _may_add_a_digit(bound)):
        return replace(bound, children=children, type=with_own_scales(bound.type, True))
    unchanged = all(new is old for new, old in zip(children, bound.children, strict=True))
    return bound if unchanged else replace(bound, children=children)


def _marked(bound: Bound) -> bool:
    return _marked(bound.children[0]) if isinstance(bound.node, Lambda) else has_own_scales(bound.type)


def _rescales(bound: Bound) -> bool:
    """Whether an operator gives its result the scale of its type; a CAST to the type of its operand does nothing."""
    changed = isinstance(bound.node, Cast) and bound.children[0].type != bound.type
    return changed or isinstance(bound.node, Arithmetic)


def _may_add_a_digit(bound: Bound) -> bool:
    """Whether a CAST rounds to a DECIMAL: 9999.99 as DECIMAL(5, 1) is 10000.0."""
    if not isinstance(bound.node, Cast):
        return False
    source = bound.children[0].type
    return contains(
        bound.type,
        lambda part: isinstance(part, Decimal) and contains(source, lambda of: _is_rounded(of, part)),
    )


def _is_rounded(source: SqlType, target: Decimal) -> bool:
    return source == STRING or (isinstance(source, Decimal) and source.scale > target.scale)
