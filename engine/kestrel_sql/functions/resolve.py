"""Chooses the overload for the argument types of a call (rules L4.8)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from kestrel_sql.errors import FunctionError, Span
from kestrel_sql.functions import signature as patterns
from kestrel_sql.functions.declaration import Aggregate, Function
from kestrel_sql.types.conversion import can_implicitly_cast, decimal_of
from kestrel_sql.types.sql_types import DOUBLE, STRING, Array, Decimal, Field, Map, SqlType, Struct, is_numeric


class LambdaArgument(msgspec.Struct, frozen=True):
    """A lambda argument; the choice depends on its number of parameters only."""

    parameters: int

    def __str__(self) -> str:
        return "LAMBDA"


class IntervalArgument(msgspec.Struct, frozen=True):
    """An interval unit as an argument."""

    def __str__(self) -> str:
        return "INTERVALUNIT"


Argument = SqlType | LambdaArgument | IntervalArgument | None


class Overload(msgspec.Struct, frozen=True):
    """One signature of one declaration."""

    function: Function
    signature: patterns.Signature


class Binding(msgspec.Struct, frozen=True):
    """The types and decimal sizes bound to the variables of a signature; filled while arguments are matched."""

    types: dict[str, SqlType] = {}
    sizes: dict[str, int] = {}


class Choice(msgspec.Struct, frozen=True):
    """A chosen overload, with one parameter per argument: the variadic parameter is repeated."""

    overload: Overload
    parameters: tuple[patterns.Parameter, ...]
    binding: Binding

    @property
    def function(self) -> Function:
        """The declaration."""
        return self.overload.function

    @property
    def literals(self) -> tuple[int, ...]:
        """The indexes of the arguments that must be constants."""
        return tuple(i for i, parameter in enumerate(self.parameters) if parameter.literal)


def choose(overloads: Sequence[Overload], arguments: Sequence[Argument], span: Span | None = None) -> Choice:
    """Choose the overload of a call: exact matches first, then implicit casts; aggregates never cast.

    Raises:
        FunctionError: no overload accepts the arguments, or two fit equally well.
    """
    for casts in (False,) if isinstance(overloads[0].function, Aggregate) else (False, True):
        candidates = [choice for overload in overloads if (choice := _match(overload, arguments, casts)) is not None]
        if candidates:
            return _best(candidates, overloads, arguments, span)
    alternatives = "\n".join(sorted(_spelled(overload) for overload in overloads))
    raise FunctionError(
        f"Function '{overloads[0].function.display_name}' does not accept parameters ({_listed(arguments)}).\n"
        f"Valid alternatives are:\n{alternatives}",
        span=span,
    )


def result_type(choice: Choice, arguments: tuple[SqlType | None, ...]) -> SqlType:
    """Return the result type of a call; `arguments` are the types after implicit casts.

    Raises:
        FunctionError: only NULL arguments determine a type variable or decimal size of the result.
    """
    if choice.function.returns is not None:
        return choice.function.returns(arguments)
    returns = choice.overload.signature.returns
    sizes = {
        size
        for part in patterns.walk(returns)
        if isinstance(part, patterns.AnyDecimal)
        for size in (part.precision, part.scale)
    }
    if not (patterns.generics_of(returns) <= choice.binding.types.keys() and sizes <= choice.binding.sizes.keys()):
        raise FunctionError(
            f"Cannot infer the return type of function '{choice.function.display_name}' from NULL arguments.",
            hint="cast one of them, e.g. CAST(null AS STRING)",
        )
    return substitute(returns, choice.binding)


def substitute(pattern: patterns.Pattern, binding: Binding) -> SqlType:
    """Return the type of a pattern whose type variables are bound.

    Raises:
        ValueError: the pattern is no result type.
    """
    match pattern:
        case patterns.Generic(name):
            return binding.types[name]
        case patterns.AnyDecimal(precision, scale):
            return Decimal(binding.sizes[precision], binding.sizes[scale])
        case patterns.ArrayOf(item):
            return Array(substitute(item, binding))
        case patterns.MapOf(key, value):
            return Map(substitute(key, binding), substitute(value, binding))
        case patterns.StructOf(fields):
            return Struct(tuple(Field(name, substitute(field, binding)) for name, field in fields))
        case patterns.AnyType() | patterns.Interval() | patterns.LambdaOf():
            raise ValueError(f"{pattern} is not a result type")
        case _:
            return pattern


def unify(pattern: patterns.Pattern, argument: Argument, binding: Binding, *, casts: bool = False) -> bool:
    """Whether `pattern` accepts the argument; binds its type variables. Every pattern accepts NULL."""
    if argument is None:
        return True
    if isinstance(argument, LambdaArgument):
        return isinstance(pattern, patterns.LambdaOf) and len(pattern.parameters) == argument.parameters
    if isinstance(argument, IntervalArgument):
        return isinstance(pattern, patterns.Interval)
    match pattern:
        case patterns.Interval() | patterns.LambdaOf():
            return False
        case patterns.AnyType():
            return True
        case patterns.Generic(name):
            return binding.types.setdefault(name, argument) == argument
        case patterns.ArrayOf() | patterns.MapOf() | patterns.StructOf():
            return _unify_composite(pattern, argument, binding, casts and not patterns.generics_of(pattern))
        case _:
            return _unify_simple(pattern, argument, binding, casts)


def _unify_composite(pattern: patterns.Pattern, argument: SqlType, binding: Binding, casts: bool) -> bool:
    match pattern, argument:
        case patterns.ArrayOf(item), Array(other):
            return unify(item, other, binding, casts=casts)
        case patterns.MapOf(key, value), Map(other_key, other_value):
            return unify(key, other_key, binding, casts=casts) and unify(value, other_value, binding, casts=casts)
        case patterns.StructOf(fields), Struct():
            return len(fields) == len(argument.fields) and all(
                (inner := argument.field(name)) is not None and unify(field, inner.type, binding, casts=casts)
                for name, field in fields
            )
        case _:
            return False


def _unify_simple(pattern: patterns.Pattern, argument: SqlType, binding: Binding, casts: bool) -> bool:
    if isinstance(pattern, patterns.AnyDecimal):
        if not isinstance(argument, Decimal) and not (casts and is_numeric(argument) and argument != DOUBLE):
            return False
        size = decimal_of(argument)
        binding.sizes.setdefault(pattern.precision, size.precision)
        binding.sizes.setdefault(pattern.scale, size.scale)
        return True
    target = implicit_target(pattern, argument)
    return target == argument or (casts and target is not None)


def implicit_target(pattern: patterns.Pattern, argument: SqlType) -> SqlType | None:
    """Return the type to which `pattern` converts an argument, perhaps its own; None if it cannot."""
    match pattern, argument:
        case (patterns.Generic(), _) | (patterns.AnyType(), _):
            return argument
        case patterns.AnyDecimal(), _:
            return decimal_of(argument) if is_numeric(argument) and argument != DOUBLE else None
        case (patterns.Interval() | patterns.LambdaOf(), _):
            return None
        case (patterns.ArrayOf(), _) | (patterns.MapOf(), _) | (patterns.StructOf(), _):
            return _composite_target(pattern, argument)
        case _:
            sql_type = substitute(pattern, Binding())
            return sql_type if can_implicitly_cast(argument, sql_type) else None


def _composite_target(pattern: patterns.Pattern, argument: SqlType) -> SqlType | None:
    match pattern, argument:
        case patterns.ArrayOf(item), Array(other):
            inner = implicit_target(item, other)
            return None if inner is None else Array(inner)
        case patterns.MapOf(key, value), Map(other_key, other_value):
            inner_key, inner_value = implicit_target(key, other_key), implicit_target(value, other_value)
            return None if inner_key is None or inner_value is None else Map(inner_key, inner_value)
        case _:
            return argument


def _match(overload: Overload, arguments: Sequence[Argument], casts: bool) -> Choice | None:
    parameters = overload.signature.expanded(len(arguments))
    if parameters is None:
        return None
    binding = Binding()
    if not all(
        _takes(p, argument) or unify(p.pattern, argument, binding, casts=casts)
        for p, argument in zip(parameters, arguments, strict=True)
    ):
        return None
    return Choice(overload, parameters, binding)


def _takes(parameter: patterns.Parameter, argument: Argument) -> bool:
    return parameter.takes_list and argument == Array(STRING)


def target_of(parameter: patterns.Parameter, argument: SqlType) -> SqlType | None:
    """Return the type to which a parameter converts an argument, perhaps its own; None if it cannot."""
    return STRING if _takes(parameter, argument) else implicit_target(parameter.pattern, argument)


def _best(
    candidates: list[Choice], overloads: Sequence[Overload], arguments: Sequence[Argument], span: Span | None
) -> Choice:
    if not arguments:
        return candidates[0]
    ranked = sorted(candidates, key=lambda choice: _rank(choice.overload.signature))
    if len(ranked) > 1 and _rank(ranked[-1].overload.signature) == _rank(ranked[-2].overload.signature):
        raise FunctionError(
            f"Function '{overloads[0].function.display_name}' cannot be resolved due to ambiguous method parameters "
            f"({_listed(arguments)}).",
            span=span,
            hint="cast an argument to the type of one of: "
            + ", ".join(sorted(_spelled(c.overload) for c in candidates)),
        )
    return ranked[-1]


def _rank(signature: patterns.Signature) -> tuple[int, int, int, int, int]:
    at = signature.variadic_at
    return (
        int(at is None),
        len(signature.parameters),
        -sum(1 for parameter in signature.parameters if patterns.generics_of(parameter.pattern)),
        int(at is None or not isinstance(signature.parameters[at].pattern, patterns.AnyType)),
        -1 if at is None else at,
    )


def _listed(arguments: Iterable[Argument]) -> str:
    return ", ".join("null" if argument is None else str(argument) for argument in arguments)


def _spelled(overload: Overload) -> str:
    return f"{overload.function.display_name}({', '.join(map(str, overload.signature.parameters))})"
