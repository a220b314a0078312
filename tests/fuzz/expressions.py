"""Evaluates generated expressions over many rows at once, over each row by itself, as constants, and through Arrow.

One comparison is one expression over one row on one pair of paths.
"""

from __future__ import annotations

import pickle
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from msgspec.structs import replace

from kestrel_sql.arrow.columns import to_array, to_list
from kestrel_sql.errors import EngineError
from kestrel_sql.expressions.columns import Columns, Failures
from kestrel_sql.expressions.compiler import Options
from kestrel_sql.expressions.sendable import Compiled
from kestrel_sql.functions.bind import nodes
from kestrel_sql.functions.bind.bind import bind
from kestrel_sql.functions.bind.nodes import Bound
from kestrel_sql.functions.bind.operators import ends_decided
from kestrel_sql.functions.values.equality import hash_map
from kestrel_sql.sql.format.statements import format_expression
from kestrel_sql.sql.nodes import expressions as e
from kestrel_sql.types.schema import Column, Role
from kestrel_sql.types.sql_types import BOOLEAN, SqlType
from tests.fuzz.generator import COLUMNS, Generator
from tests.fuzz.values import constant, value

Row = Mapping[str, Any]
Outcome = tuple[str, Any]
"""`("value", it)`, `("fails", None)`, or `("refused", message)` where a path does not run the expression at all."""

FAILS: Outcome = ("fails", None)


@dataclass(frozen=True, slots=True)
class Difference:
    """Paths that do not agree on an expression over a row."""

    bound: Bound
    row: Row
    nested: bool
    outcomes: Mapping[str, Outcome]

    def __str__(self) -> str:
        used = {name: self.row[name] for name, _ in columns_of(self.bound)}
        shown = "\n".join(f"    {path}: {outcome}" for path, outcome in self.outcomes.items())
        return f"{format_expression(self.bound.node)}\n    over {used!r}, nested={self.nested}\n{shown}"


def some_rows(rng: random.Random, count: int) -> list[Row]:
    """Return rows of adversarial values for all columns; the first has NULLs only."""
    rows = [{name: value(rng, of) for name, of in COLUMNS.items()} for _ in range(count - 1)]
    return [dict.fromkeys(COLUMNS), *rows]


def as_most_are(given: Any) -> Any:
    """Return a value with the texts that most records have, over which more column bodies run: on one line, in ASCII."""
    match given:
        case str():
            return "".join(each for each in given if " " <= each <= "~")
        case list():
            return list(map(as_most_are, given))
        case dict():
            return hash_map({as_most_are(key): as_most_are(each) for key, each in given.items()})
        case _:
            return given


def evaluated(bound: Bound, rows: Sequence[Row], *, nested: bool, elsewhere: bool = False) -> list[Outcome]:
    """Return the outcomes of an expression over rows; `elsewhere` compiles it as another process does."""
    try:
        evaluate = Compiled(bound, Options(nested=nested))
    except EngineError as error:
        return [("refused", str(error))] * len(rows)
    if elsewhere:
        evaluate = pickle.loads(pickle.dumps(evaluate))
    failures: Failures = {}
    given = Columns({name: [row.get(name) for row in rows] for name in COLUMNS}, len(rows))
    found = evaluate(given, failures)
    return [FAILS if at in failures else ("value", value) for at, value in enumerate(found)]


def by_columns(bound: Bound, rows: Sequence[Row], *, nested: bool) -> list[Outcome] | None:
    """Return the outcomes of column bodies; None where they leave an expression to its values."""
    evaluate = Compiled(bound, Options(nested=nested))
    used = dict(columns_of(bound))
    taken = {name: to_array([row.get(name) for row in rows], Column(name, of, Role.VALUE)) for name, of in used.items()}
    found = evaluate.arrays(Columns({}, len(rows), arrays=taken.get, least_rows=1))
    if found is None:
        return None
    found.validate(full=True)
    return [("value", each) for each in to_list(found)]


def through_arrow(outcomes: Sequence[Outcome], bound: Bound) -> list[Outcome]:
    """Return the outcomes after a way to another stage of Spark, as a column of Arrow."""
    try:
        values = to_list(to_array([value for _, value in outcomes], Column("X", bound.type, Role.VALUE)))
    except Exception as error:  # noqa: BLE001 - what Arrow says is the finding
        return [("refused", f"{type(error).__name__}: {error}")] * len(outcomes)
    return [(kind, value) for (kind, _), value in zip(outcomes, values, strict=True)]


def agree(left: Outcome, right: Outcome) -> bool:
    """Whether two outcomes are equal, down to the sign of zero and the order of a map.

    A map of Arrow has no NULL key: it is the text that formats write for it.
    """
    return repr(_without_null_keys(left)) == repr(_without_null_keys(right))


