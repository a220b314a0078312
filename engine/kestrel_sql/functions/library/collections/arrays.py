"""Functions of arrays; two items are equal if Java's `equals` says so."""

from __future__ import annotations

from collections.abc import Callable

from sqlglot import exp

from kestrel_sql.functions.declaration import CallTypes, Checked, Nulls, scalar
from kestrel_sql.functions.library.spark_sql.arrays import (
    ITEM,
    any_item,
    comparable,
    contains,
    equals_differently,
    keep,
    lambda_,
    name,
    null_safe_equal,
    part,
    typed_like,
)
from kestrel_sql.functions.library.spark_sql.expressions import (
    Tree,
    all_of,
    any_of,
    call,
    case,
    cast,
    if_,
    is_in,
    is_null,
    is_ordered_otherwise,
    java_order,
    let,
    not_,
    null,
    number,
    op,
    text,
)
from kestrel_sql.functions.library.spark_sql.size_limits import MAX_ITEMS
from kestrel_sql.types.sql_types import BYTES, DATE, DOUBLE, TIME, TIMESTAMP, Array, Decimal, Primitive, SqlType


def _item(types: CallTypes) -> SqlType | None:
    return next((argument.item for argument in types.arguments if isinstance(argument, Array)), None)


@scalar("(first ARRAY<T>, second ARRAY<T>) -> ARRAY<T>", nulls=Nulls.BODY, display_name="array_concat")
def array_concat(first: Tree, second: Tree) -> Tree:
    """Concatenate two arrays; a NULL array counts as empty.

    Example: ARRAY_CONCAT(ARRAY[1, 2], ARRAY[2, 3]) -> ARRAY[1, 2, 2, 3]
    """
    return let(
        [typed_like(first, second), typed_like(second, first)],
        lambda a, b: call("coalesce", call("concat", a, b), a, b),
    )


@scalar("(array ARRAY<T>, item T) -> BOOLEAN", nulls=Nulls.BODY, with_types=True)
def array_contains(types: CallTypes, items: Tree, wanted: Tree) -> Tree:
    """Return whether an array contains an item equal to `item`, which may be NULL; false for a NULL array.

    Example: ARRAY_CONTAINS(ARRAY['a', 'b'], 'b') -> TRUE
    """
    if isinstance(items, exp.Null):
        return exp.false()
    if isinstance(wanted, exp.Literal):
        return call("coalesce", call("array_contains", items, wanted), exp.false())
    return let([items, wanted], lambda a, w: contains(a, w, _item(types)))


@scalar("(array ARRAY<T>) -> ARRAY<T>", nulls=Nulls.BODY, with_types=True, display_name="array_distinct")
def array_distinct(types: CallTypes, items: Tree) -> Tree:
    """Return an array without duplicates, in order of first appearance.

    Example: ARRAY_DISTINCT(ARRAY[1, 2, 1]) -> ARRAY[1, 2]
    """
    if _item(types) == DOUBLE:
        return _doubles(call("array_distinct", _texts(items)))
    if not equals_differently(_item(types)):
        return call("array_distinct", items)
    return let([items], lambda a: keep(a, _item(types), lambda _: exp.true()))


@scalar("(left ARRAY<T>, right ARRAY<T>) -> ARRAY<T>", nulls=Nulls.BODY, with_types=True, display_name="array_except")
def array_except(types: CallTypes, left: Tree, right: Tree) -> Tree:
    """Return the distinct items of `left` that are not in `right`.

    Example: ARRAY_EXCEPT(ARRAY[1, 2, 3, 2], ARRAY[3]) -> ARRAY[1, 2]
    """
    item = _item(types)
    return _set_operation(
        "array_except", left, right, item, lambda a, b: keep(a, item, lambda x: not_(contains(b, x, item)))
    )


@scalar(
    "(left ARRAY<T>, right ARRAY<T>) -> ARRAY<T>", nulls=Nulls.BODY, with_types=True, display_name="array_intersect"
)
def array_intersect(types: CallTypes, left: Tree, right: Tree) -> Tree:
    """Return the distinct items of `left` that are also in `right`.

    Example: ARRAY_INTERSECT(ARRAY[1, 2, 3, 2], ARRAY[2, 1]) -> ARRAY[1, 2]
    """
    item = _item(types)
    return _set_operation(
        "array_intersect", left, right, item, lambda a, b: keep(a, item, lambda x: contains(b, x, item))
    )


@scalar("(left ARRAY<T>, right ARRAY<T>) -> ARRAY<T>", nulls=Nulls.BODY, with_types=True, display_name="array_union")
def array_union(types: CallTypes, left: Tree, right: Tree) -> Tree:
    """Return the distinct items of both arrays.

    Example: ARRAY_UNION(ARRAY[1, 2, 1], ARRAY[2, 3]) -> ARRAY[1, 2, 3]
    """
    item = _item(types)
    return _set_operation(
        "array_union",
        left,
        right,
        item,
        lambda a, b: let([call("concat", a, b)], lambda c: keep(c, item, lambda _: exp.true())),
    )


