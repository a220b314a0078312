"""Functions of arrays; two items are equal if Java's `equals` says so."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from kestrel_sql.arrow import late
from kestrel_sql.arrow.late import ArrowArray, later
from kestrel_sql.functions.declaration import CallTypes, Nulls, scalar
from kestrel_sql.functions.values.casts import java_text
from kestrel_sql.functions.values.equality import distinct, equality_key, sort_key
from kestrel_sql.functions.values.size_limits import MAX_ITEMS, check_size, sized
from kestrel_sql.java.letters import upper
from kestrel_sql.java.numbers import wrap_integer
from kestrel_sql.java.utf16 import whole
from kestrel_sql.types import sql_types as t

Items = list[Any] | None
_NO_TEXT = frozenset((t.BYTES, t.DATE, t.TIME, t.TIMESTAMP))


def _item(types: CallTypes) -> t.SqlType | None:
    return next((argument.item for argument in types.arguments if isinstance(argument, t.Array)), None)


def _is_ordered(types: CallTypes) -> bool:
    return isinstance(_item(types), t.Primitive | t.Decimal)


def _concat_columns(first: ArrowArray, second: ArrowArray) -> ArrowArray | None:
    if not isinstance(first, late.pa.Array) or first.null_count or second.null_count or first.type != second.type:
        return None
    return late.lists.concatenated(first, second, MAX_ITEMS)


@scalar(
    "(left ARRAY<T>, right ARRAY<T>) -> ARRAY<T>",
    nulls=Nulls.BODY,
    display_name="array_concat",
    columns=_concat_columns,
)
def array_concat(first: Items, second: Items) -> Items:
    """Concatenate two arrays; a NULL array counts as empty.

    Example: ARRAY_CONCAT(ARRAY[1, 2], ARRAY[2, 3]) -> ARRAY[1, 2, 2, 3]
    """
    if first is None or second is None:
        return second if first is None else first
    return sized([*first, *second])


def _contains_columns(arrays: ArrowArray, wanted: ArrowArray) -> ArrowArray | None:
    if not isinstance(wanted, late.pa.Scalar) or not late.lists.is_exact(arrays.type.value_type):
        return None
    items = late.pc.equal(late.lists.items_of(arrays), wanted).fill_null(False)
    return late.pa.array(late.lists.counts(arrays, items) > 0)


@scalar("(array ARRAY<T>, val T) -> BOOLEAN", nulls=Nulls.BODY, columns=_contains_columns)
def array_contains(items: Items, wanted: object) -> bool:
    """Return whether an array contains an item equal to `val`, which may be NULL; false for a NULL array.

    Example: ARRAY_CONTAINS(ARRAY['a', 'b'], 'b') -> TRUE
    """
    return equality_key(wanted) in map(equality_key, items or ())


def _distinct_columns(arrays: ArrowArray) -> ArrowArray | None:
    items = late.lists.items_of(arrays)
    return late.lists.distinct(arrays) if late.lists.is_exact(items.type) and not items.null_count else None


@scalar("(input ARRAY<T>) -> ARRAY<T>", nulls=Nulls.BODY, display_name="array_distinct", columns=_distinct_columns)
def array_distinct(items: Items) -> Items:
    """Return an array without duplicates, in order of first appearance.

    Example: ARRAY_DISTINCT(ARRAY[1, 2, 1]) -> ARRAY[1, 2]
    """
    return None if items is None else distinct(items)


def _within(items: Sequence[object], others: Sequence[object], *, wanted: bool) -> list[object]:
    known = set(map(equality_key, others))
    return [item for item in items if (equality_key(item) in known) is wanted]


@scalar("(left ARRAY<T>, right ARRAY<T>) -> ARRAY<T>", nulls=Nulls.BODY, display_name="array_except")
def array_except(left: Items, right: Items) -> Items:
    """Return the distinct items of `left` that are not in `right`.

    Example: ARRAY_EXCEPT(ARRAY[1, 2, 3, 2], ARRAY[3]) -> ARRAY[1, 2]
    """
    return None if left is None or right is None else distinct(_within(left, right, wanted=False))


@scalar("(left ARRAY<T>, right ARRAY<T>) -> ARRAY<T>", nulls=Nulls.BODY, display_name="array_intersect")
def array_intersect(left: Items, right: Items) -> Items:
    """Return the distinct items of `left` that are also in `right`.

    Example: ARRAY_INTERSECT(ARRAY[1, 2, 3, 2], ARRAY[2, 1]) -> ARRAY[1, 2]
    """
    return None if left is None or right is None else distinct(_within(left, right, wanted=True))


@scalar("(left ARRAY<T>, right ARRAY<T>) -> ARRAY<T>", nulls=Nulls.BODY, display_name="array_union")
def array_union(left: Items, right: Items) -> Items:
    """Return the distinct items of both arrays.

    Example: ARRAY_UNION(ARRAY[1, 2, 1], ARRAY[2, 3]) -> ARRAY[1, 2, 3]
    """
    return None if left is None or right is None else distinct([*left, *right])


@scalar("(array ARRAY<T>, victim T) -> ARRAY<T>", nulls=Nulls.BODY, display_name="array_remove")
def array_remove(items: Items, victim: object) -> Items:
    """Return an array without the items that equal `victim`, which may be NULL.

    Example: ARRAY_REMOVE(ARRAY[1, 2, 1], 1) -> ARRAY[2]
    """
    unwanted = equality_key(victim)
    return None if items is None else [item for item in items if equality_key(item) != unwanted]


def _join_columns(types: CallTypes, arrays: ArrowArray, delimiter: ArrowArray = None) -> ArrowArray | None:
    by = "," if delimiter is None else delimiter.as_py() if isinstance(delimiter, late.pa.Scalar) else None
    items = late.lists.items_of(arrays)
    if by is None or not by.isascii() or _item(types) != t.STRING or items.null_count or not late.texts.is_ascii(items):
        return None
    if arrays.null_count or not late.texts.fits(len(late.texts.data_of(items)) + len(items) * len(by)):
        return None
    return late.pc.binary_join(late.lists.with_items(arrays, items), by)


@scalar(
    "(array ARRAY<T>) -> STRING",
    "(array ARRAY<T>, delimiter STRING) -> STRING",
    nulls=Nulls.BODY,
    with_types=True,
    columns=_join_columns,
)
def array_join(types: CallTypes, items: Items, delimiter: str | None = ",") -> str | None:
    """Join the items as strings, separated by a delimiter (a comma by default); NULL becomes `null`.

    Items must be BOOLEAN, INT, BIGINT, DOUBLE, DECIMAL or STRING; one of another type that is not NULL is an error.

    Example: ARRAY_JOIN(ARRAY[1, NULL, 3], '-') -> '1-null-3'
    """
    if items is None:
        return None
    item = _item(types)
    if (not isinstance(item, t.Primitive | t.Decimal) or item in _NO_TEXT) and any(each is not None for each in items):
        raise ValueError("ARRAY_JOIN cannot convert these items to strings")
    return sized(whole((delimiter or "").join([java_text(each, item) for each in items])))


@scalar("(array ARRAY<T>) -> INT", nulls=Nulls.BODY, columns=later(late.pc, "list_value_length"))
def array_length(items: Items) -> int | None:
    """Return the number of items.

    Example: ARRAY_LENGTH(ARRAY['a', NULL]) -> 2
    """
    return None if items is None else len(items)


def _extreme(choose: Callable[..., object], types: CallTypes, items: Items) -> object:
    present = [item for item in items or () if item is not None]
    if present and not _is_ordered(types):
        raise ValueError("the items cannot be ordered")
    # Numbers are their own keys.
    return choose(present, key=None if present and isinstance(present[0], int) else sort_key, default=None)


def _extreme_columns(choose: str, types: CallTypes, arrays: ArrowArray) -> ArrowArray | None:
    return late.lists.extremes(arrays, choose) if _item(types) in _WHOLE else None


_WHOLE = (t.INTEGER, t.BIGINT)


@scalar(
    "(input ARRAY<T>) -> T",
    nulls=Nulls.BODY,
    with_types=True,
    display_name="array_max",
    columns=partial(_extreme_columns, "maximum"),
)
def array_max(types: CallTypes, items: Items) -> object:
    """Return the greatest item; NULLs are ignored, and items that cannot be ordered are an error.

    Example: ARRAY_MAX(ARRAY[1, 3, 2]) -> 3
    """
    return _extreme(max, types, items)


@scalar(
    "(input ARRAY<T>) -> T",
    nulls=Nulls.BODY,
    with_types=True,
    display_name="array_min",
    columns=partial(_extreme_columns, "minimum"),
)
def array_min(types: CallTypes, items: Items) -> object:
    """Return the least item; NULLs are ignored, and items that cannot be ordered are an error.

    Example: ARRAY_MIN(ARRAY[3, 1, 2]) -> 1
    """
    return _extreme(min, types, items)


@scalar(
    "(input ARRAY<T>) -> ARRAY<T>",
    "(input ARRAY<T>, direction STRING) -> ARRAY<T>",
    nulls=Nulls.BODY,
    with_types=True,
    display_name="array_sort",
)
def array_sort(types: CallTypes, items: Items, direction: str | None = "ASC") -> Items:
    """Sort an array; the direction is `ASC` or `ASCENDING` (the default), or `DESC` or `DESCENDING`.

    NULLs are last. Any other direction gives NULL. Two items that cannot be ordered are an error.

    Example: ARRAY_SORT(ARRAY[3, 1, NULL, 2], 'DESC') -> ARRAY[3, 2, 1, NULL]
    """
    word = upper(direction or "")
    if items is None or word not in ("ASC", "ASCENDING", "DESC", "DESCENDING"):
        return None
    if not _is_ordered(types) and sum(item is not None for item in items) > 1:
        raise ValueError("the items cannot be ordered")
    present = sorted((item for item in items if item is not None), key=sort_key, reverse=word.startswith("DESC"))
    return present + [None] * (len(items) - len(present))


def _slice_columns(arrays: ArrowArray, start: ArrowArray, end: ArrowArray) -> ArrowArray | None:
    if not all(isinstance(each, late.pa.Scalar) for each in (start, end)) or arrays.null_count:
        return None
    skipped, last = start.as_py() - 1, end.as_py()
    return late.lists.sliced(arrays, skipped, last) if 0 <= skipped <= last else None


@scalar("(in ARRAY<T>, from INT, to INT) -> ARRAY<T>", nulls=Nulls.BODY, display_name="slice", columns=_slice_columns)
def slice_(items: Items, start: int | None, end: int | None) -> Items:
    """Return the items from one position to another, counted from 1; NULL if a position is outside of the array.

    A NULL `from` means the first item, a NULL `to` the last one. It is an error if `from` exceeds `to` by more than 1.

    Example: SLICE(ARRAY['a', 'b', 'c', 'd'], 2, 3) -> ARRAY['b', 'c']
    """
    if items is None:
        return None
    # As in Java, the smallest INT less 1 is the largest.
    skipped = 0 if start is None else wrap_integer(start - 1, 32)
    last = len(items) if end is None else end
    if skipped < 0 or last > len(items):
        return None
    if skipped > last:
        raise ValueError("the end of SLICE is before its start")
    return items[skipped:last]


@scalar(
    "(start INT NOT NULL, end INT NOT NULL) -> ARRAY<INT>",
    "(start INT NOT NULL, end INT NOT NULL, step INT NOT NULL) -> ARRAY<INT>",
    "(start BIGINT NOT NULL, end BIGINT NOT NULL) -> ARRAY<BIGINT>",
    "(start BIGINT NOT NULL, end BIGINT NOT NULL, step INT NOT NULL) -> ARRAY<BIGINT>",
    nulls=Nulls.BODY,
    with_types=True,
)
def generate_series(types: CallTypes, start: int, end: int, step: int | None = None) -> list[int]:
    """Return the numbers from `start` to `end`, both included, in steps of `step`.

    The default step is 1, or -1 if `end` is not greater than `start`. It is an error if the step is 0 or has the wrong
    sign, or if there are more than 1048576 numbers. The distance is cut to the bits of the numbers, its count to 32.

    Example: GENERATE_SERIES(1, 7, 3) -> ARRAY[1, 4, 7]
    """
    bits = 32 if types.returns == t.Array(t.INTEGER) else 64
    distance = wrap_integer(end - start, bits)
    by = step if step is not None else 1 if distance > 0 else -1
    if by == 0 or (distance > 0 and by < 0) or (distance < 0 and by > 0):
        raise ValueError("the step of GENERATE_SERIES has the wrong sign or is zero")
    count = wrap_integer(distance // by, 32) + 1
    if count < 0:
        raise ValueError("GENERATE_SERIES has too many numbers")
    check_size(count, MAX_ITEMS)
    numbers = range(start, start + count * by, by)
    if count == 0 or wrap_integer(numbers[-1], bits) == numbers[-1]:
        return list(numbers)
    return [wrap_integer(number, bits) for number in numbers]
