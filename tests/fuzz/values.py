"""Adversarial values of every SQL type, and the expressions that write them as constants."""

from __future__ import annotations

import decimal
import math
import random
from collections.abc import Mapping, Sequence
from typing import Any

from kestrel_sql.functions.values.equality import hash_map
from kestrel_sql.sql.nodes import expressions as e
from kestrel_sql.types import sql_types as t
from kestrel_sql.types.sql_types import Array, Decimal, Map, SqlType, Struct

_EXACT = decimal.Context(prec=100)

NUMBERS = [
    "0",
    "1",
    "-1",
    "2",
    "3",
    "-3",
    "5",
    "7",
    "10",
    "16",
    "31",
    "60",
    "64",
    "100",
    "255",
    "1000",
    "65535",
    "86400000",
]
TEXTS: Sequence[str] = [
    *(
        "",
        " ",
        "a",
        "A",
        "ab",
        "abc",
        "aXbXc",
        "Hello World",
        "a,b,,c",
        "a=1;b=2",
        "ä",
        "ß",
        "İ",
        "ǆ",
        "😀",
        "a😀b",
        "e\u0301",
    ),
    *(
        "\n",
        "a\nb",
        "\r\n",
        "\t",
        "\u0000",
        "\u00a0",
        "\u2028",
        "\x1f x",
        "%",
        "_",
        "a%",
        "%b_",
        "\\",
        "\\%",
        "'",
        '"',
        "$1",
    ),
    *(
        "0",
        "-0",
        "+1",
        "1",
        "12",
        " 7 ",
        "1.5",
        "-1.50",
        ".5",
        "5.",
        "1e3",
        "1E-7",
        "1e400",
        "0x1F",
        "1f",
        "NaN",
        "Infinity",
    ),
    *("2147483647", "2147483648", "-2147483648", "9223372036854775807", "9223372036854775808", "\u0661", "1_0", "٣.٤"),
    *("true", "TRUE", "yes", "t", "no", "false", "null", "NULL"),
    *(
        "2020-02-29",
        "2021-02-29",
        "2020-02-30",
        "0000-01-01",
        "-0001-01-01",
        "9999-12-31",
        "2020",
        "2020-1",
        "1969-12-31",
    ),
    *("2020-02-29T12:34:56.789", "2020-01-01T00:00:00.000Z", "1970-01-01T00:00:00+05:30", "2020-01-01 10:00"),
    *(
        "2021-05",
        "2021-05-18T24:00",
        "2021-05-18T24:00:00.001",
        " 2021-05-18T1 ",
        "2021-05-18T-0800",
        "2021-06-31T23:59",
    ),
    *("2021-05-18T01:02:03.4+18:00", "2021-05-18T01+18:01", "0000-02-29", "9999-99-99T99:99:99.999+99:99", "2021\n"),
    *("00:00", "24:00", "23:59:59", "12:34:56.789", "12:34:56.7891", "1:2:3"),
    *('{"a":1,"b":[1,2.50,null,"x"],"c":{"d":true}}', "[1,2,3]", '"x"', "{", '{"a":1,"a":2}', "[]", "{}", "[1e400]"),
    *(
        "https://user@example.com:8080/a/b%20c?q=1&r=a+b#frag",
        "http://[::1]/",
        "a b",
        "%zz",
        "?x",
        "file:///x",
        "//h/p",
    ),
    *("aGVsbG8=", "aGk", "====", "68656c6c6f", "X'61'", "zz", "[a-z]+", "(a)(b)?", "(", "a|b", "\\d+", "x" * 70),
]
_FORMATS = ("yyyy-MM-dd", "HH:mm:ss.SSS", "yyyy-MM-dd'T'HH:mm:ssX", "d/M/yy", "''", "EEE, d MMM yyyy", "[", "DDD", "Q")
_REGEXES = ("[a-z]+", "(a)(b)?", "\\d+", "a|b", "", "(", "x*", ".", "^a", "b$")
BY_NAME: Mapping[str, Sequence[str]] = {
    "encoding": ("hex", "utf8", "base64", "ascii", "HEX", "", "x"),
    "pattern": (*_FORMATS, *_REGEXES),
    "zone": ("UTC", "Europe/Berlin", "America/New_York", "+05:30", "Asia/Kolkata", "GMT+1", "x", ""),
    "json": TEXTS[TEXTS.index("24:00") + 5 :][:9],
    "path": ("$.a", "$.b[1]", "$.c.d", "$", "$.b[*]", "$..a", "a", "$['a']", "$.b[-1]", "$.x", "$["),
    "url": TEXTS[TEXTS.index("file:///x") - 5 :][:7],
    "order": ("ASC", "DESC", "asc", "x"),
    "direction": ("ASC", "DESC", "BIG_ENDIAN", "LITTLE_ENDIAN"),
    "unit": ("km", "miles", "MI", "kilometre", "x"),
}
"""Texts for the parameters whose names contain the key: others would mostly fail."""