def _without_null_keys(value: Any) -> Any:
    match value:
        case dict():
            return {"null" if key is None else key: _without_null_keys(each) for key, each in value.items()}
        case list() | tuple():
            return type(value)(map(_without_null_keys, value))
        case _:
            return value


def compared(bound: Bound, rows: Sequence[Row], *, nested: bool) -> Iterator[Difference]:
    """Compare the paths of an expression over all rows."""
    together = evaluated(bound, rows, nested=nested)
    carried = through_arrow(together, bound)
    columns = by_columns(bound, rows, nested=nested) if together[0][0] != "refused" else None
    elsewhere = evaluated(bound, rows[::-1], nested=nested, elsewhere=True)[::-1]
    for at, row in enumerate(rows):
        outcomes = {"together": together[at], "through Arrow": carried[at], "elsewhere": elsewhere[at]}
        (outcomes["alone"],) = evaluated(bound, [row], nested=nested)
        if columns is not None:
            outcomes["by columns"] = columns[at]
        elif together[at][0] == "value" and (found := by_columns(bound, [row], nested=nested)) is not None:
            (outcomes["by a column of one"],) = found
        (outcomes["constants"],) = evaluated(bind(with_constants(bound.node, row), COLUMNS), [{}], nested=nested)
        if not _all_agree(outcomes):
            yield Difference(bound, row, nested, outcomes)


def _all_agree(outcomes: Mapping[str, Outcome]) -> bool:
    first, *others = outcomes.values()
    return first[0] != "refused" and all(agree(first, other) for other in others)


def with_constants(node: Any, row: Row) -> Any:
    """Return the expression with the constants of a row in place of columns."""

    def change(given: e.Node, rebuilt: e.Node) -> e.Node:
        if isinstance(given, e.Logical) and isinstance(rebuilt, e.Logical) and not ends_decided(given):
            # Beside a literal that decides, NULL does not fail, as it does beside a column.
            return replace(rebuilt, right=e.Cast(rebuilt.right, BOOLEAN)) if ends_decided(rebuilt) else rebuilt
        return constant(row[given.name], COLUMNS[given.name]) if isinstance(given, e.ColumnRef) else rebuilt

    return changed(node, change)


def changed(node: Any, change: Callable[[e.Node, e.Node], e.Node]) -> Any:
    """Return the expression with what `change` makes of each node, and of the node with changed parts."""
    if isinstance(node, tuple):
        return tuple(changed(each, change) for each in node)
    if isinstance(node, e.Node):
        fields = {name: getattr(node, name) for name in node.__struct_fields__ if name not in ("span", "type")}
        parts = {name: changed(each, change) for name, each in fields.items() if isinstance(each, tuple | e.Node)}
        return change(node, replace(node, **parts))
    return node


def smallest(difference: Difference) -> Difference:
    """Return the difference in the smallest part of the expression that still differs over the row."""
    parts = parts_of(difference.bound)
    found = (each for part in parts for each in compared(part, [difference.row], nested=difference.nested))
    return next(found, difference)


def columns_of(bound: Bound) -> Iterator[tuple[str, SqlType | None]]:
    """Yield the columns that an expression refers to, with their types."""
    return ((part.node.name, part.type) for part in nodes.parts(bound) if isinstance(part.node, e.ColumnRef))


def parts_of(bound: Bound) -> list[Bound]:
    """Return the parts of an expression that have a value by themselves, the smallest first."""
    return sorted((part for part in _closed(bound) if part.type is not None), key=_size)


def _closed(bound: Bound) -> Iterator[Bound]:
    """Yield the parts outside of lambdas, whose variables have no value elsewhere; a unit of time has no value either."""
    if not isinstance(bound.node, e.Lambda | e.IntervalUnit) and not bound.implicit:
        yield bound
        for child in bound.children:
            yield from _closed(child)


def _size(bound: Bound) -> int:
    return 1 + sum(map(_size, bound.children))


def batch(seed: int, count: int, size: int) -> tuple[int, list[Difference]]:
    """Compare `count` expressions over `size` rows; return the number of comparisons and the shrunk differences."""
    rng = random.Random(seed)
    bounds, rows = list(Generator(rng).bounds(count)), some_rows(rng, size)
    return batch_of(bounds, list(map(as_most_are, rows)) if seed % 4 < 2 else rows, nested=seed % 2 == 0)


def batch_of(bounds: Sequence[Bound], rows: Sequence[Row], *, nested: bool) -> tuple[int, list[Difference]]:
    """Compare expressions over rows; return the number of comparisons and the shrunk differences."""
    # One difference of each expression: the rows of one mostly have one cause.
    firsts = (next(compared(bound, rows, nested=nested), None) for bound in bounds)
    return len(bounds) * len(rows), [smallest(each) for each in firsts if each is not None]
