"""Functions that take a lambda.

A lambda keeps the parameter names that its user chose, and bodies use reserved names, so no name is captured. If the
lambda fails for one item, the call fails.
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
    """Apply the lambda to each item and return the results.

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
def transform_map(types: CallTypes, map_: Tree, key: SparkLambda, value: SparkLambda) -> Checked:
    """Return a map with the results of the lambdas for each entry as keys and values.

    Equal keys and NULL values are an error.

    Example: TRANSFORM(MAP('a' := 1), (k, v) => UCASE(k), (k, v) => v + 1) -> MAP('A' := 2)
    """
    texts = key_type(types.returns) == STRING

    def build(m: Tree) -> Tree:
        keys, values = _each_entry(m, key), _each_entry(m, value)
        if texts:
            # A Java map prints a NULL key as "null"; Spark has no NULL keys.
            return call(
                "map_from_arrays",
                call("transform", keys, lambda_([ITEM], call("coalesce", name(ITEM), text("null")))),
                values,
            )
        return if_(_any_null(keys), null(), call("map_from_arrays", keys, values))

    def fails(m: Tree) -> Tree:
        keys, values = _each_entry(m, key), _each_entry(m, value)
        twice = op(exp.NEQ, call("array_size", call("array_distinct", keys)), call("array_size", keys))
        conditions = [
            _any_entry(m, mapping.parameters, mapping.fails) for mapping in (key, value) if mapping.fails is not None
        ]
        if not texts:
            conditions.append(_any_null(keys))
        return any_of(*conditions, _any_null(values), call("coalesce", twice, exp.false()))

    return Checked(let([map_], build), let([map_], fails))


@scalar(
    "(array ARRAY<T>, keep LAMBDA (T) => BOOLEAN) -> ARRAY<T>", name="FILTER", nulls=Nulls.BODY, display_name="filter"
)
def filter_array(items: Tree, keep: SparkLambda) -> Checked:
    """Return the items for which the lambda is true; it is an error if the lambda returns NULL.

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
def filter_map(map_: Tree, keep: SparkLambda) -> Checked:
    """Return the entries for which the lambda is true.

    It is an error if the lambda returns NULL, or if it is true for a NULL value.

    Example: FILTER(MAP('a' := 1, 'b' := 2), (k, v) => v > 1) -> MAP('b' := 2)
    """
    null_kept = op(exp.And, call("coalesce", keep.body, exp.false()), is_null(name(keep.parameters[1])))
    fails = any_of(*_predicate_failures(keep), null_kept)
    value = call("map_filter", map_, lambda_(keep.parameters, keep.body))
    return Checked(value, _any_entry(map_, keep.parameters, fails))


@scalar(
    "(array ARRAY<T>, initial S, step LAMBDA (S, T) => S) -> S",
    name="REDUCE",
    nulls=Nulls.BODY,
    with_types=True,
    display_name="reduce",
)
def reduce_array(types: CallTypes, items: Tree, initial: Tree, step: SparkLambda) -> Checked:
    """Reduce an array to one value: the lambda computes the next state from a state and an item.

    The first state is `initial`, the last one is the result. A NULL array gives `initial`, and a NULL `initial` gives
    NULL. A state of more than 16777216 bytes or 1048576 items is an error.

    Example: REDUCE(ARRAY[1, 2, 3], 10, (s, x) => s + x) -> 16
    """
    return _reduce(
        [items, initial], lambda a: a, _limit_state(step, types.returns), step.parameters[1], lambda tree: tree
    )


@scalar(
    "(map MAP<K, V>, initial S, step LAMBDA (S, K, V) => S) -> S",
    name="REDUCE",
    nulls=Nulls.BODY,
    with_types=True,
    display_name="reduce",
)
def reduce_map(types: CallTypes, map_: Tree, initial: Tree, step: SparkLambda) -> Checked:
    """Reduce a map to one value: the lambda computes the next state from a state, a key and a value.

    The entries come in the order of a Java HashMap. A NULL map gives `initial`, and a NULL `initial` gives NULL.

    Example: REDUCE(MAP('b' := 2, 'a' := 1), '', (s, k, v) => s + k) -> 'ab'
    """
    keys = key_type(types.arguments[0])

    def with_entry(tree: Tree) -> Tree:
        return bind(step.parameters[1:], [part(name(ENTRY), "key"), part(name(ENTRY), "value")], tree)

    return _reduce(
        [map_, initial], lambda m: java_entries(m, keys), _limit_state(step, types.returns), ENTRY, with_entry
    )


def _limit_state(step: SparkLambda, state_type: SqlType) -> SparkLambda:
    """Make a step fail if its state is too large; only a step that uses its state twice can double it."""
    state = step.parameters[0]
    uses = sum(identifier.name == state for identifier in step.body.find_all(exp.Identifier))
    if uses < 2 or not (isinstance(state_type, Array) or state_type in (STRING, BYTES)):
        return step
    if isinstance(state_type, Array):
        large = too_large(call("array_size", name(state)), MAX_ITEMS)
    else:
        large = too_large(call("octet_length", name(state)))
    fails = large if step.fails is None else any_of(large, step.fails)
    return SparkLambda(step.parameters, if_(large, name(state), step.body), fails)


def _reduce(
    arguments: list[Tree],
    listed: Callable[[Tree], Tree],
    step: SparkLambda,
    item: str,
    with_item: Callable[[Tree], Tree],
) -> Checked:
    """Fold the items that `listed` returns for the collection.

    `with_item` binds the lambda's parameter names to the parts of `item` in a tree.
    """
    state = step.parameters[0]

    def last(collection: Tree, initial: Tree) -> Tree:
        folded = call("aggregate", listed(collection), initial, lambda_([state, item], with_item(step.body)))
        return if_(any_of(is_null(initial), is_null(collection)), initial, folded)

    def step_fails(collection: Tree, initial: Tree, fails: Tree) -> Tree:
        # Unreachable branches make both fields nullable: Spark takes the type of the state from its first value.
        start = _progress(if_(is_null(initial), null(), initial), if_(is_null(initial), null(), exp.false()))
        following = bind([state], [part(name(STATE), "s")], with_item(_progress(step.body, fails)))
        going = if_(part(name(STATE), "f"), name(STATE), following)
        end = lambda_([STATE], part(name(STATE), "f"))
        folded = call("aggregate", listed(collection), start, lambda_([STATE, item], going), end)
        return call("coalesce", if_(is_null(initial), exp.false(), folded), exp.false())

    fails = step.fails
    return Checked(
        let(arguments, last), None if fails is None else let(arguments, lambda c, i: step_fails(c, i, fails))
    )


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


def _each_entry(map_: Tree, mapping: SparkLambda) -> Tree:
    return call("map_values", call("transform_values", map_, lambda_(mapping.parameters, mapping.body)))


def _any_entry(map_: Tree, parameters: Sequence[str], condition: Tree) -> Tree:
    outcomes = call("map_values", call("transform_values", map_, lambda_(parameters, condition)))
    return any_item(outcomes, [ITEM], name(ITEM))


def _any_null(items: Tree) -> Tree:
    return any_item(items, [ITEM], is_null(name(ITEM)))