def _set_operation(
    native: str, left: Tree, right: Tree, item: SqlType | None, body: Callable[[Tree, Tree], Tree]
) -> Tree:
    """Apply Spark's set function, or `body` if Spark compares the items otherwise than Java."""
    arguments = [typed_like(left, right), typed_like(right, left)]
    if item == DOUBLE:
        return _doubles(call(native, *map(_texts, arguments)))
    if not equals_differently(item):
        return call(native, *arguments)
    return let(arguments, lambda a, b: if_(is_null(b), null(), body(a, b)))


def _texts(doubles: Tree) -> Tree:
    """Doubles as strings, which are equal where Java's `equals` is true."""
    return call("transform", doubles, lambda_([ITEM], cast(name(ITEM), "STRING")))


def _doubles(texts: Tree) -> Tree:
    return call("transform", texts, lambda_([ITEM], cast(name(ITEM), "DOUBLE")))


@scalar("(array ARRAY<T>, victim T) -> ARRAY<T>", nulls=Nulls.BODY, with_types=True, display_name="array_remove")
def array_remove(types: CallTypes, items: Tree, victim: Tree) -> Tree:
    """Return an array without the items that equal `victim`, which may be NULL.

    Example: ARRAY_REMOVE(ARRAY[1, 2, 1], 1) -> ARRAY[2]
    """

    def without(a: Tree, unwanted: Tree) -> Tree:
        is_victim = null_safe_equal(comparable(name(ITEM), _item(types)), comparable(unwanted, _item(types)))
        return call("filter", a, lambda_([ITEM], not_(is_victim)))

    # Outside of the lambda, because the victim may be the result of a Python function.
    return let([typed_like(items, call("array", victim)), victim], without)


@scalar("(array ARRAY<T>) -> STRING", "(array ARRAY<T>, delimiter STRING) -> STRING", nulls=Nulls.BODY, with_types=True)
def array_join(types: CallTypes, items: Tree, delimiter: Tree | None = None) -> Checked:
    """Join the items as strings, separated by a delimiter (a comma by default); NULL becomes `null`.

    Items must be BOOLEAN, INT, BIGINT, DOUBLE, DECIMAL or STRING; one of another type that is not NULL is an error.

    Example: ARRAY_JOIN(ARRAY[1, NULL, 3], '-') -> '1-null-3'
    """
    item = _item(types)
    between = text(",") if delimiter is None else call("coalesce", delimiter, text(""))
    joined = call("array_join", cast(items, "ARRAY<STRING>"), between, text("null"))
    has_text = isinstance(item, Primitive | Decimal) and item not in (BYTES, DATE, TIME, TIMESTAMP)
    return Checked(joined, None if has_text else any_item(items, [ITEM], not_(is_null(name(ITEM)))))


@scalar("(array ARRAY<T>) -> INT", nulls=Nulls.BODY)
def array_length(items: Tree) -> Tree:
    """Return the number of items.

    Example: ARRAY_LENGTH(ARRAY['a', NULL]) -> 2
    """
    return call("array_size", items)


@scalar("(array ARRAY<T>) -> T", nulls=Nulls.BODY, with_types=True, display_name="array_max")
def array_max(types: CallTypes, items: Tree) -> Checked:
    """Return the greatest item; NULLs are ignored, and items that cannot be ordered are an error.

    Example: ARRAY_MAX(ARRAY[1, 3, 2]) -> 3
    """
    return _extreme(types, "array_max", items)


@scalar("(array ARRAY<T>) -> T", nulls=Nulls.BODY, with_types=True, display_name="array_min")
def array_min(types: CallTypes, items: Tree) -> Checked:
    """Return the least item; NULLs are ignored, and items that cannot be ordered are an error.

    Example: ARRAY_MIN(ARRAY[3, 1, 2]) -> 1
    """
    return _extreme(types, "array_min", items)


def _extreme(types: CallTypes, function: str, items: Tree) -> Checked:
    if is_ordered_otherwise(_item(types)):
        return Checked(part(call(function, _keyed(items, _item(types))), "v"))
    if isinstance(_item(types), Primitive | Decimal):
        return Checked(call(function, items))
    return Checked(null(), any_item(items, [ITEM], not_(is_null(name(ITEM)))))


def _keyed(items: Tree, item: SqlType | None) -> Tree:
    """Pair each item with its sort key."""
    pair = call("named_struct", text("k"), java_order(name(ITEM), item), text("v"), name(ITEM))
    return call("transform", items, lambda_([ITEM], if_(is_null(name(ITEM)), null(), pair)))


