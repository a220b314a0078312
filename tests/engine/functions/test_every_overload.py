"""Runs every overload of every scalar function in Spark over columns of all accepted types, with and without NULL."""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterator
from decimal import Decimal as Number

import pytest

from kestrel_sql.functions.bind.bind import bind
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
    StructOf,
)
from kestrel_sql.functions.table import FUNCTIONS
from kestrel_sql.spark.compile import sql as s
from kestrel_sql.spark.compile.context import Context, PythonCalls
from kestrel_sql.spark.compile.expressions import compile_closed
from kestrel_sql.spark.compile.python_functions import register
from kestrel_sql.spark.runtime.session import open_test_session
from kestrel_sql.spark.types import to_spark
from kestrel_sql.sql.parse.parser import parse_expression
from kestrel_sql.types import sql_types as t
from kestrel_sql.types.sql_types import Array, Decimal, Field, Map, SqlType, Struct

_STRUCT = Struct((Field("A", t.INTEGER), Field("B", t.STRING)))
_GENERICS: tuple[SqlType, ...] = (
    t.BOOLEAN,
    t.INTEGER,
    t.BIGINT,
    t.DOUBLE,
    Decimal(6, 2),
    t.STRING,
    t.BYTES,
    t.DATE,
    t.TIME,
    t.TIMESTAMP,
    Array(t.STRING),
    Map(t.STRING, t.INTEGER),
    _STRUCT,
)
_LAMBDAS = {
    "BOOLEAN": "{last} IS NOT NULL",
    "R": "{first}",
    "T": "{last}",
    "S": "{first}",
}


def concrete(pattern: Pattern, generic: SqlType) -> SqlType | None:
    """Return the type of a pattern with `generic` for its variables; None for a lambda or an interval unit."""
    match pattern:
        case Generic() | AnyType():
            return generic
        case AnyDecimal():
            return Decimal(6, 2)
        case ArrayOf(item):
            inner = concrete(item, generic)
            return None if inner is None else Array(inner)
        case MapOf(key, value):
            of_key = t.STRING if isinstance(key, Generic) else concrete(key, generic)
            inner = concrete(value, generic)
            return None if inner is None or of_key is None else Map(of_key, inner)
        case StructOf(fields):
            return Struct(tuple(Field(name, concrete(inner, generic) or t.STRING) for name, inner in fields))
        case Interval() | LambdaOf():
            return None
        case _:
            return pattern


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
                    assert sql_type is not None
                    column = f"C{number}_{columns_name(sql_type)}"
                    columns[column] = sql_type
                    arguments.append(column)
        yield arguments, columns


def columns_name(sql_type: SqlType) -> str:
    """Return a column name that identifies the type."""
    return "".join(c if c.isalnum() else "_" for c in str(sql_type))


def value_of(sql_type: SqlType) -> str:
    """Return a value of the type as Spark SQL."""
    match sql_type:
        case Array(item):
            return f"array({value_of(item)}, CAST(NULL AS {to_spark(item)}))"
        case Map(key, item):
            return f"map({value_of(key)}, {value_of(item)})"
        case Struct(fields):
            return "named_struct(" + ", ".join(f"'{f.name}', {value_of(f.type)}" for f in fields) + ")"
        case _:
            text = {t.BOOLEAN: "TRUE", t.STRING: "'1a'", t.BYTES: "X'0102030405060708'"}.get(sql_type, str(Number(2)))
            return f"CAST({text} AS {to_spark(sql_type)})"


def column(name: str, arguments: list[str], columns: Collection[str]) -> str:
    """Call the function with columns."""
    return f"{name}({', '.join(arguments)})"


def computed(name: str, arguments: list[str], columns: Collection[str]) -> str:
    """Call the function with computed values, which bodies must evaluate once."""
    return f"{name}({', '.join(f'IFNULL({a}, {a})' if a in columns else a for a in arguments)})"


def item(name: str, arguments: list[str], columns: Collection[str]) -> str:
    """Call the function in a lambda, where the interpreter must run Python functions."""
    if not columns or len(columns) < len(arguments):
        return column(name, arguments, columns)
    return f"TRANSFORM(ARRAY[{arguments[0]}], y => {name}({', '.join(['y', *arguments[1:]])}))"


CALLS = [
    (name, *given)
    for name in FUNCTIONS
    for overload in FUNCTIONS.overloads[name]
    if isinstance(overload.function, Scalar)
    for given in arguments_of(overload)
]


@pytest.mark.spark
@pytest.mark.parametrize("form", [column, computed, item])
def test_every_overload(form):
    spark = open_test_session()
    columns = dict(itertools.chain.from_iterable(given.items() for _, _, given in CALLS))
    python = PythonCalls()
    failed: dict[str, str] = {}
    trees: dict[str, str] = {}
    for text in dict.fromkeys(form(*call) for call in CALLS):
        try:
            bound = bind(parse_expression(text), columns)
            context = Context({name: s.column(name) for name in columns}, python, nested=True)
            closed = compile_closed(bound, context, text)
            faults = [s.coalesce_false(fault.condition) for fault in context.faults]
            trees[text] = s.to_text(s.call("struct", s.cast(closed, bound.type), *faults))
        except Exception as error:  # noqa: BLE001 - whatever it is, it is the finding
            failed[text] = f"{type(error).__name__}: {error}"
    register(spark, python)
    typed = ", ".join(f"CAST(NULL AS {to_spark(sql_type)}) AS `{name}`" for name, sql_type in columns.items())
    given = ", ".join(f"{value_of(sql_type)} AS `{name}`" for name, sql_type in columns.items())
    spark.sql(f"SELECT {typed} UNION ALL SELECT {given}").createOrReplaceTempView("every_type")
    pending = [list(trees)]
    while pending:
        texts = pending.pop()
        try:
            spark.sql(f"SELECT {', '.join(trees[text] for text in texts)} FROM every_type").toArrow()
        except Exception as error:  # noqa: BLE001 - what Spark says is the finding
            if len(texts) == 1:
                failed[texts[0]] = f"{type(error).__name__}: {str(error)[:300]}"
            else:
                pending += [texts[: len(texts) // 2], texts[len(texts) // 2 :]]
    assert failed == {}