FLOATS = [
    *(
        0.0,
        -0.0,
        1.0,
        -1.0,
        0.5,
        -0.5,
        1.5,
        2.5,
        -2.5,
        0.1,
        3.0,
        10.0,
        89.9,
        123456.789,
        1e-3,
        9.99e-4,
        1e7,
        9999999.999,
    ),
    *(5e-324, 2.2e-308, 1e-7, 1e16, 1e21, 1e22, 2.0**53, 2.0**63, -(2.0**63), 1.7976931348623157e308, -1e300, math.pi),
    *(math.inf, -math.inf, math.nan),
]
_DAY = 86_400_000
_DATES = [0, 1, -1, 59, 18_321, 19_000, -719_162, -719_528, 2_932_896, 100_000_000, 2**31 - 1, -(2**31)]
_INSTANTS = [
    0,
    1,
    -1,
    999,
    -_DAY,
    1_582_979_696_789,
    1_700_000_000_000,
    -62_135_596_800_000,
    253_402_300_799_999,
    10**15,
    2**63 - 1,
    -(2**63),
]


def value(rng: random.Random, sql_type: SqlType, nulls: float = 0.12) -> Any:
    """Return a random value of the type as Python has it, sometimes NULL."""
    if rng.random() < nulls:
        return None
    match sql_type:
        case Array(item):
            return [value(rng, item, 0.2) for _ in range(rng.choice((0, 1, 1, 2, 3, 4)))]
        case Map(key, item):
            return hash_map({value(rng, key, 0): value(rng, item, 0.2) for _ in range(rng.choice((0, 1, 2, 3)))})
        case Struct(fields):
            return {field.name: value(rng, field.type, 0.2) for field in fields}
        case Decimal(precision, scale):
            return _decimal(rng, precision, scale)
        case _:
            return _primitive(rng, sql_type)


