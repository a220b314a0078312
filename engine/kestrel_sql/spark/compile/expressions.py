"""Compiles bound expressions to Spark SQL, with one function per node; operands are compiled first.

Spark has no exceptions per row. Each result is therefore `Checked`: the value, and the condition under which ksqlDB's
generated Java would throw (rules L4.3). The code that closes an error scope decides what a failure does.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import singledispatch

from sqlglot import exp

from kestrel_sql.errors import UnsupportedError
from kestrel_sql.expressions.of_row import RowExpression
from kestrel_sql.functions.bind.nodes import Bound, columns_of
from kestrel_sql.functions.declaration import Checked, SparkLambda
from kestrel_sql.functions.library.spark_sql.expressions import is_large, let, negative
from kestrel_sql.spark.compile import arithmetic, casts, comparisons
from kestrel_sql.spark.compile import sql as s
from kestrel_sql.spark.compile.calls import compile_call, compile_like, evaluated_call, evaluated_expression
from kestrel_sql.spark.compile.context import Context, Fault
from kestrel_sql.spark.compile.python_only import is_lambda_or_unit, needs_interpreter, runs_by_row
from kestrel_sql.spark.compile.sql import Tree
from kestrel_sql.spark.compile.wide_decimals import is_over_wide, over_wide, uses_null_key
from kestrel_sql.sql.format.statements import format_expression
from kestrel_sql.sql.nodes import expressions as e
from kestrel_sql.types import sql_types as t
from kestrel_sql.types.conversion import can_be_equal
from kestrel_sql.types.sql_types import Map, is_numeric

Operand = Checked | SparkLambda


def compile_expression(bound: Bound, context: Context) -> Checked:
    """Compile a bound expression; the result may fail, and the caller closes the error scope."""
    compiled = _compile(bound, context)
    if isinstance(compiled, SparkLambda):
        raise UnsupportedError("a lambda is only allowed as an argument of a function")
    return compiled


def compile_closed(bound: Bound, context: Context, message: str) -> Tree:
    """Compile a bound expression and close the error scope: NULL and a processing-log entry where it fails."""
    return close(compile_expression(bound, context), context, message)


def typed(tree: Tree, bound: Bound) -> Tree:
    """Cast the SQL of an expression to its type; a column already has its type."""
    return tree if isinstance(bound.node, e.ColumnRef) else s.cast(tree, bound.type)


def close(result: Checked, context: Context, message: str) -> Tree:
    """Turn failures of `result` into NULL and a processing-log entry."""
    if result.fails is None:
        return result.value
    context.faults.append(Fault(result.fails, message, context.take_cause()))
    return result.value if result.null_on_failure else s.if_(result.fails, s.NULL, result.value)


def _compile(bound: Bound, context: Context) -> Operand:
    if isinstance(bound.node, e.Lambda):
        return _lambda(bound, context)
    if is_over_wide(bound) or uses_null_key(bound):
        return over_wide(bound, context)
    if needs_interpreter(bound):
        return _in_python(bound, context)
    children = [_compile(child, context) for child in bound.children]
    if isinstance(bound.node, e.FunctionCall):
        return compile_call(
            bound, [_argument(c, b, context) for c, b in zip(children, bound.children, strict=True)], context
        )
    return translate(bound.node, bound, [child for child in children if isinstance(child, Checked)], context)


def _lambda(bound: Bound, context: Context) -> SparkLambda:
    assert isinstance(bound.node, e.Lambda)  # noqa: S101
    outer = context.faults
    context.faults = []
    body = compile_expression(bound.children[0], context)
    context.faults = outer
    return SparkLambda(bound.node.parameters, body.value, body.fails)


def _in_python(bound: Bound, context: Context) -> Checked:
    """A call whose lambda calls a Python function, which Spark cannot do.

    The call with its lambdas runs as one Arrow function.

    It gets the other arguments, compiled as usual, and the columns that the lambdas use.
    """
    given = [
        (child, _argument(_compile(child, context), child, context))
        for child in bound.children
        if not is_lambda_or_unit(child)
    ]
    compiled = [(child, argument) for child, argument in given if isinstance(argument, Checked)]
    captured = {
        name: sql_type for child in bound.children if is_lambda_or_unit(child) for name, sql_type in columns_of(child)
    }
    types = (*(child.type for child, _ in compiled), *captured.values())
    names = iter([f"argument {at}" for at in range(len(compiled))])
    children = (
        child if is_lambda_or_unit(child) else Bound(e.ColumnRef(next(names)), child.type) for child in bound.children
    )
    columns = (*(f"argument {at}" for at in range(len(compiled))), *captured)
    body = RowExpression(replace(bound, children=tuple(children)), columns, context.options)
    arguments = [*(argument for _, argument in compiled), *(Checked(context.columns[name]) for name in captured)]
    return evaluated_call(bound, body, types, arguments, context)


def _argument(compiled: Operand, bound: Bound, context: Context) -> Operand:
    """Close the error scope of an argument that is a call or a dereference."""
    if isinstance(compiled, Checked) and isinstance(bound.node, e.FunctionCall | e.Dereference):
        return _scoped(compiled, bound, context)
    return compiled


def _scoped(compiled: Checked, bound: Bound, context: Context) -> Checked:
    if not context.nested or compiled.fails is None:
        return compiled
    return Checked(close(compiled, context, f"Error processing {format_expression(bound.node)}"))


@singledispatch
def translate(node: object, bound: Bound, children: list[Checked], context: Context) -> Checked:
    """Compile one node; its operands are compiled already."""
    raise UnsupportedError(f"{type(node).__name__} is not supported here")


@translate.register
def _(node: e.NullLiteral, bound: Bound, children: list[Checked], context: Context) -> Checked:
    return Checked(s.NULL if bound.type is None else s.null_of(bound.type))


@translate.register
def _(node: e.BooleanLiteral, bound: Bound, children: list[Checked], context: Context) -> Checked:
    return Checked(s.TRUE if node.value else s.FALSE, null_only_on_failure=True)


@translate.register(e.IntegerLiteral)
@translate.register(e.LongLiteral)
def _(node: e.IntegerLiteral | e.LongLiteral, bound: Bound, children: list[Checked], context: Context) -> Checked:
    return Checked(s.bigint(node.value) if bound.type == t.BIGINT else s.integer(node.value), null_only_on_failure=True)


@translate.register
def _(node: e.DecimalLiteral, bound: Bound, children: list[Checked], context: Context) -> Checked:
    return Checked(s.decimal(node.value, bound.type) if bound.type else s.NULL)


@translate.register
def _(node: e.DoubleLiteral, bound: Bound, children: list[Checked], context: Context) -> Checked:
    return Checked(s.double(node.value), null_only_on_failure=True)


@translate.register
def _(node: e.StringLiteral, bound: Bound, children: list[Checked], context: Context) -> Checked:
    return Checked(s.text(node.value), null_only_on_failure=True)


@translate.register
def _(node: e.IntervalUnit, bound: Bound, children: list[Checked], context: Context) -> Checked:
    return Checked(s.text(node.unit))


@translate.register
def _(node: e.ColumnRef, bound: Bound, children: list[Checked], context: Context) -> Checked:
    return Checked(context.columns[node.name])


@translate.register
def _(node: e.LambdaVariable, bound: Bound, children: list[Checked], context: Context) -> Checked:
    return Checked(exp.to_identifier(node.name, quoted=True))


@translate.register
def _(node: e.Not, bound: Bound, children: list[Checked], context: Context) -> Checked:
    (operand,) = children
    return Checked(s.not_(operand.value), s.any_of([operand.fails, s.null_condition(operand.value)]))


@translate.register
def _(node: e.Logical, bound: Bound, children: list[Checked], context: Context) -> Checked:
    left, right = children
    left_fails = s.any_of([left.fails, s.null_condition(left.value)])
    right_fails = s.any_of([right.fails, s.null_condition(right.value)])
    is_and = node.op is e.LogicalOp.AND
    decided = left.value if is_and else s.not_(left.value)
    if right_fails is not None:
        right_fails = s.all_of(s.coalesce_false(decided), right_fails)
    combined = s.binary(exp.And if is_and else exp.Or, _truth(left.value), _truth(right.value))
    return Checked(combined, s.any_of([left_fails, right_fails]))


def _truth(value: Tree) -> Tree:
    return value if s.null_condition(value) is None else s.coalesce_false(value)


@translate.register
def _(node: e.Comparison, bound: Bound, children: list[Checked], context: Context) -> Checked:
    return _compared(node.op, bound.children, children, context)


def _compared(op: e.ComparisonOp, sides: Sequence[Bound], operands: Sequence[Checked], context: Context) -> Checked:
    left, right = operands
    compared = Bound(e.Comparison(op, sides[0].node, sides[1].node), t.BOOLEAN, tuple(sides))
    if runs_by_row(compared):
        result = _evaluated(compared, operands, context)
    else:
        result = Checked(comparisons.compare(op, left.value, right.value, sides[0].type, sides[1].type))
    right_fails = right.fails
    if right_fails is not None and not op.takes_null:
        right_fails = s.all_of(s.is_not_null(left.value), right_fails)
    return Checked(result.value, s.any_of([left.fails, right_fails, result.fails]))


def _evaluated(bound: Bound, operands: Sequence[Checked], context: Context) -> Checked:
    """Apply one operator in Python to operands that are compiled as usual."""
    columns = {f"operand {at}": child.type for at, child in enumerate(bound.children)}
    children = tuple(Bound(e.ColumnRef(name), sql_type) for name, sql_type in columns.items())
    given = [Checked(operand.value) for operand in operands]
    return evaluated_expression(replace(bound, children=children), columns, given, replace(context, nested=False))


@translate.register
def _(node: e.Between, bound: Bound, children: list[Checked], context: Context) -> Checked:
    operand, lower, upper = children
    value, least, most = bound.children

    def between(tree: Tree, low: Checked, high: Checked) -> tuple[Checked, Checked]:
        above = _compared(e.ComparisonOp.GREATER_THAN_OR_EQUAL, (value, least), (Checked(tree), low), context)
        return above, _compared(e.ComparisonOp.LESS_THAN_OR_EQUAL, (value, most), (Checked(tree), high), context)

    def inside(tree: Tree, low: Tree, high: Tree) -> Tree:
        above, below = between(tree, Checked(low), Checked(high))
        return s.binary(exp.And, above.value, below.value)

    above, below = between(operand.value, lower, upper)
    if is_large(operand.value) and not runs_by_row(bound):
        both = let([operand.value, lower.value, upper.value], inside)
    else:
        both = s.binary(exp.And, above.value, below.value)
    below_fails = None if below.fails is None else s.all_of(s.coalesce_false(above.value), below.fails)
    return Checked(both, s.any_of([operand.fails, above.fails, below_fails]))


@translate.register
def _(node: e.InList, bound: Bound, children: list[Checked], context: Context) -> Checked:
    operand, *items = children
    fails = s.any_of([operand.fails, *(item.fails for item in items)])
    own, *types = (child.type for child in bound.children)
    if own == t.DOUBLE:
        # As texts, NaN equals itself and -0.0 is not 0.0.
        texts = [s.cast(child.value, t.STRING) for child in children]
        return Checked(s.coalesce_false(s.is_in(texts[0], texts[1:])), fails)
    if own is not None and not t.contains_map(own) and all(sql_type == own for sql_type in types):
        return Checked(s.coalesce_false(s.is_in(operand.value, [item.value for item in items])), fails)
    pairs = zip(items, types, strict=True)
    equal = [
        comparisons.compare(e.ComparisonOp.EQUAL, operand.value, item.value, own, sql_type) for item, sql_type in pairs
    ]
    return Checked(s.coalesce_false(s.any_of(equal) or s.FALSE), fails)


@translate.register
def _(node: e.Like, bound: Bound, children: list[Checked], context: Context) -> Checked:
    operand, pattern = children
    matched = compile_like(operand, pattern, node.escape, context)
    nulls = [s.null_condition(operand.value), s.null_condition(pattern.value)]
    fails = [operand.fails, pattern.fails, *nulls, matched.fails]
    return Checked(s.coalesce_false(matched.value), s.any_of(fails))


@translate.register
def _(node: e.IsNull, bound: Bound, children: list[Checked], context: Context) -> Checked:
    return Checked(s.is_null(children[0].value), children[0].fails)


@translate.register
def _(node: e.IsNotNull, bound: Bound, children: list[Checked], context: Context) -> Checked:
    return Checked(s.is_not_null(children[0].value), children[0].fails)


@translate.register
def _(node: e.Arithmetic, bound: Bound, children: list[Checked], context: Context) -> Checked:
    left, right = children
    types = (bound.children[0].type, bound.children[1].type)
    result = arithmetic.combine(node.op, left.value, right.value, types, bound.type)
    if result.null_only_on_failure and left.is_null_on_failure and right.is_null_on_failure:
        return result
    return Checked(result.value, s.any_of([left.fails, right.fails, result.fails]))


@translate.register
def _(node: e.Negate, bound: Bound, children: list[Checked], context: Context) -> Checked:
    (operand,) = children
    negated = negative(operand.value, bound.children[0].type)
    if operand.is_null_on_failure:
        return s.null_fails(negated)
    return Checked(negated, s.any_of([operand.fails, s.is_null(operand.value)]))


@translate.register
def _(node: e.UnaryPlus, bound: Bound, children: list[Checked], context: Context) -> Checked:
    (operand,) = children
    if operand.is_null_on_failure:
        return s.null_fails(operand.value)
    return Checked(operand.value, s.any_of([operand.fails, s.is_null(operand.value)]))


@translate.register
def _(node: e.Case, bound: Bound, children: list[Checked], context: Context) -> Checked:
    pairs = list(zip(children[0 : 2 * len(node.branches) : 2], children[1 : 2 * len(node.branches) : 2], strict=True))
    default = children[-1] if node.default is not None else Checked(s.null_of(bound.type))
    branches: list[tuple[Tree, Tree]] = []
    failures: list[tuple[Tree, Tree]] = []
    null_on_failure = True
    for condition, result in pairs:
        broken = s.any_of([condition.fails, s.null_condition(condition.value)])
        if broken is not None:
            failures.append((broken, s.TRUE))
            null_on_failure = null_on_failure and not is_large(broken)
        if broken is not None and null_on_failure:
            branches.append((broken, s.NULL))
        branches.append((s.coalesce_false(condition.value), result.value))
        failures.append((s.coalesce_false(condition.value), result.fails or s.FALSE))
    value = s.case(branches, default.value)
    results = [result for _, result in pairs] + [default]
    while default.fails is None and failures and failures[-1][1] is s.FALSE:
        failures.pop()
    if null_on_failure and all(result.null_only_on_failure for result in results):
        return s.null_fails(value) if failures else Checked(value, null_only_on_failure=True)
    if len(failures) == 1 and failures[0][1] is s.TRUE and default.fails is None:
        return Checked(value, failures[0][0], null_on_failure=null_on_failure)
    fails = s.case(failures, default.fails or s.FALSE) if failures else None
    return Checked(
        value, fails, null_on_failure=null_on_failure and all(result.is_null_on_failure for result in results)
    )


@translate.register
def _(node: e.Cast, bound: Bound, children: list[Checked], context: Context) -> Checked:
    (operand,) = children
    if bound.type is None:
        return operand
    if runs_by_row(bound):
        result = _evaluated(bound, children, context)
    else:
        result = casts.cast_checked(operand.value, bound.children[0].type, bound.type)
    value = result.value
    if operand.null_only_on_failure and is_numeric(bound.type) and result.is_null_on_failure:
        checked = s.null_fails(value) if operand.fails or result.fails else Checked(value, null_only_on_failure=True)
        return checked if bound.implicit else _scoped(checked, bound, context)
    fails = s.any_of([operand.fails, result.fails])
    null_on_failure = result.is_null_on_failure and operand.is_null_on_failure
    if bound.implicit:
        return Checked(value, fails, null_on_failure)
    if bound.type == t.STRING and bound.children[0].type is not None and not context.preserve_nulls:
        value, null_on_failure = s.call("coalesce", value, s.text("null")), False
    return _scoped(Checked(value, fails, null_on_failure), bound, context)


@translate.register
def _(node: e.ArrayConstructor, bound: Bound, children: list[Checked], context: Context) -> Checked:
    return _constructed(bound, children, context, lambda items: s.call("array", *items))


@translate.register
def _(node: e.MapConstructor, bound: Bound, children: list[Checked], context: Context) -> Checked:
    def build(items: list[Tree]) -> Tree:
        assert isinstance(bound.type, Map)  # noqa: S101
        # A map has no NULL key in Spark. In ksqlDB it may, and JSON writes that key as "null".
        keys = [
            s.call("coalesce", key, exp.Literal.string("null")) if bound.type.key == t.STRING else key
            for key in items[::2]
        ]
        pairs = [s.named_struct([("key", k), ("value", v)]) for k, v in zip(keys, items[1::2], strict=True)]
        given = s.lambda_(
            ["m"], s.is_not_null(exp.Dot(this=exp.to_identifier("m"), expression=exp.to_identifier("key")))
        )
        return s.call("map_from_entries", s.call("filter", s.call("array", *pairs), given))

    return _constructed(bound, children, context, build)


@translate.register
def _(node: e.StructConstructor, bound: Bound, children: list[Checked], context: Context) -> Checked:
    names = [name for name, _ in node.fields]
    return _constructed(bound, children, context, lambda items: s.named_struct(zip(names, items, strict=True)))


def _constructed(
    bound: Bound, children: list[Checked], context: Context, build: Callable[[list[Tree]], Tree]
) -> Checked:
    """A constructor: each item has its own error scope, and an untyped NULL gets the type of the items."""
    scoped = [_scoped(child, item, context) for child, item in zip(children, bound.children, strict=True)]
    return Checked(
        s.cast(build([child.value for child in scoped]), bound.type), s.any_of(child.fails for child in scoped)
    )


@translate.register
def _(node: e.Subscript, bound: Bound, children: list[Checked], context: Context) -> Checked:
    base, index = children
    index_fails = None if index.fails is None else s.all_of(s.is_not_null(base.value), index.fails)
    fails = s.any_of([base.fails, index_fails])
    null_on_failure = base.is_null_on_failure and index.is_null_on_failure
    if isinstance(of := bound.children[0].type, Map):
        if not can_be_equal(bound.children[1].type, of.key):
            return Checked(s.null_of(bound.type), fails)
        key = s.cast(index.value, of.key) if isinstance(of.key, t.Decimal) else index.value
        return Checked(s.call("try_element_at", base.value, key), fails, null_on_failure)
    position = s.cast(index.value, t.INTEGER)
    given = bound.children[1].node
    if isinstance(given, e.IntegerLiteral):
        at = s.null_of(t.INTEGER) if given.value == 0 else position
        return Checked(s.call("try_element_at", base.value, at), fails, null_on_failure)
    missing_index = s.all_of(s.is_not_null(base.value), s.is_null(position))
    item = s.call("try_element_at", base.value, s.call("nullif", position, s.integer(0)))
    return Checked(item, s.any_of([fails, missing_index]), null_on_failure)


@translate.register
def _(node: e.Dereference, bound: Bound, children: list[Checked], context: Context) -> Checked:
    base = children[0]
    value = (
        base.value
        if isinstance(base.value, exp.Column | exp.Dot | exp.Anonymous | exp.Identifier)
        else exp.Paren(this=base.value)
    )
    return Checked(
        exp.Dot(this=value, expression=exp.to_identifier(node.field, quoted=True)), base.fails, base.null_on_failure
    )
