"""Runs every overload of every scalar function over columns of all accepted types, with and without NULL.

The result must be what `overloads.txt` stores. To update that file, run
`python -m tests.engine.functions.test_every_overload` and review the difference.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from decimal import Decimal as Number
from pathlib import Path
from typing import Any

from kestrel_sql.functions.declaration import Scalar
from kestrel_sql.functions.resolve import Overload
from kestrel_sql.functions.signature import (
    AnyDecimal,
    AnyType,
    ArrayOf,
    Generic,
    Interval,
    LambdaOf,
    MapOf,
    Pattern,
)
from kestrel_sql.functions.table import FUNCTIONS
from kestrel_sql.types import sql_types as t
from kestrel_sql.types.sql_types import Array, Decimal, Map, SqlType, Struct
from tests.engine.functions.values import Outcome, outcomes
from tests.fuzz.generator import PRIMITIVES, STRUCT, UNSTABLE, instantiated

_DECIMAL = Decimal(6, 2)
_GENERICS: tuple[SqlType, ...] = (*PRIMITIVES, _DECIMAL, Array(t.STRING), Map(t.STRING, t.INTEGER), STRUCT)
_LAMBDAS = {
    "BOOLEAN": "{last} IS NOT NULL",
    "R": "{first}",
    "T": "{last}",
    "S": "{first}",
}


def concrete(pattern: Pattern, generic: SqlType) -> SqlType:
    """Return the type of a pattern with `generic` for its variables, except for keys of maps."""

    def chosen(variable: Generic | AnyType | AnyDecimal) -> SqlType:
        match variable:
            case AnyDecimal():
                return _DECIMAL
            case Generic("K"):
                return t.STRING
        return generic

    return instantiated(pattern, chosen)


def _is_variable(pattern: object) -> bool:
    match pattern:
        case Generic() | AnyType():
            return True
        case ArrayOf(item):
            return _is_variable(item)
        case MapOf(key, value):
            return _is_variable(key) or _is_variable(value)
        case _:
            return False


def arguments_of(overload: Overload) -> Iterator[tuple[list[str], dict[str, SqlType]]]:
    """Yield SQL arguments for an overload, and the types of the columns among them."""
    for generic in _GENERICS if any(_is_variable(p.pattern) for p in overload.signature.parameters) else (t.STRING,):
        arguments, columns = [], {}
        parameters = [p for p in overload.signature.parameters for _ in range(2 if p.variadic else 1)]
        for number, parameter in enumerate(parameters):
            match parameter.pattern:
                case Interval():
                    arguments.append("HOURS")
                case LambdaOf(given, result):
                    names = [f"x{i}" for i in range(len(given))]
                    body = _LAMBDAS[str(result)].format(first=names[0], last=names[-1])
                    arguments.append(f"({', '.join(names)}) => {body}")
                case pattern:
                    sql_type = concrete(pattern, generic)
                    column = f"C{number}_{columns_name(sql_type)}"
                    columns[column] = sql_type
                    arguments.append(column)
        yield arguments, columns


def columns_name(sql_type: SqlType) -> str:
    """Return a column name that identifies the type."""
    return "".join(c if c.isalnum() else "_" for c in str(sql_type))


def value_of(sql_type: SqlType) -> Any:
    """Return a value of the type."""
    match sql_type:
        case Array(item):
            return [value_of(item), None]
        case Map(key, item):
            return {value_of(key): value_of(item)}
        case Struct(fields):
            return {f.name: value_of(f.type) for f in fields}
        case Decimal(_, scale):
            return Number(2).quantize(Number(1).scaleb(-scale))
        case t.DOUBLE:
            return 2.0
        case _:
            return {t.BOOLEAN: True, t.STRING: "1a", t.BYTES: bytes(range(1, 9))}.get(sql_type, 2)


CALLS = [
    (name, *given)
    for name in FUNCTIONS
    for overload in FUNCTIONS.overloads[name]
    if isinstance(overload.function, Scalar)
    for given in arguments_of(overload)
]


COLUMNS = dict(itertools.chain.from_iterable(given.items() for _, _, given in CALLS))
STORED = Path(__file__).with_name("overloads.txt")

ROWS = [dict.fromkeys(COLUMNS), {name: value_of(sql_type) for name, sql_type in COLUMNS.items()}]


def test_every_overload_gives_what_it_gave() -> None:
    assert lines(found()) == STORED.read_text(encoding="utf-8").splitlines()


def found() -> dict[str, list[Outcome]]:
    """What each call gives over all columns NULL, and over the values."""
    calls = (f"{name}({', '.join(arguments)})" for name, arguments, _ in CALLS)
    return {text: outcomes(text, COLUMNS, ROWS) for text in calls}


def name_of(call: str) -> str:
    return call.partition("(")[0]


def lines(given: Mapping[str, list[Outcome]]) -> list[str]:
    """A line for each call: what it gives over values, then over NULLs if that is something else than NULL."""
    made = []
    for call, results in sorted(given.items()):
        if name_of(call) not in UNSTABLE:
            (null, null_fails), (value, fails) = results
            over_null = "" if null is None and not null_fails else f"; over NULL {null!r}{' fails' * null_fails}"
            made.append(f"{call}: {value!r}{' fails' * fails}{over_null}")
    return made


if __name__ == "__main__":
    STORED.write_text("".join(f"{line}\n" for line in lines(found())), encoding="utf-8")
