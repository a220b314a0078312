"""Generates typed expressions from the declarations of functions: all overloads, operators and types."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from functools import cache
from itertools import product

from msgspec.structs import replace

from kestrel_sql.errors import EngineError
from kestrel_sql.functions.bind.bind import bind
from kestrel_sql.functions.bind.nodes import Bound
from kestrel_sql.functions.declaration import Scalar
from kestrel_sql.functions.resolve import Binding, Overload, unify
from kestrel_sql.functions.signature import (
    AnyDecimal,
    AnyType,
    ArrayOf,
    Generic,
    Interval,
    LambdaOf,
    MapOf,
    Parameter,
    Pattern,
    StructOf,
    generics_of,
)
from kestrel_sql.functions.table import FUNCTIONS
from kestrel_sql.sql.nodes import expressions as e
from kestrel_sql.types import sql_types as t
from kestrel_sql.types.conversion import can_cast
from kestrel_sql.types.sql_types import Array, Decimal, Field, Map, SqlType, Struct
from tests.fuzz.values import BY_NAME, constant, value

STRUCT = Struct((Field("A", t.INTEGER), Field("B", t.STRING)))
PRIMITIVES = (t.BOOLEAN, t.INTEGER, t.BIGINT, t.DOUBLE, t.STRING, t.BYTES, t.DATE, t.TIME, t.TIMESTAMP)
DECIMALS = (Decimal(6, 2), Decimal(4, 4), Decimal(38, 0), Decimal(38, 10))
SIMPLE: tuple[SqlType, ...] = (*PRIMITIVES, *DECIMALS)
TYPES: tuple[SqlType, ...] = (
    *SIMPLE,
    *(Array(t.STRING), Array(t.INTEGER), Array(t.DOUBLE), Array(t.BYTES), Array(Decimal(6, 2)), Array(Array(t.BIGINT))),
    *(Map(t.STRING, t.INTEGER), Map(t.STRING, t.STRING), Map(t.STRING, t.DOUBLE), Map(t.STRING, Array(t.STRING))),
    *(STRUCT, Array(STRUCT)),
)
OPERANDS = (t.INTEGER, t.BIGINT, t.DOUBLE, Decimal(6, 2), Decimal(38, 10))
NUMERIC = tuple(each for each in SIMPLE if t.is_numeric(each))


def _name(sql_type: SqlType, number: int) -> str:
    return "".join(c for c in str(sql_type).title() if c.isalnum()) + "_" + "ABC"[number]


COLUMNS: Mapping[str, SqlType] = {_name(each, n): each for each in TYPES for n in range(3 if each in SIMPLE else 2)}

UNSTABLE = frozenset({"RANDOM", "UNIX_DATE", "UNIX_TIMESTAMP", "UUID"})
"""Functions that give another value at every call."""

_TRIES = 5
"""So often a call is tried with types that the arguments of a function may not have."""

UNITS = ("MILLISECONDS", "SECONDS", "MINUTES", "HOURS", "DAYS")

_SHAPES: Mapping[str, int] = {
    "call": 60,
    "arithmetic": 10,
    "comparison": 8,
    "cast": 12,
    "between": 2,
    "in_list": 3,
    "like": 3,
    "case": 3,
    "is_null": 1,
    "logical": 2,
    "constructor": 3,
    "subscript": 2,
    "dereference": 1,
    "negate": 2,
}


def instantiated(pattern: Pattern, chosen: Callable[[Generic | AnyType | AnyDecimal], SqlType]) -> SqlType:
    """Return the type of a pattern whose variables have the `chosen` types; lambdas and interval units have none."""
    match pattern:
        case Generic() | AnyType() | AnyDecimal():
            return chosen(pattern)
        case ArrayOf(item):
            return Array(instantiated(item, chosen))
        case MapOf(key, item):
            return Map(instantiated(key, chosen), instantiated(item, chosen))
        case StructOf(fields):
            return Struct(tuple(Field(name, instantiated(inner, chosen)) for name, inner in fields))
        case Interval() | LambdaOf():
            raise TypeError(f"{pattern} has no type")
        case _:
            return pattern


@cache
def overloads() -> Mapping[str, tuple[Overload, ...]]:
    """The overloads of scalar functions, by name."""
    every = ((name, FUNCTIONS.overloads[name]) for name in FUNCTIONS if name not in UNSTABLE)
    return {name: found for name, found in every if isinstance(found[0].function, Scalar)}


@cache
def _producers(sql_type: SqlType) -> tuple[tuple[str, Overload], ...]:
    return tuple(
        (name, overload)
        for name, found in overloads().items()
        for overload in found
        if overload.function.returns is None  # type: ignore[union-attr]
        and not isinstance(overload.signature.returns, Generic)
        and unify(overload.signature.returns, sql_type, Binding())
    )


class Generator:
    """Generates expressions over `COLUMNS`, the same for the same `rng`."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self._fresh = 0

    def bounds(self, count: int, depth: int = 3) -> Iterator[Bound]:
        """Yield `count` different typed expressions."""
        seen = set()
        while len(seen) < count:
            try:
                bound = bind(self.root(self.rng.randint(1, depth)), COLUMNS)
            except EngineError:
                continue
            if bound.type is not None and fits(bound) and (text := repr(bound.node)) not in seen:
                seen.add(text)
                yield bound

    def each_overload(self) -> Iterator[Bound]:
        """Yield a call of every overload whose arguments are columns and constants."""
        for name, found in overloads().items():
            for overload in found:
                yield next(bound for bound in self._calls(name, overload) if bound is not None and fits(bound))

    def each_overload_with_nulls(self) -> Iterator[Bound]:
        """Yield calls of every overload with NULL in place of one argument."""
        for bound in self.each_overload():
            arguments = bound.node.arguments if isinstance(bound.node, e.FunctionCall) else ()
            for at, argument in enumerate(arguments):
                if not isinstance(argument, e.Lambda | e.IntervalUnit):
                    given = (*arguments[:at], e.NullLiteral(), *arguments[at + 1 :])
                    with suppress(EngineError):
                        yield bind(replace(bound.node, arguments=given), COLUMNS)

    def each_type(self) -> Iterator[Bound]:
        """Yield a call of every overload with variables for each type that those may have."""
        for name, found in overloads().items():
            for overload in found:
                variables = {v for p in overload.signature.parameters for v in generics_of(p.pattern)} - {"K"}
                for one in TYPES if variables else ():
                    for _ in range(_TRIES):
                        with suppress(EngineError):
                            binding = Binding(types=dict.fromkeys(variables, one))
                            bound = bind(self.call(name, overload, binding, 0, {}), COLUMNS)
                            if fits(bound):
                                yield bound
                                break

    def each_operator(self) -> Iterator[Bound]:
        """Yield every operator over columns of every pair of types that it takes, and every cast."""
        for left, right in product(OPERANDS, repeat=2):
            for operator in (*e.ArithmeticOp, self.rng.choice(list(e.ComparisonOp))):
                kind = e.Arithmetic if isinstance(operator, e.ArithmeticOp) else e.Comparison
                yield bind(kind(operator, self._column(left), self._column(right)), COLUMNS)  # type: ignore[arg-type]
        for one in TYPES:
            yield bind(e.Comparison(e.ComparisonOp.EQUAL, self._column(one), self._column(one)), COLUMNS)
            for other in SIMPLE:
                if can_cast(one, other):
                    yield bind(e.Cast(self._column(one), other), COLUMNS)

    def _column(self, sql_type: SqlType) -> e.ColumnRef:
        return e.ColumnRef(self.rng.choice([name for name, of in COLUMNS.items() if of == sql_type]))

    def _calls(self, name: str, overload: Overload) -> Iterator[Bound | None]:
        while True:
            try:
                yield bind(self.call(name, overload, Binding(), 0, {}), COLUMNS)
            except EngineError:
                yield None

    def root(self, depth: int) -> e.Expression:
        shape = self.rng.choices(list(_SHAPES), list(_SHAPES.values()))[0]
        if shape == "call":
            name = self.rng.choice(list(overloads()))
            return self.call(name, self.rng.choice(overloads()[name]), Binding(), depth, {})
        return getattr(self, f"_{shape}")(depth, {})  # type: ignore[no-any-return]

    def of(self, sql_type: SqlType, depth: int, scope: Mapping[str, SqlType]) -> e.Expression:
        """Return an expression of the type; `scope` has the variables of lambdas around it."""
        rng = self.rng
        near = [name for name, of in scope.items() if of == sql_type]
        if near and rng.random() < 0.5:
            return e.LambdaVariable(rng.choice(near))
        if depth > 0 and rng.random() < 0.5:
            return self._computed(sql_type, depth - 1, scope)
        columns = [name for name, of in COLUMNS.items() if of == sql_type]
        if columns and rng.random() < 0.75:
            return e.ColumnRef(rng.choice(columns))
        if isinstance(sql_type, Array) and not columns:
            return e.ArrayConstructor(tuple(self.of(sql_type.item, 0, scope) for _ in range(rng.randint(1, 3))))
        return constant(value(rng, sql_type, 0.05), sql_type)

    def _computed(self, sql_type: SqlType, depth: int, scope: Mapping[str, SqlType]) -> e.Expression:
        rng = self.rng
        kind = rng.randrange(10)
        if kind < 6 and _producers(sql_type):
            name, overload = rng.choice(_producers(sql_type))
            binding = Binding()
            unify(overload.signature.returns, sql_type, binding)
            return self.call(name, overload, binding, depth, scope)
        if kind == 6:
            when = e.When(self.of(t.BOOLEAN, depth, scope), self.of(sql_type, depth, scope))
            return e.Case((when,), self.of(sql_type, depth, scope) if rng.random() < 0.8 else None)
        if kind == 7:
            sources = [each for each in TYPES if can_cast(each, sql_type)]
            return (
                e.Cast(self.of(rng.choice(sources), depth, scope), sql_type) if sources else self.of(sql_type, 0, scope)
            )
        if kind == 8:
            return e.FunctionCall("COALESCE", (self.of(sql_type, depth, scope), self.of(sql_type, depth, scope)))
        return self._operator(sql_type, depth, scope)

    def _operator(self, sql_type: SqlType, depth: int, scope: Mapping[str, SqlType]) -> e.Expression:
        rng = self.rng
        if sql_type == t.BOOLEAN:
            return getattr(self, rng.choice(["_comparison", "_logical", "_between", "_in_list", "_like", "_is_null"]))(
                depth, scope
            )  # type: ignore[no-any-return]
        if t.is_numeric(sql_type) and not isinstance(sql_type, Decimal):
            return e.Arithmetic(
                rng.choice(list(e.ArithmeticOp)), self.of(sql_type, depth, scope), self.of(sql_type, depth, scope)
            )
        if sql_type == t.STRING:
            return e.Arithmetic(e.ArithmeticOp.ADD, self.of(sql_type, depth, scope), self.of(sql_type, depth, scope))
        if Array(sql_type) in TYPES:
            return e.Subscript(self.of(Array(sql_type), depth, scope), self.of(t.INTEGER, 0, scope))
        return self.of(sql_type, 0, scope)

    def call(
        self, name: str, overload: Overload, binding: Binding, depth: int, scope: Mapping[str, SqlType]
    ) -> e.Expression:
        """Return a call of the overload whose result has the types of `binding`."""
        signature = overload.signature
        for variable in sorted({v for p in signature.parameters for v in generics_of(p.pattern)}):
            binding.types.setdefault(variable, t.STRING if variable == "K" else self.rng.choice(TYPES))
        arguments: list[e.Expression] = []
        for parameter in signature.parameters:
            for _ in range(self.rng.choice((0, 1, 2, 2, 3)) if parameter.variadic else 1):
                arguments.append(self._argument(parameter, binding, depth, scope))  # noqa: PERF401
        return e.FunctionCall(name, tuple(arguments))

    def _argument(
        self, parameter: Parameter, binding: Binding, depth: int, scope: Mapping[str, SqlType]
    ) -> e.Expression:
        match parameter.pattern:
            case Interval():
                return e.IntervalUnit(self.rng.choice(UNITS))
            case LambdaOf(given, result):
                self._fresh += 1
                names = tuple(f"{'xyz'[at]}{self._fresh}" for at in range(len(given)))
                types = (self._concrete(each, binding) for each in given)
                inner = {**scope, **dict(zip(names, types, strict=True))}
                return e.Lambda(names, self.of(self._concrete(result, binding), min(depth, 1), inner))
        wanted = self._concrete(parameter.pattern, binding)
        pool = (
            next((texts for key, texts in BY_NAME.items() if key in parameter.name), None)
            if wanted == t.STRING
            else None
        )
        if pool is not None and self.rng.random() < 0.7:
            return e.StringLiteral(self.rng.choice(pool))
        if self.rng.random() < 0.02:
            return e.NullLiteral()
        return self.of(wanted, depth, scope)

    def _concrete(self, pattern: Pattern, binding: Binding) -> SqlType:
        def chosen(variable: Generic | AnyType | AnyDecimal) -> SqlType:
            match variable:
                case Generic(name):
                    return binding.types[name]
                case AnyDecimal(precision, scale) if precision in binding.sizes:
                    return Decimal(binding.sizes[precision], binding.sizes[scale])
            return self.rng.choice(DECIMALS if isinstance(variable, AnyDecimal) else TYPES)

        return instantiated(pattern, chosen)

    def _arithmetic(self, depth: int, scope: Mapping[str, SqlType]) -> e.Expression:
        left, right = (self.of(self.rng.choice(NUMERIC), depth - 1, scope) for _ in range(2))
        return e.Arithmetic(self.rng.choice(list(e.ArithmeticOp)), left, right)

    def _pair(self) -> tuple[SqlType, SqlType]:
        """Two types that compare, mostly."""
        if self.rng.random() < 0.4:
            return self.rng.choice(NUMERIC), self.rng.choice(NUMERIC)
        one = self.rng.choice(TYPES)
        return one, t.STRING if one in (t.DATE, t.TIME, t.TIMESTAMP) and self.rng.random() < 0.3 else one

    def _comparison(self, depth: int, scope: Mapping[str, SqlType]) -> e.Expression:
        left, right = (self.of(each, depth - 1, scope) for each in self._pair())
        return e.Comparison(self.rng.choice(list(e.ComparisonOp)), left, right)

    def _between(self, depth: int, scope: Mapping[str, SqlType]) -> e.Expression:
        one, other = self._pair()
        return e.Between(*(self.of(each, depth - 1, scope) for each in (one, other, other)))

    def _in_list(self, depth: int, scope: Mapping[str, SqlType]) -> e.Expression:
        one, other = self._pair()
        items = tuple(self.of(self.rng.choice((one, other)), 0, scope) for _ in range(self.rng.randint(1, 4)))
        return e.InList(self.of(one, depth - 1, scope), items)

    def _like(self, depth: int, scope: Mapping[str, SqlType]) -> e.Expression:
        escape = self.rng.choice([None, None, None, "\\", "!", "a", "%"])
        return e.Like(self.of(t.STRING, depth - 1, scope), self.of(t.STRING, 0, scope), escape)

    def _case(self, depth: int, scope: Mapping[str, SqlType]) -> e.Expression:
        result = self.rng.choice(TYPES)
        whens = [
            e.When(self.of(t.BOOLEAN, depth - 1, scope), self.of(result, depth - 1, scope))
            for _ in range(self.rng.randint(1, 3))
        ]
        return e.Case(tuple(whens), self.of(result, depth - 1, scope) if self.rng.random() < 0.7 else None)

    def _cast(self, depth: int, scope: Mapping[str, SqlType]) -> e.Expression:
        source = self.rng.choice(TYPES)
        targets = [
            each for each in (*TYPES, Decimal(5, 1), Array(t.BIGINT), Map(t.STRING, t.BIGINT)) if can_cast(source, each)
        ]
        return e.Cast(self.of(source, depth - 1, scope), self.rng.choice(targets))

    def _is_null(self, depth: int, scope: Mapping[str, SqlType]) -> e.Expression:
        return self.rng.choice([e.IsNull, e.IsNotNull])(self.of(self.rng.choice(TYPES), depth - 1, scope))

    def _logical(self, depth: int, scope: Mapping[str, SqlType]) -> e.Expression:
        left, right = self.of(t.BOOLEAN, depth - 1, scope), self.of(t.BOOLEAN, depth - 1, scope)
        return e.Not(left) if self.rng.random() < 0.3 else e.Logical(self.rng.choice(list(e.LogicalOp)), left, right)

    def _constructor(self, depth: int, scope: Mapping[str, SqlType]) -> e.Expression:
        one = self.rng.choice(SIMPLE)
        items = [self.of(one, depth - 1, scope) for _ in range(self.rng.randint(1, 3))]
        match self.rng.randrange(3):
            case 0:
                return e.ArrayConstructor(tuple(items))
            case 1:
                return e.MapConstructor(tuple((self.of(t.STRING, depth - 1, scope), item) for item in items))
        return e.StructConstructor(tuple(zip("ABC", items, strict=False)))

    def _subscript(self, depth: int, scope: Mapping[str, SqlType]) -> e.Expression:
        of = self.rng.choice([each for each in TYPES if isinstance(each, Array | Map)])
        index = self.of(of.key if isinstance(of, Map) else t.INTEGER, depth - 1, scope)
        return e.Subscript(self.of(of, depth - 1, scope), index)

    def _dereference(self, depth: int, scope: Mapping[str, SqlType]) -> e.Expression:
        return e.Dereference(self.of(STRUCT, depth - 1, scope), self.rng.choice("AB"))

    def _negate(self, depth: int, scope: Mapping[str, SqlType]) -> e.Expression:
        return self.rng.choice([e.Negate, e.Negate, e.UnaryPlus])(self.of(self.rng.choice(NUMERIC), depth - 1, scope))


def fits(bound: Bound) -> bool:
    """Whether no part needs a DECIMAL of more digits than any column has, whose results take seconds."""
    return (bound.type is None or _is_fast(bound.type)) and all(map(fits, bound.children))


def _is_fast(sql_type: SqlType) -> bool:
    match sql_type:
        case Decimal(precision, scale):
            return precision <= 200 and scale <= precision
        case Array(item) | Map(_, item):
            return _is_fast(item)
        case Struct(fields):
            return all(_is_fast(field.type) for field in fields)
        case _:
            return True
