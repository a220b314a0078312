"""Compiles CAST between SQL types (rules L4.6).

Each function takes a Spark tree that does not fail and returns `Checked`, with `fails` true where ksqlDB throws. A NULL
operand gives NULL and never fails. Some casts run in Python (`python_only.runs_by_row`).
"""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal as Number
from itertools import count
from math import inf

from sqlglot import exp

from kestrel_sql.errors import TypeMismatchError
from kestrel_sql.functions.declaration import Checked
from kestrel_sql.functions.library.spark_sql.expressions import let
from kestrel_sql.java import base64_text
from kestrel_sql.spark.compile import sql as s
from kestrel_sql.spark.compile import time_casts
from kestrel_sql.spark.compile.sql import Tree
from kestrel_sql.spark.compile.time_casts import matched, null_means_failure, trim, whole
from kestrel_sql.types import sql_types as t
from kestrel_sql.types.sql_types import Array, Base, Decimal, Map, Primitive, SqlType, Struct

_PLAIN_SCALE = 6
_LEAST_PLAIN = Number("0.000001")
_LEAST = Decimal(7, 6)
_names = count()


def cast_checked(value: Tree, source: SqlType | None, target: SqlType) -> Checked:
    """Convert `value` of type `source` (None: an untyped NULL) to `target`.

    Raises:
        TypeMismatchError: the language does not allow this cast.
    """
    if source is None:
        return Checked(s.null_of(target))
    if source == target:
        return Checked(value)
    if not _is_cheap(value) and _is_used_twice(source, target):
        return _once(value, source, target)
    match source, target:
        case Primitive(a), Primitive(b) if (a, b) in _PRIMITIVE:
            return _PRIMITIVE[a, b](value)
        case Primitive(Base.INTEGER | Base.BIGINT) | Decimal(), Decimal():
            return null_means_failure(value, s.cast(value, target))
        case Primitive(Base.STRING), Decimal():
            return null_means_failure(value, s.cast(trim(value), target))
        case Decimal(), Primitive(Base.INTEGER | Base.BIGINT | Base.DOUBLE):
            return Checked(s.cast(value, target))
        case Decimal(_, scale), Primitive(Base.STRING):
            return Checked(decimal_text(value, scale))
        case _:
            return _composite(value, source, target)


def _is_cheap(value: Tree) -> bool:
    """Whether a tree is cheap to evaluate twice."""
    while isinstance(value, exp.Dot) and isinstance(value.this, exp.Expression):
        value = value.this
    return isinstance(value, exp.Column | exp.Identifier | exp.Literal)


def _is_used_twice(source: SqlType, target: SqlType) -> bool:
    """Whether the SQL of a cast contains its operand more than once, so that nested casts would grow exponentially."""
    match source, target:
        case Decimal(_, scale), Primitive(Base.STRING):
            return scale > _PLAIN_SCALE
        case Primitive(Base.STRING), Primitive(Base.TIMESTAMP | Base.DATE | Base.TIME):
            return True
        case Primitive(Base.TIMESTAMP), Primitive(Base.DATE | Base.STRING):
            return True
        case Primitive(Base.TIME), Primitive(Base.STRING):
            return True
        case (Map(), Map()) | (Struct(), _):
            return True
        case _:
            return False


def _once(value: Tree, source: SqlType, target: SqlType) -> Checked:
    converted = let([value], lambda operand: cast_checked(operand, source, target).value)
    probe = cast_checked(exp.to_identifier("operand"), source, target)
    if probe.fails is None:
        return Checked(converted)
    if probe.null_on_failure:
        return null_means_failure(value, converted)
    return Checked(converted, let([value], lambda operand: cast_checked(operand, source, target).fails or s.FALSE))


def _composite(value: Tree, source: SqlType, target: SqlType) -> Checked:
    match source, target:
        case Array(a_item), Array(b_item):
            return _array(value, a_item, b_item)
        case Map(), Map():
            return _map(value, source, target)
        case Struct(), Struct():
            return _struct(value, source, target)
        case _:
            raise TypeMismatchError(f"Cast of {source} to {target} is not supported")


def decimal_text(value: Tree, scale: int) -> Tree:
    """A DECIMAL as a string in plain notation, where Spark writes an exponent below 1E-6."""
    if scale <= _PLAIN_SCALE:
        return s.cast(value, t.STRING)
    # Spark writes an exponent only below 1E-6, where few digits are left.
    small = s.cast(value, Decimal(scale, scale))
    positive = s.binary(exp.GTE, value, s.decimal(_LEAST_PLAIN, _LEAST))
    usual = exp.Paren(this=exp.or_(positive, s.binary(exp.LTE, value, s.decimal(-_LEAST_PLAIN, _LEAST)), copy=False))
    return s.if_(usual, s.cast(value, t.STRING), _small_text(small, scale))


def _small_text(value: Tree, scale: int) -> Tree:
    whole = s.call("floor", s.call("abs", value))
    fraction = s.cast(s.binary(exp.Sub, s.call("abs", value), whole), Decimal(scale, scale))
    shifted = s.binary(exp.Mul, fraction, s.cast(s.text("1" + "0" * scale), Decimal(scale + 1, 0)))
    exact = s.call("lpad", s.cast(s.cast(shifted, Decimal(scale, 0)), t.STRING), s.integer(scale), s.text("0"))
    sign = s.if_(s.binary(exp.LT, value, s.integer(0)), s.text("-"), s.text(""))
    return s.call("concat", sign, s.cast(whole, t.STRING), s.text("."), exact)


