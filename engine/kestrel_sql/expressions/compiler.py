"""Compiles bound expressions to functions over columns, with one function per node; operands are compiled first.

Where ksqlDB's generated Java would throw, a row fails (rules L4.3). The code that closes an error scope decides what a
failure does: here the scopes inside an expression, the caller for the expression itself.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial, singledispatch
from itertools import islice
from typing import Any

import msgspec
from msgspec.structs import replace

from kestrel_sql.arrow import late
from kestrel_sql.arrow.late import ArrowArray, later
from kestrel_sql.errors import UnsupportedError
from kestrel_sql.expressions.columns import Arrays, Column, Columns, Evaluate, Failures, over_rows
from kestrel_sql.expressions.user_calls import of_a_user
from kestrel_sql.functions.bind.nodes import Bound
from kestrel_sql.functions.bind.operators import ends_decided
from kestrel_sql.functions.declaration import Calls, CallTypes, Nulls, Scalar, Tabular
from kestrel_sql.functions.values.casts import cast_columns, caster
from kestrel_sql.functions.values.equality import hash_map
from kestrel_sql.functions.values.like import like_columns, like_pattern
from kestrel_sql.functions.values.operators import (
    arithmetic,
    arithmetic_columns,
    compared_columns,
    comparison,
    contained_columns,
    item_equality,
    negation,
    negation_columns,
)
from kestrel_sql.functions.values.size_limits import check_made, sized
from kestrel_sql.java.numbers import round_decimal
from kestrel_sql.java.regex.time_limit import TimeLimitError, WorkTimeError, check_work, is_limited
from kestrel_sql.sql.format.statements import format_expression
from kestrel_sql.sql.nodes import expressions as e
from kestrel_sql.sql.nodes.chains import chain
from kestrel_sql.sql.nodes.expressions import ComparisonOp
from kestrel_sql.types import sql_types as t
from kestrel_sql.types.carried import is_carried
from kestrel_sql.types.conversion import can_be_equal
from kestrel_sql.types.schema import Column as SchemaColumn
from kestrel_sql.types.sql_types import Decimal, Map, Primitive, SqlType


class NullOperandError(ValueError):
    """An operator that needs a value got NULL."""


class Options(msgspec.Struct, frozen=True):
    """How a query evaluates expressions.

    Attributes:
        nested: whether calls, casts and the items of constructors inside the expression close their own error scopes
            (SELECT and PARTITION BY with `ksql.nested.error.set.null`).
        preserve_nulls: whether a cast of NULL to STRING is NULL.
        settings: the settings that functions see.
        of_items: whether the expression is the body of a lambda, which over arrays is evaluated for all items at once,
            by values where there is no column body.
    """

    nested: bool = False
    preserve_nulls: bool = True
    settings: Mapping[str, str] = {}
    of_items: bool = False


_PLAIN = Options()


def compile_expression(bound: Bound, options: Options = _PLAIN) -> Evaluate:
    """Compile an expression; what it fails for is the caller's to close.

    Raises:
        UnsupportedError: the expression has no value, such as a lambda that is no argument.
    """
    return _compile(bound.node, bound, options)


class _Same(Column):
    """A column of one value, which knows without a search whether that is NULL."""

    def __contains__(self, value: object) -> bool:
        return bool(self) and self[0] is value


class Constant(msgspec.Struct, frozen=True):
    """The same value in every row."""

    value: Any
    type: SqlType | None = None

    def __call__(self, columns: Columns, failures: Failures) -> Column:
        """Return a column of the value."""
        return _Same([self.value] * columns.size)

    def arrays(self, columns: Columns) -> ArrowArray | None:
        """Return the value as a scalar of Arrow."""
        kind = None if self.type is None or self.value is None else late.types.to_plain_arrow(self.type)
        return None if kind is None else late.pa.scalar(self.value, kind)


class Columnar(msgspec.Struct, eq=False):
    """An expression that is evaluated over arrays if they allow it, and otherwise by its values."""

    values: Evaluate
    make: Arrays

    def __call__(self, columns: Columns, failures: Failures) -> Column:
        """Return the values."""
        found = None if columns.made is None else self.arrays(columns)
        if found is None:
            return self.values(columns, failures)
        listed: Column = late.columns.to_list(found)
        return listed

    def arrays(self, columns: Columns) -> ArrowArray | None:
        """Return an array, made once for these columns."""
        made = columns.made
        if made is None:
            return None
        if self not in made:
            try:
                made[self] = self.make(columns)
            except late.pa.ArrowException:  # A value that Arrow does not take: the values tell what becomes of it.
                made[self] = None
        return made[self]


def arrays_of(evaluate: Evaluate) -> Arrays | None:
    """Return what evaluates an expression over arrays; None if a part of it has no column body."""
    found: Arrays | None = getattr(evaluate, "arrays", None)
    return found


class _ColumnBody(msgspec.Struct, eq=False):
    """The column body of a node, with what evaluates its operands.

    Attributes:
        body: takes an array, or a scalar that is not NULL, for each operand; None if it leaves it to the values.
        operands: what evaluates the operands.
        whole: the operands in which a NULL is a failure.
    """

    body: Callable[..., ArrowArray | None]
    operands: Sequence[Arrays]
    whole: Sequence[int] = ()

    def __call__(self, columns: Columns) -> ArrowArray | None:
        given = []
        for each in self.operands:
            found = each(columns)
            if found is None:
                return None
            given.append(found)
        return self.of(given)

    def of(self, given: Sequence[ArrowArray]) -> ArrowArray | None:
        """Apply the body."""
        if any(_is_array(given[at]) and given[at].null_count for at in self.whole):
            return None
        return self.body(*given) if any(_is_array(each) or callable(each) for each in given) else None


def _is_array(given: object) -> bool:
    return isinstance(given, late.pa.Array)


def _column_body(
    body: Callable[..., ArrowArray | None] | None,
    operands: Sequence[Evaluate],
    whole: Sequence[int] = (),
) -> _ColumnBody | None:
    arrays = [found for each in operands if (found := arrays_of(each)) is not None]
    if body is None or len(arrays) < len(operands):
        return None
    return _ColumnBody(body, arrays, whole)


def _columnar(values: Evaluate, make: Arrays | None) -> Evaluate:
    return values if make is None else Columnar(values, make)


def _by_values(
    bound: Bound, body: Callable[..., object], nulls: Nulls | None, options: Options
) -> Callable[..., ArrowArray | None] | None:
    """A column body that computes the values, for a part of a lambda; None elsewhere, where lists are no detour."""
    of = bound.type
    if not options.of_items or of is None or is_carried(of):
        return None

    def run(*given: ArrowArray) -> ArrowArray | None:
        size = next(len(each) for each in given if _is_array(each))
        lists = [late.columns.to_list(each) if _is_array(each) else [each.as_py()] * size for each in given]
        failures: Failures = {}
        found = mapped(body, lists, failures, nulls)
        return None if failures else late.columns.to_array(found, SchemaColumn("", of))

    return run


def _operands(bound: Bound, options: Options) -> list[Evaluate]:
    return [compile_expression(child, options) for child in bound.children]


def _is_sure(evaluate: Evaluate) -> bool:
    """Whether an operand costs nothing and cannot fail, so that it may be evaluated for rows that do not need it."""
    return isinstance(evaluate, Constant | _ColumnValues | _VariableValues)


def mapped(
    body: Callable[..., object],
    operands: Sequence[Column],
    failures: Failures,
    nulls: Nulls | None,
    *,
    without: object = None,
    retry: bool = True,
) -> Column:
    """Apply a function of values to each row.

    Args:
        body: the function; an exception is a failure of its row.
        operands: its arguments.
        failures: the rows that have failed, which are passed over; updated.
        nulls: what a NULL among the arguments does; None lets the row fail.
        without: the result where a NULL is passed on.
        retry: whether the function may be called a second time with the same arguments.
    """
    body = _checked(body) if is_limited() else body
    whole = nulls is Nulls.BODY or not any(None in column for column in operands)
    if retry and not failures and (whole or nulls):
        try:
            if whole:
                return list(map(body, *operands))
            return [without if None in values else body(*values) for values in zip(*operands, strict=True)]
        except Exception:  # noqa: BLE001 - each row is tried by itself below
            pass
    found: Column = [without] * len(operands[0])
    for at, values in enumerate(zip(*operands, strict=True)):
        if at in failures:
            continue
        if not whole and None in values:
            if nulls is None:
                failures[at] = NullOperandError("an operand is NULL")
            continue
        try:
            found[at] = body(*values)
        except WorkTimeError:
            raise
        except Exception as error:  # noqa: BLE001 - any exception of a function is a failure of its row
            failures[at] = error.with_traceback(None)
    return found


def _checked(body: Callable[..., object]) -> Callable[..., object]:
    """Count what a function makes as work for one request."""

    def run(*values: object) -> object:
        found = body(*values)
        check_made(found, values)
        return found

    return run


def scoped(bound: Bound, evaluate: Evaluate, options: Options) -> Evaluate:
    """Close the error scope of an expression inside another, if scopes are nested: NULL and a report where it fails."""
    if not options.nested or _is_sure(evaluate):
        return evaluate

    def run(columns: Columns, failures: Failures) -> Column:
        own: Failures = type(failures)()
        found = evaluate(columns, own)
        _close(bound, found, columns, own, failures)
        return found

    return _columnar(run, arrays_of(evaluate))


def _close(bound: Bound, found: Column, columns: Columns, own: Failures, failures: Failures) -> None:
    """Close the error scope of an expression that gave a column and failures of its own."""
    message = f"Error processing {format_expression(bound.node)}" if own else ""
    for at, error in own.items():
        if isinstance(error, TimeLimitError):
            # Without this, each item of a lambda could take the full time limit.
            failures.setdefault(at, error)
        else:
            columns.report(at, message, error)
        found[at] = None


_Run = Callable[[Column, Columns, Failures], Column]


class _Step(msgspec.Struct, eq=False):
    """Evaluates a link of a chain for the column of its first operand; the column body takes that first, too."""

    run: _Run
    body: _ColumnBody | None = None
    others: Sequence[Evaluate] = ()

    def __call__(self, start: Column, columns: Columns, failures: Failures) -> Column:
        return self.run(start, columns, failures)

    def arrays(self, start: ArrowArray, columns: Columns) -> ArrowArray | None:
        """Evaluate the link over arrays."""
        if self.body is None:
            return None
        given = [start]
        for each in self.body.operands:
            found = each(columns)
            if found is None:
                return None
            given.append(found)
        return self.body.of(given)


def _chained(bound: Bound, options: Options) -> Evaluate:
    """Evaluate the links of a chain one after the other, each inside the error scope that the next one closes."""
    links = chain(bound)
    *inner, last = [_step(link.node, link, options) for link in links]
    of_calls = isinstance(bound.node, e.FunctionCall)
    first = (_argument if of_calls else compile_expression)(links[0].children[0], options)
    closes = of_calls and options.nested

    def run(columns: Columns, failures: Failures) -> Column:
        own: Failures = type(failures)() if closes and inner else failures
        found = first(columns, own)
        for number, step in enumerate(inner):
            found = step(found, columns, own)
            if closes:
                outer: Failures = failures if number == len(inner) - 1 else type(failures)()
                _close(links[number], found, columns, own, outer)
                own = outer
        return last(found, columns, failures)

    function = bound.function
    if not inner and isinstance(function, Scalar) and function.columns is not None and bound.type != t.STRING:
        # A constant text is left to its rows, for a regular expression may take long.
        return _folded(bound, [first, *last.others], _columnar_chain(run, first, [last]))
    return _columnar_chain(run, first, [*inner, last])


def _columnar_chain(run: Evaluate, first: Evaluate, steps: Sequence[_Step]) -> Evaluate:
    start = arrays_of(first)
    if start is None or any(step.body is None for step in steps):
        return run

    def arrays(columns: Columns) -> ArrowArray | None:
        found = start(columns)
        for step in steps:
            if found is None:
                break
            found = step.arrays(found, columns)
        return found

    return Columnar(run, arrays)


def _argument(bound: Bound, options: Options) -> Evaluate:
    """Compile an operand; a call and a field close their own error scope."""
    evaluate = compile_expression(bound, options)
    return scoped(bound, evaluate, options) if isinstance(bound.node, e.FunctionCall | e.Dereference) else evaluate


@singledispatch
def _step(node: object, bound: Bound, options: Options) -> _Step:
    raise TypeError(f"{type(node).__name__} is not part of a chain")


@singledispatch
def _compile(node: object, bound: Bound, options: Options) -> Evaluate:
    raise UnsupportedError(f"{type(node).__name__} is not supported here")


@_compile.register
def _(node: e.NullLiteral, bound: Bound, options: Options) -> Evaluate:
    return Constant(None)


@_compile.register
def _(
    node: e.BooleanLiteral | e.IntegerLiteral | e.LongLiteral | e.DoubleLiteral | e.StringLiteral,
    bound: Bound,
    options: Options,
) -> Evaluate:
    return Constant(node.value, bound.type)


@_compile.register
def _(node: e.DecimalLiteral, bound: Bound, options: Options) -> Evaluate:
    return Constant(None if bound.type is None else round_decimal(node.value, bound.type), bound.type)


@_compile.register
def _(node: e.IntervalUnit, bound: Bound, options: Options) -> Evaluate:
    return Constant(node.unit, t.STRING)


class _ColumnValues(msgspec.Struct, frozen=True):
    name: str
    carried: bool = False

    def __call__(self, columns: Columns, failures: Failures) -> Column:
        return columns.column(self.name)

    def arrays(self, columns: Columns) -> ArrowArray | None:
        """Return the column as an array."""
        return None if self.carried else columns.array(self.name)


@_compile.register
def _(node: e.ColumnRef, bound: Bound, options: Options) -> Evaluate:
    return _ColumnValues(node.name, not isinstance(bound.type, Primitive) and is_carried(bound.type))


class _VariableValues(msgspec.Struct, frozen=True):
    name: str

    def __call__(self, columns: Columns, failures: Failures) -> Column:
        return columns.variables[self.name]

    def arrays(self, columns: Columns) -> ArrowArray | None:
        """Return the variable as an array."""
        return columns.array(self.name)


@_compile.register
def _(node: e.LambdaVariable, bound: Bound, options: Options) -> Evaluate:
    return _VariableValues(node.name)


@_compile.register
def _(node: e.Lambda, bound: Bound, options: Options) -> Evaluate:
    return _Lambda(node, bound, options)


class _Lambda:
    """A lambda gives a Python function for each row; it raises what its body fails with."""

    def __init__(self, node: e.Lambda, bound: Bound, options: Options) -> None:
        self._parameters = node.parameters
        self._body = compile_expression(bound.children[0], replace(options, of_items=True))

    def __call__(self, columns: Columns, failures: Failures) -> Column:
        """Return the functions of all rows."""
        return [self.of_row(columns, at) for at in range(columns.size)]

    def of_row(self, columns: Columns, at: int) -> Callable[..., object]:
        """Return the lambda of a row as a function, which evaluates its body for each call."""

        def call(*arguments: object) -> object:
            check_work()
            failures: Failures = {}
            (value,) = self._over(columns, (at,), (arguments,), failures)
            if failures:
                raise failures[0]
            return value

        return call

    def arrays(self, columns: Columns) -> Callable[..., ArrowArray | None] | None:
        """Return the lambda as a function of the row of each call, and of arrays of its arguments."""
        body = arrays_of(self._body)
        if body is None:
            return None

        def call(rows: ArrowArray, *given: ArrowArray) -> ArrowArray | None:
            found = body(columns.of_items(rows, dict(zip(self._parameters, given, strict=True))))
            return late.pa.repeat(found, len(rows)) if isinstance(found, late.pa.Scalar) else found

        return call

    def over(self, columns: Columns, calls: Sequence[Sequence[tuple[object, ...]]]) -> Column:
        """Return the lambdas of all rows as functions that give what their calls give, in this order.

        Much cheaper than a call at a time, where it is known what each row will call its lambda with. If one takes too
        long, the rows call theirs themselves, for the first such call ends the row.
        """
        try:
            results = iter(self._results(columns, calls))
        except _TooLongError:
            return [self.of_row(columns, at) for at in range(columns.size)]
        return [_replay(islice(results, len(each))) for each in calls]

    def _results(self, columns: Columns, calls: Sequence[Sequence[tuple[object, ...]]]) -> Column:
        rows = [at for at, each in enumerate(calls) for _ in each]
        every = [arguments for each in calls for arguments in each]
        found: Column = []
        for start in range(0, len(every), _CALLS):
            check_work()
            failures, end = _FirstTimeout(), start + _CALLS
            values = [*self._over(columns, rows[start:end], every[start:end], failures)]
            for at, error in failures.items():
                values[at] = error
            found += values
        return found

    def _over(
        self, columns: Columns, rows: Sequence[int], calls: Sequence[tuple[object, ...]], failures: Failures
    ) -> Column:
        variables = dict(zip(self._parameters, map(list, zip(*calls, strict=True)), strict=True))
        return self._body(columns.repeated(rows, variables), failures)


class _TooLongError(Exception):
    """A call of a lambda took too long."""


class _FirstTimeout(Failures):
    """Failures of calls of a lambda, up to the first that takes too long."""

    def __setitem__(self, at: int, error: Exception) -> None:
        if isinstance(error, TimeLimitError):
            raise _TooLongError
        super().__setitem__(at, error)


_CALLS = 10_000
"""How many calls of a lambda are evaluated at once."""


def _replay(results: Iterable[object]) -> Callable[..., object]:
    values = iter([*results])

    def call(*arguments: object) -> object:
        value = next(values)
        if isinstance(value, Exception):
            raise value
        return value

    return call


@_compile.register
def _(node: e.Not, bound: Bound, options: Options) -> Evaluate:
    return _applied(bound, options, operator.not_, _operands(bound, options), None, later(late.pc, "invert"))


@_compile.register
def _(node: e.Logical | e.Arithmetic, bound: Bound, options: Options) -> Evaluate:
    return _chained(bound, options)


@_step.register
def _(node: e.Logical, bound: Bound, options: Options) -> _Step:
    decisive = node.op is e.LogicalOp.OR
    if ends_decided(node):
        return _Step(lambda left, columns, failures: mapped(lambda _: decisive, [left], failures, Nulls.BODY))
    right = compile_expression(bound.children[1], options)

    def run(left: Column, columns: Columns, failures: Failures) -> Column:
        found = _given(left, failures)
        rest = [at for at, value in enumerate(found) if value is not decisive and at not in failures]
        for at, value in zip(rest, over_rows(right, columns, rest, failures), strict=True) if rest else ():
            found[at] = value
        return _given(found, failures)

    # Over arrays the right side cannot fail, so it may be evaluated where it is not needed.
    both = later(late.pc, "or_") if decisive else later(late.pc, "and_")
    return _Step(run, _column_body(both, [right], whole=(0, 1)))


def _given(column: Column, failures: Failures) -> Column:
    """Return a copy of a column; rows in which it is NULL fail."""
    failures.update(_missing(column, failures))
    return [*column]


def _missing(column: Column, failures: Failures) -> Failures:
    """The rows in which a column is NULL, but for those that have failed."""
    if None not in column:
        return {}
    missing = (at for at, value in enumerate(column) if value is None and at not in failures)
    return {at: NullOperandError("an operand is NULL") for at in missing}


@_compile.register
def _(node: e.Comparison, bound: Bound, options: Options) -> Evaluate:
    left, right = _operands(bound, options)
    return _compared(node.op, bound.children, left, right)


def _compared(op: ComparisonOp, sides: Sequence[Bound], left: Evaluate, right: Evaluate) -> Evaluate:
    of_left, of_right = (side.type for side in sides)
    test = comparison(op, of_left, of_right)
    if not op.takes_null:
        values = _from_the_left(test, left, right, nulls=Nulls.PROPAGATE, without=False)
        return _columnar(values, _column_body(compared_columns(op, of_left, of_right), [left, right]))
    distinct = op is ComparisonOp.IS_DISTINCT_FROM

    def body(first: object, second: object) -> bool:
        return (first is not second) is distinct if first is None or second is None else test(first, second)

    return _mapped(body, [left, right], Nulls.BODY)


def _from_the_left(
    body: Callable[..., object], left: Evaluate, right: Evaluate, *, nulls: Nulls, without: object
) -> Evaluate:
    """Apply a body; the result is `without` for NULL on the left: Java leaves the right side alone then."""

    def run(columns: Columns, failures: Failures) -> Column:
        values = left(columns, failures)
        if _is_sure(right) or None not in values:
            return mapped(body, [values, right(columns, failures)], failures, nulls, without=without)
        rest = [at for at, value in enumerate(values) if value is not None and at not in failures]
        others: Column = [None] * columns.size
        for at, other in zip(rest, over_rows(right, columns, rest, failures), strict=True):
            others[at] = other
        return mapped(body, [values, others], failures, nulls, without=without)

    return run


@_compile.register
def _(node: e.Between, bound: Bound, options: Options) -> Evaluate:
    operand, least, most = _operands(bound, options)
    of, low, high = bound.children
    above = _compared(ComparisonOp.GREATER_THAN_OR_EQUAL, (of, low), _ColumnValues(""), least)
    below = _compared(ComparisonOp.LESS_THAN_OR_EQUAL, (of, high), _ColumnValues(""), most)

    def run(columns: Columns, failures: Failures) -> Column:
        values = operand(columns, failures)
        with_value = columns.with_columns({"": values})
        found = above(with_value, failures)
        rest = [at for at, holds in enumerate(found) if holds and at not in failures]
        for at, holds in zip(rest, over_rows(below, with_value, rest, failures), strict=True):
            found[at] = holds
        return found

    bounds = [
        _compared(op, (of, limit), operand, evaluate)
        for op, limit, evaluate in (
            (ComparisonOp.GREATER_THAN_OR_EQUAL, low, least),
            (ComparisonOp.LESS_THAN_OR_EQUAL, high, most),
        )
    ]
    return _columnar(run, _column_body(later(late.pc, "and_"), bounds))


@_compile.register
def _(node: e.InList, bound: Bound, options: Options) -> Evaluate:
    of, *types = (child.type for child in bound.children)
    equalities = [item_equality(of, sql_type) for sql_type in types]
    operand, *given = _operands(bound, options)
    constants = [each.value for each in given if isinstance(each, Constant)]
    if len(constants) == len(given) and {*equalities} == {operator.eq}:
        known = frozenset(constants) - {None}
        return _applied(bound, options, known.__contains__, [operand], Nulls.BODY, contained_columns(of, known))

    def body(value: object, *items: object) -> bool:
        return value is not None and any(
            item is not None and equal(value, item) for equal, item in zip(equalities, items, strict=True)
        )

    return _applied(bound, options, body, [operand, *given], Nulls.BODY)


@_compile.register
def _(node: e.Like, bound: Bound, options: Options) -> Evaluate:
    escape = node.escape

    def body(value: str, pattern: str) -> bool:
        return like_pattern(pattern, escape).fullmatch(value) is not None

    return _applied(bound, options, body, _operands(bound, options), None, like_columns if escape is None else None)


@_compile.register
def _(node: e.IsNull | e.IsNotNull, bound: Bound, options: Options) -> Evaluate:
    is_null, (operand,) = isinstance(node, e.IsNull), _operands(bound, options)

    def values(columns: Columns, failures: Failures) -> Column:
        found = operand(columns, failures)
        return [value is None for value in found] if is_null else [value is not None for value in found]

    return _columnar(values, _column_body(later(late.pc, "is_null" if is_null else "is_valid"), [operand]))


@_step.register
def _(node: e.Arithmetic, bound: Bound, options: Options) -> _Step:
    of_left, of_right = (child.type for child in bound.children)
    joins = bound.type == t.STRING
    body = _joined if joins else arithmetic(node.op, of_left, of_right, bound.type)
    right = compile_expression(bound.children[1], options)
    nulls = Nulls.BODY if joins else None
    columns_body = joined_columns if joins else arithmetic_columns(node.op, of_left, of_right, bound.type)
    columns_body = columns_body or _by_values(bound, body, nulls, options)
    return _Step(
        lambda left, columns, failures: mapped(body, [left, right(columns, failures)], failures, nulls),
        _column_body(columns_body, [right], whole=() if joins else (0, 1)),
    )


def joined_columns(left: ArrowArray, right: ArrowArray) -> ArrowArray | None:
    """Return what `_joined` returns for each row."""
    return late.texts.joined("", left, right, null="null")


def _joined(left: str | None, right: str | None) -> str:
    return sized(f"{'null' if left is None else left}{'null' if right is None else right}")


@_compile.register
def _(node: e.Negate, bound: Bound, options: Options) -> Evaluate:
    columns = negation_columns(bound.type)
    return _applied(bound, options, negation(bound.type), _operands(bound, options), None, columns)


@_compile.register
def _(node: e.UnaryPlus, bound: Bound, options: Options) -> Evaluate:
    return _applied(bound, options, lambda value: value, _operands(bound, options), None, lambda array: array)


@_compile.register
def _(node: e.Case, bound: Bound, options: Options) -> Evaluate:
    parts = _operands(bound, options)
    branches = [(parts[2 * at], parts[2 * at + 1]) for at in range(len(node.branches))]
    default = parts[-1] if node.default is not None else Constant(None)

    def run(columns: Columns, failures: Failures) -> Column:
        found: Column = [None] * columns.size
        rest: Sequence[int] = range(columns.size)
        for condition, result in branches:
            holds = over_rows(condition, columns, rest, failures)
            broken = [at for at, value in zip(rest, holds, strict=True) if value is None and at not in failures]
            failures.update((at, NullOperandError("an operand is NULL")) for at in broken)
            chosen = [at for at, value in zip(rest, holds, strict=True) if value and at not in failures]
            for at, value in zip(chosen, over_rows(result, columns, chosen, failures), strict=True):
                found[at] = value
            rest = [at for at, value in zip(rest, holds, strict=True) if not value and at not in failures]
        for at, value in zip(rest, over_rows(default, columns, rest, failures), strict=True):
            found[at] = value
        return found

    def chosen(*given: ArrowArray) -> ArrowArray | None:
        found = given[-1] if node.default is not None else late.pa.scalar(None, late.types.to_plain_arrow(bound.type))
        for condition, result in reversed([(given[2 * at], given[2 * at + 1]) for at in range(len(branches))]):
            if not _is_array(condition) or condition.null_count:
                return None
            found = late.pc.if_else(condition, result, found)
        return found

    return _columnar(run, _column_body(chosen, parts))


@_compile.register
def _(node: e.Cast, bound: Bound, options: Options) -> Evaluate:
    (operand,) = _operands(bound, options)
    of, target = bound.children[0].type, bound.type
    if target is None:
        return operand
    cast = operand
    if of is not None and of != target:
        cast = _applied(bound, options, caster(of, target), [operand], Nulls.PROPAGATE, cast_columns(of, target))
    if bound.implicit:
        return cast
    if target == t.STRING and of is not None and not options.preserve_nulls:
        inner = cast
        cast = _mapped(lambda value: "null" if value is None else value, [inner], Nulls.BODY)
    return scoped(bound, cast, options)


@_compile.register
def _(node: e.ArrayConstructor, bound: Bound, options: Options) -> Evaluate:
    return _constructed(bound, options, lambda *items: [*items], later(late.lists, "of_items"))


@_compile.register
def _(node: e.MapConstructor, bound: Bound, options: Options) -> Evaluate:
    def build(*parts: object) -> dict[object, object]:
        return hash_map(dict(zip(parts[::2], parts[1::2], strict=True)))

    def columns(kind: object, *parts: ArrowArray) -> ArrowArray | None:
        if any(map(_is_array, parts[::2])):
            return None
        places = hash_map({key.as_py(): at for at, key in enumerate(parts[::2])})
        return late.lists.of_entries(kind, [*places], *(parts[2 * at + 1] for at in places.values()))

    return _constructed(bound, options, build, columns)


@_compile.register
def _(node: e.StructConstructor, bound: Bound, options: Options) -> Evaluate:
    names = [name for name, _ in node.fields]
    return _constructed(
        bound, options, lambda *items: dict(zip(names, items, strict=True)), later(late.lists, "of_fields")
    )


def _constructed(
    bound: Bound, options: Options, build: Callable[..., object], columns: Callable[..., ArrowArray | None]
) -> Evaluate:
    """A constructor: each item has its own error scope."""
    items = [scoped(child, compile_expression(child, options), options) for child in bound.children]
    if not items:
        return lambda columns, failures: [build() for _ in range(columns.size)]
    return _applied(
        bound, options, build, items, Nulls.BODY, lambda *given: columns(late.types.to_plain_arrow(bound.type), *given)
    )


@_compile.register
def _(node: e.Subscript, bound: Bound, options: Options) -> Evaluate:
    base, index = bound.children
    operands = _operands(bound, options)
    if isinstance(base.type, Map):
        equal = can_be_equal(index.type, base.type.key)

        def entry(mapping: Mapping[object, object] | None, key: object) -> object:
            return mapping.get(key) if equal and mapping is not None else None

        values = _from_the_left(entry, *operands, nulls=Nulls.BODY, without=None)
        return _columnar(values, _column_body(later(late.lists, "entry") if equal else None, operands))

    def item(items: Sequence[object] | None, position: int | None) -> object:
        if items is None:
            return None
        if position is None:
            raise NullOperandError("an index is NULL")
        if position == 0 or abs(position) > len(items):
            return None
        return items[position - 1 if position > 0 else position]

    values = _from_the_left(item, *operands, nulls=Nulls.BODY, without=None)
    return _columnar(values, _column_body(later(late.lists, "item"), operands))


@_compile.register
def _(node: e.Dereference, bound: Bound, options: Options) -> Evaluate:
    body = operator.itemgetter(node.field)
    return _applied(
        bound,
        options,
        body,
        _operands(bound, options),
        Nulls.PROPAGATE,
        lambda array: late.lists.field(array, node.field),
    )


def _applied(
    bound: Bound,
    options: Options,
    body: Callable[..., object],
    operands: Sequence[Evaluate],
    nulls: Nulls | None,
    columns: Callable[..., ArrowArray | None] | None = None,
) -> Evaluate:
    columns = columns or _by_values(bound, body, nulls, options)
    return _folded(
        bound,
        operands,
        _columnar(
            _mapped(body, operands, nulls),
            _column_body(columns, operands, range(len(operands)) if nulls is None else ()),
        ),
    )


def _folded(bound: Bound, operands: Sequence[Evaluate], evaluate: Evaluate) -> Evaluate:
    """Evaluate an expression of constants once, unless it fails."""
    if isinstance(bound.type, Primitive | Decimal) and all(isinstance(each, Constant) for each in operands):
        failures: Failures = {}
        (value,) = evaluate(Columns({}, 1), failures)
        return evaluate if failures else Constant(value, bound.type)
    return evaluate


def _mapped(body: Callable[..., object], operands: Sequence[Evaluate], nulls: Nulls | None) -> Evaluate:
    if len(operands) == 1:
        (only,) = operands
        return lambda columns, failures: mapped(body, [only(columns, failures)], failures, nulls)
    return lambda columns, failures: mapped(body, [each(columns, failures) for each in operands], failures, nulls)


@_compile.register
def _(node: e.FunctionCall, bound: Bound, options: Options) -> Evaluate:
    if bound.children:
        return _chained(bound, options)
    step = _step(node, bound, options)
    return lambda columns, failures: step([None] * columns.size, columns, failures)


@_step.register
def _(node: e.FunctionCall, bound: Bound, options: Options) -> _Step:
    function = bound.function
    if not isinstance(function, Scalar) or bound.type is None:
        raise UnsupportedError(f"{function.name if function else node.name} cannot be called here")
    others = [_argument(child, options) for child in bound.children[1:]]
    settings = {name: value for name, value in options.settings.items() if name.startswith("ksql.functions.")}
    types = CallTypes(tuple(child.type for child in bound.children), bound.type, settings)
    body, of_user = value_body(function, types)
    required = [at for at, needed in enumerate(bound.required[: len(bound.children)]) if needed]
    columns_body = None if of_user else column_body(function, types)
    if function.calls is not None:
        return _Step(_with_calls(others, body, function.calls), _column_body(columns_body, others, required))
    if not bound.children:
        return _Step(
            lambda start, columns, failures: mapped(lambda _: body(), [start], failures, Nulls.BODY, retry=not of_user)
        )

    def run(start: Column, columns: Columns, failures: Failures) -> Column:
        given = [start, *(each(columns, failures) for each in others)]
        for at in required:
            failures.update(_missing(given[at], failures))
        return mapped(body, given, failures, function.nulls, retry=not of_user)

    if not of_user and columns_body is None and not any(isinstance(each, _Lambda) for each in others):
        columns_body = _by_values(bound, body, function.nulls, options)
    return _Step(run, _column_body(columns_body, others, required), others)


def _with_calls(others: Sequence[Evaluate], body: Callable[..., object], calls_of: Calls) -> _Run:
    """A call of a function whose first argument says what it calls each of the others, which are lambdas, with."""
    lambdas = [each for each in others if isinstance(each, _Lambda)]

    def run(start: Column, columns: Columns, failures: Failures) -> Column:
        calls = [() if value is None or at in failures else tuple(calls_of(value)) for at, value in enumerate(start)]
        # A function is called once: its lambdas have each result once.
        given = [start, *(each.over(columns, calls) for each in lambdas)]
        return mapped(body, given, failures, Nulls.BODY, retry=False)

    return run


def value_body(function: Scalar | Tabular, types: CallTypes) -> tuple[Callable[..., object], bool]:
    """Return the body of a function for one value of each argument, and whether it is a user's."""
    body: Callable[..., Any] = function.body
    called = partial(body, types) if function.with_types else body
    return (of_a_user(function.name, called, types.returns), True) if is_of_user(function) else (called, False)


def is_of_user(function: Scalar | Tabular) -> bool:
    """Whether a function is a user's."""
    return not str(getattr(function.body, "__module__", "")).startswith("kestrel_sql.")


def column_body(function: Scalar, types: CallTypes) -> Callable[..., ArrowArray | None] | None:
    """Return the body of a function over whole columns, if it has one."""
    body = function.columns
    return body if body is None or not function.with_types else partial(body, types)


def tabular_body(bound: Bound, settings: Mapping[str, str]) -> Callable[..., object]:
    """Return the body of a table function for one value of each argument; it gives a list.

    Raises:
        UnsupportedError: it is no table function.
    """
    function = bound.function
    if not isinstance(function, Tabular) or bound.type is None:
        raise UnsupportedError(f"{function.name if function else bound.node} is not a table function")
    return value_body(function, CallTypes(tuple(c.type for c in bound.children), t.Array(bound.type), settings))[0]
