"""Types calls: chooses the overload, converts arguments, and types lambdas by the signature."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from msgspec.structs import replace

from kestrel_sql.errors import FunctionError, Span
from kestrel_sql.functions import resolve
from kestrel_sql.functions.bind.nodes import Bound
from kestrel_sql.functions.bind.operators import converted
from kestrel_sql.functions.registry import Registry
from kestrel_sql.functions.signature import LambdaOf, Parameter, generics_of, is_concrete
from kestrel_sql.sql.format.statements import format_expression
from kestrel_sql.sql.nodes import expressions as e
from kestrel_sql.types.sql_types import SqlType

Bind = Callable[[e.Expression, Mapping[str, SqlType | None]], Bound]
"""Types an expression; the mapping has the types of additional lambda variables."""


def bind_call(node: e.FunctionCall, functions: Registry, bind: Bind) -> Bound:
    """Type a call of a function of any kind.

    Raises:
        FunctionError: there is no such function, no single overload fits, or a literal argument is not a constant.
    """
    arguments = tuple(_deferred(argument) or bind(argument, {}) for argument in node.arguments)
    choice = functions.choose(node.name, [_argument(argument) for argument in arguments], node.span)
    _check_literals(node, choice)
    children = tuple(
        _bind_lambda(argument.node, parameter, choice, bind)
        if isinstance(argument.node, e.Lambda)
        else _convert_argument(argument, parameter, choice)
        for argument, parameter in zip(arguments, choice.parameters, strict=True)
    )
    required = tuple(parameter.not_null for parameter in choice.parameters)
    return Bound(
        node, resolve.result_type(choice, tuple(child.type for child in children)), children, choice.function, required
    )


def _deferred(argument: e.Expression) -> Bound | None:
    return Bound(argument, None) if isinstance(argument, e.Lambda | e.IntervalUnit) else None


def _argument(bound: Bound) -> resolve.Argument:
    match bound.node:
        case e.Lambda(parameters):
            return resolve.LambdaArgument(len(parameters))
        case e.IntervalUnit():
            return resolve.IntervalArgument()
        case _:
            return bound.type


def _convert_argument(argument: Bound, parameter: Parameter, choice: resolve.Choice) -> Bound:
    if argument.type is not None:
        return converted(argument, resolve.target_of(parameter, argument.type))
    if isinstance(argument.node, e.NullLiteral) and is_concrete(parameter.pattern):
        # An untyped NULL has the type of its parameter, which overloads for STRING and BYTES ask for.
        return replace(argument, type=resolve.substitute(parameter.pattern, choice.binding))
    return argument


def _bind_lambda(node: e.Lambda, parameter: Parameter, choice: resolve.Choice, bind: Bind) -> Bound:
    pattern = parameter.pattern
    if not isinstance(pattern, LambdaOf):
        raise TypeError(f"{pattern} accepted a lambda")
    unbound = {name for p in pattern.parameters for name in generics_of(p)} - set(choice.binding.types)
    if unbound:
        raise FunctionError(
            f"Cannot infer the types of the lambda's parameters from the arguments "
            f"of '{choice.function.display_name}'.",
            span=node.span,
            hint="cast the NULL argument to a type",
        )
    types = [resolve.substitute(p, choice.binding) for p in pattern.parameters]
    body = bind(node.body, dict(zip(node.parameters, types, strict=True)))
    if not resolve.unify(pattern.result, body.type, choice.binding):
        raise _bad_lambda(node.span, pattern, body, choice)
    return Bound(node, None, (body,))


def _bad_lambda(span: Span | None, pattern: LambdaOf, body: Bound, choice: resolve.Choice) -> FunctionError:
    if generics_of(pattern.result) <= set(choice.binding.types):
        expected = str(resolve.substitute(pattern.result, choice.binding))
    else:
        expected = str(pattern.result)
    return FunctionError(
        f"Function '{choice.function.display_name}' does not accept a lambda that returns {body.type}, "
        f"it should return {expected}.",
        span=span,
    )


def _check_literals(node: e.FunctionCall, choice: resolve.Choice) -> None:
    for at in choice.literals:
        argument = node.arguments[at]
        inner = argument.operand if isinstance(argument, e.Negate) else argument
        if not isinstance(inner, e.Literal) or isinstance(inner, e.NullLiteral):
            raise FunctionError(
                f"Parameter {at + 1} passed to function {node.name} must be a literal constant,"
                f" but was expression: '{format_expression(argument)}'",
                span=argument.span or node.span,
            )