def _decimal(rng: random.Random, precision: int, scale: int) -> decimal.Decimal:
    most = 10**precision - 1
    unit = 10**scale
    digits = rng.choice(
        [0, 1, unit, 5 * unit // 10, unit // 2 + 1, 3 * unit // 2, 2 * unit, most, rng.randint(0, most)]
    )
    digits = min(digits, most) * rng.choice((1, -1))
    return decimal.Decimal(digits).scaleb(-scale, _EXACT)


def _primitive(rng: random.Random, sql_type: SqlType) -> Any:
    if sql_type == t.BOOLEAN:
        return rng.random() < 0.5
    if sql_type in (t.INTEGER, t.BIGINT):
        bits = 31 if sql_type == t.INTEGER else 63
        edge = rng.choice([2**bits - 1, -(2**bits), rng.getrandbits(bits), -rng.getrandbits(rng.randint(1, bits))])
        return edge if rng.random() < 0.25 else int(rng.choice(NUMBERS))
    if sql_type == t.DOUBLE:
        return rng.choice(FLOATS) if rng.random() < 0.7 else rng.uniform(-1, 1) * 10 ** rng.randint(-4, 18)
    if sql_type == t.STRING:
        return rng.choice(TEXTS)
    if sql_type == t.BYTES:
        return rng.choice(
            [
                b"",
                b"a",
                b"\x00",
                b"\xff",
                b"\x80\x7f",
                rng.randbytes(4),
                rng.randbytes(8),
                rng.randbytes(16),
                "aä😀".encode(),
            ]
        )
    if sql_type == t.DATE:
        return rng.choice(_DATES) if rng.random() < 0.6 else rng.randint(-20_000, 40_000)
    if sql_type == t.TIME:
        return rng.choice([0, 1, 999, 1000, 60_000, _DAY - 1, _DAY // 2, rng.randrange(_DAY)])
    return rng.choice(_INSTANTS) if rng.random() < 0.6 else rng.randint(-(10**12), 3 * 10**12)


def constant(given: Any, sql_type: SqlType) -> e.Expression:
    """Write a value as an expression of exactly its type."""
    if given is None:
        return e.Cast(e.NullLiteral(), sql_type)
    match sql_type:
        case Array(item):
            found = e.ArrayConstructor(tuple(constant(each, item) for each in given or [None]))
            return found if given else _emptied(found, "x")
        case Map(key, item):
            pairs = given.items() if given else [(_any_key(key), None)]
            mapping = e.MapConstructor(tuple((constant(k, key), constant(v, item)) for k, v in pairs))
            return mapping if given else _emptied(mapping, "x", "y")
        case Struct(fields):
            return e.StructConstructor(tuple((f.name, constant(given[f.name], f.type)) for f in fields))
        case Decimal():
            return e.Cast(e.StringLiteral(f"{given:f}"), sql_type)
        case _:
            return _plain_constant(given, sql_type)


def _any_key(sql_type: SqlType) -> Any:
    return "k" if sql_type == t.STRING else 1


def _emptied(collection: e.Expression, *names: str) -> e.Expression:
    return e.FunctionCall("FILTER", (collection, e.Lambda(names, e.BooleanLiteral(False))))


def _plain_constant(given: Any, sql_type: SqlType) -> e.Expression:
    if sql_type == t.BOOLEAN:
        return e.BooleanLiteral(given)
    if sql_type == t.STRING:
        return e.StringLiteral(given)
    if sql_type == t.DOUBLE:
        return _double(given)
    if sql_type == t.BYTES:
        return e.FunctionCall("TO_BYTES", (e.StringLiteral(given.hex()), e.StringLiteral("hex")))
    if sql_type == t.DATE:
        return e.FunctionCall("FROM_DAYS", (_whole(given, t.INTEGER),))
    if sql_type == t.TIMESTAMP:
        return e.FunctionCall("FROM_UNIXTIME", (_whole(given, t.BIGINT),))
    if sql_type == t.TIME:
        clock = f"{given // 3_600_000:02d}:{given // 60_000 % 60:02d}:{given // 1000 % 60:02d}.{given % 1000:03d}"
        return e.Cast(e.StringLiteral(clock), t.TIME)
    return _whole(given, sql_type)


def _whole(given: int, sql_type: SqlType) -> e.Expression:
    if given == -(2**63):
        return e.Arithmetic(e.ArithmeticOp.SUBTRACT, _whole(given + 1, sql_type), e.LongLiteral(1))
    literal = (
        e.IntegerLiteral(abs(given)) if abs(given) < 2**31 and sql_type == t.INTEGER else e.LongLiteral(abs(given))
    )
    signed = literal if given >= 0 else e.Negate(literal)
    return signed if isinstance(literal, e.LongLiteral) == (sql_type == t.BIGINT) else e.Cast(signed, sql_type)


def _double(given: float) -> e.Expression:
    if math.isnan(given):
        return e.Arithmetic(e.ArithmeticOp.DIVIDE, e.DoubleLiteral(0.0), e.DoubleLiteral(0.0))
    if math.isinf(given):
        return e.Arithmetic(e.ArithmeticOp.DIVIDE, _double(math.copysign(1.0, given)), e.DoubleLiteral(0.0))
    literal = e.DoubleLiteral(abs(given))
    return e.Negate(literal) if math.copysign(1, given) < 0 else literal
