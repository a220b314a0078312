"""Finds the parts of an expression whose DECIMALs have scales of their own (rule U4.7)."""

from __future__ import annotations

from dataclasses import replace

from kestrel_sql.functions.bind.nodes import Bound
from kestrel_sql.sql.nodes.expressions import Arithmetic, Cast, Lambda
from kestrel_sql.types.own_scales import has_own_scales, with_own_scales


def mark_own_scales(bound: Bound) -> Bound:
    """Mark the types of all parts that can return a value of a part that is marked."""
    children = tuple(map(mark_own_scales, bound.children))
    if not any(map(_marked, children)):
        unchanged = all(new is old for new, old in zip(children, bound.children, strict=True))
        return bound if unchanged else replace(bound, children=children)
    own = bound.type if bound.type is None or _rescales(bound) else with_own_scales(bound.type, True)
    return replace(bound, children=children, type=own)


def _marked(bound: Bound) -> bool:
    return _marked(bound.children[0]) if isinstance(bound.node, Lambda) else has_own_scales(bound.type)


def _rescales(bound: Bound) -> bool:
    """Whether an operator gives its result the scale of its type; a CAST to the type of its operand does nothing."""
    changed = isinstance(bound.node, Cast) and bound.children[0].type != bound.type
    return changed or isinstance(bound.node, Arithmetic)
