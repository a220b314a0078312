"""User text comes through unchanged: literals, patterns, names, aliases, header keys, messages."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pyspark.sql.types import StructType, _parse_datatype_string

from kestrel_sql import connect
from kestrel_sql.expressions.columns import Columns
from kestrel_sql.expressions.compiler import Options, compile_expression
from kestrel_sql.functions.bind.bind import bind
from kestrel_sql.spark.runtime.session import open_test_session
from kestrel_sql.spark.types import to_spark
from kestrel_sql.sql.format.statements import format_expression
from kestrel_sql.sql.nodes import expressions as e
from kestrel_sql.sql.parse.parser import parse_expression
from kestrel_sql.types.sql_types import INTEGER, Field, Struct

_ATOMS = (
    *(
        "'",
        "''",
        "'''",
        '"',
        '""',
        "`",
        "``",
        "\\",
        "\\\\",
        "\\'",
        "\\`",
        "\\\\'",
        "'\\",
        "`\\",
        ";",
        "--",
        "/*",
        "*/",
        "#",
        "//",
    ),
    *(
        "\n",
        "\r",
        "\r\n",
        "\t",
        "\0",
        "\x01",
        "\x1a",
        "\x7f",
        "\u0085",
        "\u2028",
        "\u2029",
        "\ufeff",
        "\u202e",
        "é",
        "漢",
        "😀",
        "\U0010ffff",
    ),
    *(
        "%",
        "_",
        "%%",
        "%s",
        "{}",
        "{0}",
        "$1",
        "\\1",
        "${x}",
        "#{x}",
        "@x",
        ":x",
        "?",
        "*",
        ".",
        "..",
        ",",
        "(",
        ")",
        "[",
        "]",
        "<",
        ">",
    ),
    *(
        "\\n",
        "\\t",
        "\\0",
        "\\u0027",
        "\\047",
        "\\x27",
        "\\Z",
        "\\%",
        "\\_",
        "\\Q",
        "\\E",
        "\\Q'\\E",
        "&apos;",
        "%27",
        "%00",
        "x'27'",
        "r'x'",
        'R"x"',
    ),
    *(
        "NULL",
        "TRUE",
        "SELECT",
        "*",
        "CURRENT_USER",
        "kestrel_input",
        "r0",
        "rel",
        "let_row",
        "item__",
        "e0",
        " ",
        "  ",
        " x",
        "x ",
    ),
    *(
        "${env:HOME}",
        "${system:user.name}",
        "${spark:spark.app.name}",
        "${hivevar:x}",
        "$HOME",
        "$(id)",
        "`id`",
        "|id",
        "&& id",
        "\u2019",
        "\uff07",
        "\u02bc",
    ),
)
_PAYLOADS = (
    "reflect('java.lang.System', 'exit', 1)",
    "java_method('java.lang.Runtime', 'getRuntime')",
    "1 OR 1 = 1",
    "DROP TABLE x",
    "UNION SELECT 1",
    "SELECT * FROM text.`/etc/passwd`",
    "assert_true(false)",
    "raise_error('x')",
    "input_file_name()",
    "kestrel_0()",
)
_FRAMES = (
    "{}",
    "' || {} || '",
    "'); {} --",
    "`, {} AS `x",
    "\\' || {} || \\'",
    "\\\\' || {} /*",
    "*/ {} /*",
    '" || {} || "',
    "x\n{}",
    "''{}''",
    "``{}``",
    "') + {} + ('",
)
_FRAMED = tuple(frame.format(payload) for payload in _PAYLOADS for frame in _FRAMES)
STRINGS = tuple(dict.fromkeys([*_ATOMS, *_FRAMED]))
NAMES = tuple(text for text in STRINGS if text.strip())
FEW = tuple(dict.fromkeys([*_ATOMS, *_FRAMED[::5]]))
"""Every atom, payload and frame, but not every payload in every frame."""


def test_there_are_enough_strings():
    assert len(STRINGS) >= 200
    for frame in _FRAMES:
        assert any(frame.format(payload) in FEW for payload in _PAYLOADS)
    for payload in _PAYLOADS:
        assert any(frame.format(payload) in FEW for frame in _FRAMES)


def _value(node: e.Expression) -> object:
    (value,) = compile_expression(bind(node, {}), Options(nested=True))(Columns({}, 1), {})
    return value


def _text(value: str) -> e.Expression:
    return e.StringLiteral(value)


def _call(name: str, *arguments: e.Expression) -> e.Expression:
    return e.FunctionCall(name, arguments)


def _quoted_like(value: str) -> str:
    return "".join("!" + c if c in "!%_" else c for c in value)


def _same(value: str, node: e.Expression) -> e.Expression:
    return e.Comparison(e.ComparisonOp.EQUAL, node, _text(value))


def _positions(value: str) -> Iterator[tuple[str, e.Expression]]:
    """Expressions that are true if and only if `value` arrives unchanged."""
    one = e.IntegerLiteral(1)
    yield (
        "map key",
        _same(
            "1", e.Cast(e.Subscript(e.MapConstructor(((_text(value), one),)), _text(value)), bind(_text(""), {}).type)
        ),
    )
    yield (
        "field",
        e.Comparison(
            e.ComparisonOp.EQUAL,
            e.Dereference(e.StructConstructor((("A", one), (value, e.IntegerLiteral(2)))), value),
            e.IntegerLiteral(2),
        ),
    )
    yield "like", e.Like(_text(value), _text(_quoted_like(value)), "!")
    yield "like of a row", e.Like(_text(value), _call("CONCAT", _text(_quoted_like(value)), _text("")), "!")
    yield "split", _same("b", e.Subscript(_call("SPLIT", _text(f"a{value}b"), _text(value)), e.IntegerLiteral(-1)))
    yield "replace", _same(f"<{value}>", _call("REPLACE", _text("<~>"), _text("~"), _text(value)))
    yield "concat", _same(f"a{value}", _call("CONCAT", _text("a"), _text(value)))
    yield "case", _same(value, e.Case((e.When(_same(value, _text(value)), _text(value)),)))
    yield "in", e.InList(_text(value), (_text("~"), _text(value)))


@pytest.mark.parametrize("value", STRINGS)
def test_every_position_of_an_expression(value: str) -> None:
    assert [position for position, node in _positions(value) if _value(node) is not True] == []
    node = parse_expression(format_expression(_text(value)))
    assert _value(node) == value


@pytest.mark.parametrize("value", STRINGS)
def test_patterns_reach_the_regular_expression_only(value: str) -> None:
    pattern = "[^\\x{0}-\\x{10ffff}]|" + "\\Q~\\E"
    assert _value(_call("REGEXP_REPLACE", _text(f"a{value}b"), _text(pattern), _text(""))) == f"a{value}b"


@pytest.mark.parametrize("name", NAMES)
def test_column_names_come_through(name: str) -> None:
    columns = {"other": [1], name: [2]}
    evaluate = compile_expression(bind(e.ColumnRef(name), dict.fromkeys(columns, INTEGER)))
    assert evaluate(Columns(columns, 1), {}) == [2]


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


def _literal(value: str) -> str:
    return "'" + value.replace("'", "''") + "'"


def test_statements_say_what_they_said() -> None:
    engine = connect()
    wrong = []
    for at, value in enumerate(filter(str.strip, FEW)):
        name, text = _quoted(value), _literal(value)
        engine.sql(
            f"CREATE STREAM S{at} (K STRING KEY, {name} STRING, F STRUCT<{name} INT>)"
            f" WITH (KAFKA_TOPIC='s{at}', VALUE_FORMAT='JSON', PARTITIONS=1);"
            f"CREATE STREAM O{at} AS SELECT K, {name}, F->{name} AS {_quoted('x' + value)}, {text} AS L,"
            f" STRUCT({name} := 2) AS T, MAP({text} := 3)[{text}] AS M FROM S{at} WHERE {name} = {text};"
        )
        engine.insert(f"S{at}", {"K": value, value: value, "F": {value: 1}})
        expected = {"K": value, value: value, f"x{value}": 1, "L": value, "T": {value: 2}, "M": 3}
        (row,) = engine.rows(f"O{at}")
        wrong += [(value, row)] if {key: row.get(key) for key in expected} != expected else []
    assert wrong == []


@pytest.mark.spark
def test_names_come_through_the_schemas_of_spark() -> None:
    open_test_session()
    text = to_spark(Struct(tuple(Field(name, INTEGER) for name in NAMES)))
    kind = _parse_datatype_string(text)
    assert isinstance(kind, StructType)
    assert tuple(kind.names) == NAMES
