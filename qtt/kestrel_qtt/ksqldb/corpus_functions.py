"""Functions that ksqlDB's test corpus expects and no release contains (rules Q11).

Only cases of that corpus name this module and `test_aggregates`: see `kestrel_qtt.load`.
"""

from __future__ import annotations

from decimal import Decimal
from itertools import count

from kestrel_sql.functions.declaration import CallTypes, Nulls, scalar, tabular
from kestrel_sql.java.numbers import java_double
from kestrel_sql.types.sql_types import Decimal as DecimalType
from kestrel_sql.types.sql_types import SqlType

_A = "STRUCT<A STRING>"


@scalar("(value INT NOT NULL) -> STRING", name="BAD_UDF")
def _bad_udf_int(value: int) -> str:
    """Always fail."""
    raise ValueError("boom!")


@scalar("(value BOOLEAN NOT NULL) -> INT", name="BAD_UDF")
def _bad_udf_boolean(value: bool) -> int:
    """Fail for true."""
    if value:
        raise ValueError("You asked me to throw...")
    return 0


_calls = count()


@scalar("(value STRING) -> STRING", name="BAD_UDF", nulls=Nulls.BODY)
def _bad_udf_string(value: str | None) -> str | None:
    """Return NULL at each first, third, … call."""
    return None if next(_calls) % 2 == 0 else value


@scalar("(a INT, b STRING) -> STRING", name="TEST_UDF", nulls=Nulls.BODY)
def _test_udf_int_string(a: int, b: str) -> str:
    """Name the overload."""
    return "doStuffIntString"


@scalar("(a BIGINT, b STRING) -> STRING", name="TEST_UDF", nulls=Nulls.BODY)
def _test_udf_long_string(a: int, b: str) -> str:
    """Name the overload."""
    return "doStuffLongString"


@scalar("(a BIGINT, b BIGINT, c STRING) -> STRING", name="TEST_UDF", nulls=Nulls.BODY)
def _test_udf_long_long_string(a: int, b: int, c: str) -> str:
    """Name the overload."""
    return "doStuffLongLongString"


@scalar("(values BIGINT...) -> STRING", name="TEST_UDF", nulls=Nulls.BODY)
def _test_udf_longs(*values: int) -> str:
    """Name the overload."""
    return "doStuffLongVarargs"


@scalar(f"(value {_A}) -> STRING", name="TEST_UDF")
def _test_udf_struct(value: dict[str, object]) -> object:
    """Return field A."""
    return value["A"]


@scalar(f"() -> {_A}", name="TEST_UDF")
def _test_udf_empty() -> dict[str, str]:
    """Return a struct."""
    return {"A": "foo"}


@scalar(f"(value STRING) -> {_A}", name="TOSTRUCT", nulls=Nulls.BODY)
def _to_struct(value: str | None) -> dict[str, str | None]:
    """Wrap a string in a struct."""
    return {"A": value}


@scalar("(result BOOLEAN NOT NULL, evaluated BOOLEAN NOT NULL) -> BOOLEAN", name="WHENCONDITION")
def _when_condition(result: bool, evaluated: bool) -> bool:
    """Fail if it should not have been evaluated."""
    if not evaluated:
        raise ValueError("When condition in case is not running lazily!")
    return result


@scalar("(result INT NOT NULL, evaluated BOOLEAN NOT NULL) -> INT", name="WHENRESULT")
def _when_result(result: int, evaluated: bool) -> int:
    """Fail if it should not have been evaluated."""
    if not evaluated:
        raise ValueError("When result in case is not running lazily!")
    return result


def _java(value: object) -> str:
    match value:
        case bool():
            return str(value).lower()
        case float():
            return java_double(value)
        case Decimal():
            return f"{value:f}"
        case dict():
            return "Struct{" + ",".join(f"{k}={_java(v)}" for k, v in value.items()) + "}"
        case _:
            return str(value)


_SEVEN = ("INT", "BIGINT", "DOUBLE", "BOOLEAN", "STRING", "DECIMAL(p,s)", _A)


def _listed(pattern: str) -> str:
    return ", ".join(f"a{i} {pattern.format(x)}" for i, x in enumerate(_SEVEN))


@tabular(f"({_listed('{}')}) -> STRING", name="TEST_UDTF")
def _test_udtf_values(*values: object) -> list[str]:
    """Return the arguments as strings."""
    return [_java(value) for value in values]


@tabular(f"({_listed('ARRAY<{}>')}) -> STRING", name="TEST_UDTF")
def _test_udtf_lists(*values: list[object]) -> list[str]:
    """Return the first items as strings."""
    return [_java(value[0]) for value in values]


_FIRST_MAP = _listed("MAP<STRING, {}>")


@tabular(
    f"({_FIRST_MAP}) -> STRING",
    f"({_FIRST_MAP.replace('STRING, INT', 'BIGINT, INT')}) -> STRING",
    name="TEST_UDTF",
)
def _test_udtf_maps(*values: dict[object, object]) -> list[str]:
    """Return the first values as strings."""
    return [_java(next(iter(value.values()))) for value in values]


def _thirty_ten(arguments: tuple[SqlType | None, ...]) -> SqlType:
    return DecimalType(30, 10)


_PRIMITIVES = tuple(f"(value {x} NOT NULL) -> {x}" for x in ("INT", "BIGINT", "DOUBLE", "BOOLEAN"))


@tabular(*_PRIMITIVES, "(value STRING) -> STRING", f"(value {_A}) -> {_A}", name="TEST_UDTF")
def _test_udtf_echo(value: object) -> list[object]:
    """Return the argument."""
    return [value]


@tabular("(value DECIMAL(p,s)) -> DECIMAL(30, 10)", name="TEST_UDTF", with_types=True, returns=_thirty_ten)
def _test_udtf_decimal(types: CallTypes, value: Decimal) -> list[Decimal]:
    """Return the argument."""
    return [value]


@tabular("(value BOOLEAN NOT NULL) -> BOOLEAN", name="THROWING_UDTF")
def _throwing_udtf(value: bool) -> list[bool]:
    """Fail for true."""
    if value:
        raise ValueError("You asked me to throw...")
    return [value]
