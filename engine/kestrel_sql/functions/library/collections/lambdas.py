"""Functions that take a lambda.

A lambda is always bound under the names that its user gave, so that no name of a body is captured. A body that fails for
one item fails the call.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from sqlglot import exp

from kestrel_sql.functions.declaration import CallTypes, Checked, Nulls, SparkLambda, scalar
from kestrel_sql.functions.library.collections.maps import key_type
from kestrel_sql.functions.library.spark_sql.arrays import ENTRY, ITEM, STATE, any_item, bind, lambda_, name, part
from kestrel_sql.functions.library.spark_sql.expressions import Tree, any_of, call, if_, is_null, let, null, op, text
from kestrel_sql.functions.library.spark_sql.map_order import java_entries
from kestrel_sql.functions.library.spark_sql.size_limits import MAX_ITEMS, too_large
from kestrel_sql.types.sql_types import BYTES, STRING, Array, SqlType


@scalar(
    "(array ARRAY<T>, mapping LAMBDA (T) => R) -> ARRAY<R>",
    name="TRANSFORM",
    nulls=Nulls.BODY,
    display_name="transform",
)
def transform_array(items: Tree, mapping: SparkLambda) -> Checked:
    """Return what the lambda makes of each item.

    Example: TRANSFORM(ARRAY[1, 2], x => x * 10) -> ARRAY[10, 20]
    """
    value = call("transform", items, lambda_(mapping.parameters, mapping.body))
    return Checked(value, None if mapping.fails is None else any_item(items, mapping.parameters, mapping.fails))


@scalar(
    "(map MAP<K, V>, key LAMBDA (K, V) => R, value LAMBDA (K, V) => T) -> MAP<R, T>",
    name="TRANSFORM",
    nulls=Nulls.BODY,
    with_types=True,
    display_name="transform",
)
def transform_map(types: CallTypes, given: Tree, key: SparkLambda, value: SparkLambda) -> Checked:
    """Return a map of what the lambdas make of each entry's key and value; two equal keys or a NULL value are an error.

    Example: TRANSFORM(MAP('a' := 1), (k, v) => UCASE(k), (k, v) => v + 1) -> MAP('A' := 2)
    """
    texts = key_type(types.returns) == STRING

    def build(m: Tree) -> Tree:
        keys, values = _each_entry(m, key), _each_entry(m, value)
        if texts:
            # A NULL key of a Java map is written as this text; Spark has no such keys.
            return call(
                "map_from_arrays",
                call("transform", keys, lambda_([ITEM], call("coalesce", name(ITEM), text("null")))),
                values,
            )
        return if_(_any_null(keys), null(), call("map_from_arrays", keys, values))

    def broken(m: Tree) -> Tree:
        keys, values = _each_entry(m, key), _each_entry(m, value)
        twice = op(exp.NEQ, call("array_size", call("array_distinct", keys)), call("array_size", keys))
        conditions = [_any_entry(m, made.parameters, made.fails) for made in (key, value) if made.fails is not None]
        if not texts:
            conditions.append(_any_null(keys))
        return any_of(*conditions, _any_null(values), call("coalesce", twice, exp.false()))

    return Checked(let([given], build), let([given], broken))


@scalar(
    "(array ARRAY<T>, keep LAMBDA (T) => BOOLEAN) -> ARRAY<T>", name="FILTER", nulls=Nulls.BODY, display_name="filter"
)
def filter_array(items: Tree, keep: SparkLambda) -> Checked:
    """Return the items for which the lambda is true; that it is NULL is an error.

    Example: FILTER(ARRAY[1, 2, 3], x => x > 1) -> ARRAY[2, 3]
    """
    failures = _predicate_failures(keep)
    value = call("filter", items, lambda_(keep.parameters, keep.body))
    return Checked(value, any_item(items, keep.parameters, any_of(*failures)) if failures else None)


@scalar(
    "(map MAP<K, V>, keep LAMBDA (K, V) => BOOLEAN) -> MAP<K, V>",
    name="FILTER",
    nulls=Nulls.BODY,
    display_name="filter",
)
def filter_map(given: Tree, keep: SparkLambda) -> Checked:
    """Return the entries for which the lambda is true; that it is NULL, or that it is true for a value that is NULL, is an error.

    Example: FILTER(MAP('a' := 1, 'b' := 2), (k, v) => v > 1) -> MAP('b' := 2)
    """
    null_kept = op(exp.And, call("coalesce", keep.body, exp.false()), is_null(name(keep.parameters[1])))
    broken = any_of(*_predicate_failures(keep), null_kept)
    value = call("map_filter", given, lambda_(keep.parameters, keep.body))
    return Checked(value, _any_entry(given, keep.parameters, broken))


@scalar(
    "(array ARRAY<T>, initial S, step LAMBDA (S, T) => S) -> S",
    name="REDUCE",
    nulls=Nulls.BODY,
    with_types=True,
    display_name="reduce",
)
def reduce_array(types: CallTypes, items: Tree, initial: Tree, step: SparkLambda) -> Checked:
    """Go through the items with a state: the lambda makes the next one of a state and an item; return the last.

    The result is `initial` for an array that is NULL, and NULL if `initial` is. More than 16777216 bytes or 1048576 items are an error.

    Example: REDUCE(ARRAY[1, 2, 3], 10, (s, x) => s + x) -> 16
    """
    return _reduce([items, initial], lambda a: a, _bounded(step, types.returns), step.parameters[1], lambda tree: tree)


@scalar(
    "(map MAP<K, V>, initial S, step LAMBDA (S, K, V) => S) -> S",
    name="REDUCE",
    nulls=Nulls.BODY,
    with_types=True,
    display_name="reduce",
)
def reduce_map(types: CallTypes, given: Tree, initial: Tree, step: SparkLambda) -> Checked:
    """Go through the entries, in the order of a Java HashMap, with a state that the lambda changes; return the last state.

    The result is `initial` for a map that is NULL, and NULL if `initial` is.

    Example: REDUCE(MAP('b' := 2, 'a' := 1), '', (s, k, v) => s + k) -> 'ab'
    """
    keys = key_type(types.arguments[0])

    def with_entry(tree: Tree) -> Tree:
        return bind(step.parameters[1:], [part(name(ENTRY), "key"), part(name(ENTRY), "value")], tree)

    return _reduce([given, initial], lambda m: java_entries(m, keys), _bounded(step, types.returns), ENTRY, with_entry)


def _bounded(step: SparkLambda, state_type: SqlType) -> SparkLambda:
    """Let a step fail whose state is too large; only one that uses its state twice can double it."""
    state = step.parameters[0]
    uses = sum(found.name == state for found in step.body.find_all(exp.Identifier))
    if uses < 2 or not (isinstance(state_type, Array) or state_type in (STRING, BYTES)):
        return step
    if isinstance(state_type, Array):
        large = too_large(call("array_size", name(state)), MAX_ITEMS)
    else:
        large = too_large(call("octet_length", name(state)))
    fails = large if step.fails is None else any_of(large, step.fails)
    return SparkLambda(step.parameters, if_(large, name(state), step.body), fails)


def _reduce(
    given: list[Tree], listed: Callable[[Tree], Tree], step: SparkLambda, item: str, with_item: Callable[[Tree], Tree]
) -> Checked:
    """Fold the items that `listed` makes of the collection; `with_item` gives a tree the lambda's names for the parts of `item`."""
    state = step.parameters[0]

    def last(collection: Tree, initial: Tree) -> Tree:
        folded = call("aggregate", listed(collection), initial, lambda_([state, item], with_item(step.body)))
        return if_(any_of(is_null(initial), is_null(collection)), initial, folded)

    def broken(collection: Tree, initial: Tree, fails: Tree) -> Tree:
        # Branches that cannot be taken make both fields nullable; Spark takes the type of the state from its first value.
        start = _progress(if_(is_null(initial), null(), initial), if_(is_null(initial), null(), exp.false()))
        following = bind([state], [part(name(STATE), "s")], with_item(_progress(step.body, fails)))
        going = if_(part(name(STATE), "f"), name(STATE), following)
        end = lambda_([STATE], part(name(STATE), "f"))
        folded = call("aggregate", listed(collection), start, lambda_([STATE, item], going), end)
        return call("coalesce", if_(is_null(initial), exp.false(), folded), exp.false())

    fails = step.fails
    return Checked(let(given, last), None if fails is None else let(given, lambda c, i: broken(c, i, fails)))