@scalar(
    "(array ARRAY<T>) -> ARRAY<T>",
    "(array ARRAY<T>, direction STRING) -> ARRAY<T>",
    nulls=Nulls.BODY,
    with_types=True,
    display_name="array_sort",
)
def array_sort(types: CallTypes, items: Tree, direction: Tree | None = None) -> Checked:
    """Sort an array; the direction is `ASC` or `ASCENDING` (the default), or `DESC` or `DESCENDING`.

    NULLs are last. Any other direction gives NULL. Two items that cannot be ordered are an error.

    Example: ARRAY_SORT(ARRAY[3, 1, NULL, 2], 'DESC') -> ARRAY[3, 2, 1, NULL]
    """
    item = _item(types)
    is_ordered = isinstance(item, Primitive | Decimal)
    present = call("filter", items, lambda_([ITEM], not_(is_null(name(ITEM)))))
    fails = call("coalesce", op(exp.GT, call("array_size", present), number(1)), exp.false())

    def sorted_by(function: str, a: Tree, *options: Tree) -> Tree:
        if not is_ordered:
            return call("concat", *(call("filter", a, lambda_([ITEM], test)) for test in _given_and_missing()))
        if is_ordered_otherwise(item):
            return part(call(function, _keyed(a, item), *options), "v")
        return call(function, a, *options)

    if direction is None:
        return Checked(sorted_by("array_sort", items), None if is_ordered else fails)

    def sort(a: Tree, word: Tree) -> Tree:
        rising = (is_in(word, "ASC", "ASCENDING"), sorted_by("array_sort", a))
        return case([rising, (is_in(word, "DESC", "DESCENDING"), sorted_by("sort_array", a, exp.false()))], null())

    return Checked(let([items, call("upper", direction)], sort), None if is_ordered else fails)


def _given_and_missing() -> tuple[Tree, Tree]:
    return not_(is_null(name(ITEM))), is_null(name(ITEM))


@scalar("(array ARRAY<T>, from INT, to INT) -> ARRAY<T>", nulls=Nulls.BODY, display_name="slice")
def slice_(items: Tree, start: Tree, end: Tree) -> Checked:
    """Return the items from one position to another, counted from 1; NULL if a position is outside of the array.

    A NULL `from` means the first item, a NULL `to` the last one. It is an error if `from` exceeds `to` by more than 1.

    Example: SLICE(ARRAY['a', 'b', 'c', 'd'], 2, 3) -> ARRAY['b', 'c']
    """
    first = call("coalesce", start, number(1))

    def within(a: Tree, first: Tree, last: Tree) -> Tree:
        # As in Java, the smallest INT less 1 is the largest.
        return all_of(op(exp.GTE, op(exp.Sub, first, number(1)), number(0)), op(exp.LTE, last, call("array_size", a)))

    def crossed(first: Tree, last: Tree) -> Tree:
        return op(exp.GT, op(exp.Sub, first, number(1)), last)

    def cut(a: Tree, first: Tree, end: Tree) -> Tree:
        last = call("coalesce", end, call("array_size", a))
        length = op(exp.Add, op(exp.Sub, last, first), number(1))
        return if_(all_of(within(a, first, last), not_(crossed(first, last))), call("slice", a, first, length), null())

    def fails(a: Tree, first: Tree, end: Tree) -> Tree:
        last = call("coalesce", end, call("array_size", a))
        return call("coalesce", all_of(within(a, first, last), crossed(first, last)), exp.false())

    arguments = [items, first, end]
    return Checked(let(arguments, cut), let(arguments, fails))


@scalar(
    "(start INT NOT NULL, end INT NOT NULL) -> ARRAY<INT>",
    "(start INT NOT NULL, end INT NOT NULL, step INT NOT NULL) -> ARRAY<INT>",
    "(start BIGINT NOT NULL, end BIGINT NOT NULL) -> ARRAY<BIGINT>",
    "(start BIGINT NOT NULL, end BIGINT NOT NULL, step INT NOT NULL) -> ARRAY<BIGINT>",
    nulls=Nulls.BODY,
)
def generate_series(start: Tree, end: Tree, step: Tree | None = None) -> Checked:
    """Return the numbers from `start` to `end`, both included, in steps of `step`.

    The default step is 1, or -1 if `end` is not greater than `start`. It is an error if the step is 0 or has the wrong
    sign, or if there are more than 1048576 numbers.

    Example: GENERATE_SERIES(1, 7, 3) -> ARRAY[1, 4, 7]
    """
    arguments = [start, end, step if step is not None else if_(op(exp.GT, end, start), number(1), number(-1))]

    def fails(first: Tree, last: Tree, by: Tree) -> Tree:
        zero = number(0)
        span = call("try_subtract", cast(last, "BIGINT"), first)
        steps = op(exp.IntDiv, span, call("nullif", cast(by, "BIGINT"), zero))
        rising = all_of(op(exp.LT, first, last), op(exp.LT, by, zero))
        falling = all_of(op(exp.GT, first, last), op(exp.GT, by, zero))
        # -2^63 steps of -1 overflow to a negative number.
        many = any_of(op(exp.LT, steps, zero), op(exp.GTE, steps, number(MAX_ITEMS)))
        return any_of(rising, falling, call("coalesce", many, exp.true()))

    def series(first: Tree, last: Tree, by: Tree) -> Tree:
        return if_(call("coalesce", fails(first, last, by), exp.true()), null(), call("sequence", first, last, by))

    return Checked(let(arguments, series), call("coalesce", let(arguments, fails), exp.true()))