def _fresh() -> str:
    return f"e{next(_names)}"


def _field(value: Tree, field: str) -> Tree:
    return exp.Dot(this=value, expression=exp.to_identifier(field, quoted=True))


def _plain(target: SqlType) -> Callable[[Tree], Checked]:
    return lambda value: Checked(s.cast(value, target))


def _string_to_integer(target: SqlType) -> Callable[[Tree], Checked]:
    # A string that does not match becomes the empty string, no number. Spark reads all scripts in a DECIMAL only.
    def converted(value: Tree) -> Checked:
        number = s.cast(matched(value, r"[+-]?[\p{Nd}&&[\x{0}-\x{FFFF}]]+"), Decimal(38, 0))
        return null_means_failure(value, s.cast(s.cast(number, t.STRING), target))

    return converted


def _string_to_double(value: Tree) -> Checked:
    # Excludes NaN and infinities; no other number contains these letters. Spark trims as Java does.
    plain = s.call("regexp_extract", value, s.text(whole("[^nNiI]*")), s.integer(0))
    real = s.call("nullif", s.call("nullif", s.cast(plain, t.DOUBLE), s.double(inf)), s.double(-inf))
    return null_means_failure(value, real)


def _string_to_boolean(value: Tree) -> Checked:
    trimmed = s.call("lower", trim(value))
    return Checked(s.call("rlike", trimmed, s.text("^(t|tr|tru|true|y|ye|yes)$")))


def _string_to_bytes(value: Tree) -> Checked:
    # Spark passes over characters that Base64 does not have.
    return null_means_failure(value, s.call("try_to_binary", let([trim(value)], _strict), s.text("base64")))


def _strict(text: Tree) -> Tree:
    return s.if_(s.call("rlike", text, s.text(whole(base64_text.PATTERN))), text, s.null_of(t.STRING))


def _array(value: Tree, source: SqlType, target: SqlType) -> Checked:
    x = _fresh()
    item = cast_checked(exp.to_identifier(x), source, target)
    fails = None
    if item.fails is not None:
        y = _fresh()
        again = cast_checked(exp.to_identifier(y), source, target)
        fails = s.coalesce_false(s.call("exists", value, s.lambda_([y], again.fails or s.FALSE)))
    return Checked(s.call("transform", value, s.lambda_([x], item.value)), fails)


def _map(value: Tree, source: Map, target: Map) -> Checked:
    keys = _array(s.call("map_keys", value), source.key, target.key)
    values = _array(s.call("map_values", value), source.value, target.value)
    return Checked(s.call("map_from_arrays", keys.value, values.value), s.any_of([keys.fails, values.fails]))


def _struct(value: Tree, source: Struct, target: Struct) -> Checked:
    parts: list[tuple[str, Tree]] = []
    failures: list[Tree | None] = []
    for field in target.fields:
        given = source.field(field.name)
        converted = cast_checked(_field(value, field.name), given.type if given else None, field.type)
        parts.append((field.name, converted.value))
        failures.append(converted.fails)
    return Checked(s.if_(s.is_null(value), s.null_of(target), s.named_struct(parts)), s.any_of(failures))


_PRIMITIVE: dict[tuple[Base, Base], Callable[[Tree], Checked]] = {
    (Base.BOOLEAN, Base.STRING): _plain(t.STRING),
    (Base.INTEGER, Base.BIGINT): _plain(t.BIGINT),
    (Base.INTEGER, Base.DOUBLE): _plain(t.DOUBLE),
    (Base.INTEGER, Base.STRING): _plain(t.STRING),
    (Base.BIGINT, Base.INTEGER): _plain(t.INTEGER),
    (Base.BIGINT, Base.DOUBLE): _plain(t.DOUBLE),
    (Base.BIGINT, Base.STRING): _plain(t.STRING),
    (Base.DOUBLE, Base.INTEGER): _plain(t.INTEGER),
    (Base.DOUBLE, Base.BIGINT): _plain(t.BIGINT),
    (Base.DOUBLE, Base.STRING): _plain(t.STRING),
    (Base.STRING, Base.BOOLEAN): _string_to_boolean,
    (Base.STRING, Base.INTEGER): _string_to_integer(t.INTEGER),
    (Base.STRING, Base.BIGINT): _string_to_integer(t.BIGINT),
    (Base.STRING, Base.DOUBLE): _string_to_double,
    (Base.STRING, Base.BYTES): _string_to_bytes,
    (Base.STRING, Base.TIMESTAMP): time_casts.string_to_timestamp,
    (Base.STRING, Base.DATE): time_casts.string_to_date,
    (Base.STRING, Base.TIME): time_casts.string_to_time,
    (Base.TIMESTAMP, Base.STRING): time_casts.timestamp_to_string,
    (Base.TIMESTAMP, Base.DATE): time_casts.timestamp_to_date,
    (Base.TIMESTAMP, Base.TIME): time_casts.timestamp_to_time,
    (Base.DATE, Base.STRING): time_casts.date_to_string,
    (Base.DATE, Base.TIMESTAMP): time_casts.date_to_timestamp,
    (Base.TIME, Base.STRING): time_casts.time_to_string,
}