def _progress(state: Tree, failed: Tree) -> Tree:
    return call("named_struct", text("s"), state, text("f"), failed)


def _predicate_failures(predicate: SparkLambda) -> list[Tree]:
    failures = [] if predicate.fails is None else [predicate.fails]
    return failures if _never_null(predicate.body) else [*failures, is_null(predicate.body)]


def _never_null(tree: Tree) -> bool:
    match tree:
        case exp.Paren(this=Tree() as inner) | exp.Not(this=Tree() as inner):
            return _never_null(inner)
        case exp.And() | exp.Or():
            return all(isinstance(side, Tree) and _never_null(side) for side in (tree.this, tree.expression))
        case exp.Anonymous():
            return tree.name == "coalesce" and any(_never_null(argument) for argument in tree.expressions)
        case _:
            return isinstance(tree, exp.Is | exp.NullSafeEQ | exp.NullSafeNEQ | exp.Boolean)


def _each_entry(given: Tree, made: SparkLambda) -> Tree:
    return call("map_values", call("transform_values", given, lambda_(made.parameters, made.body)))


def _any_entry(given: Tree, parameters: Sequence[str], condition: Tree) -> Tree:
    outcomes = call("map_values", call("transform_values", given, lambda_(parameters, condition)))
    return any_item(outcomes, [ITEM], name(ITEM))


def _any_null(items: Tree) -> Tree:
    return any_item(items, [ITEM], is_null(name(ITEM)))
