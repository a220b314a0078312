"""Tests that user text never reaches Spark as code: literals, patterns, names, aliases, header keys, properties."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import sqlglot
from kestrel_sql.spark.compile import sql as s
from kestrel_sql.spark.compile.context import Context, Fault, PythonCalls
from kestrel_sql.spark.compile.expressions import compile_closed
from kestrel_sql.spark.compile.python_functions import register
from pyspark.sql.types import IntegerType, StructField, StructType
from sqlglot import exp

from kestrel_sql.dataflow.run import QueryRun
from kestrel_sql.functions.bind.bind import bind
from kestrel_sql.functions.library.text.like import plain_part
from kestrel_sql.session.session import Session
from kestrel_sql.spark.envelope import ENVELOPE, Operation, Stage
from kestrel_sql.spark.pipeline.pipeline import build_pipeline
from kestrel_sql.spark.runtime.session import INTERPRETED, open_session
from kestrel_sql.sql.nodes import expressions as e

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
FEW_OR_ALL = pytest.mark.parametrize(
    "strings", [FEW, pytest.param(STRINGS, marks=pytest.mark.nightly)], ids=["few", "all"]
)


def test_there_are_enough_strings():
    assert len(STRINGS) >= 200
    for frame in _FRAMES:
        assert any(frame.format(payload) in FEW for payload in _PAYLOADS)
    for payload in _PAYLOADS:
        assert any(frame.format(payload) in FEW for frame in _FRAMES)


def _compiled(node: e.Expression, python: PythonCalls) -> exp.Expression:
    return compile_closed(bind(node, {}), Context({}, python, nested=True), "")


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


@pytest.fixture(scope="module")
def spark():
    return open_session(extra=INTERPRETED)


@pytest.mark.spark
def test_literals_come_through(spark):
    python = PythonCalls()
    columns = [f"{s.to_text(_compiled(_text(value), python))} AS c{i}" for i, value in enumerate(STRINGS)]
    assert tuple(spark.sql(f"SELECT {', '.join(columns)} FROM range(1)").collect()[0]) == STRINGS


@FEW_OR_ALL
@pytest.mark.spark
def test_every_position_of_an_expression(spark, strings):
    python = PythonCalls()
    asked = [(value, position, node) for value in strings for position, node in _positions(value)]
    columns = [f"{s.to_text(_compiled(node, python))} AS c{i}" for i, (_, _, node) in enumerate(asked)]
    register(spark, python)
    found: list[object] = []
    for start in range(0, len(columns), 400):
        found += spark.sql(f"SELECT {', '.join(columns[start : start + 400])} FROM range(1)").collect()[0]
    wrong = [(value, position) for (value, position, _), true in zip(asked, found, strict=True) if true is not True]
    assert wrong == []


@pytest.mark.spark
def test_patterns_reach_the_regular_expression_only(spark):
    python = PythonCalls()
    trees = [
        _compiled(
            _call("REGEXP_REPLACE", _text(f"a{value}b"), _text("[^\\x{0}-\\x{10ffff}]|" + "\\Q~\\E"), _text("")), python
        )
        for value in STRINGS
    ]
    register(spark, python)
    row = spark.sql(
        f"SELECT {', '.join(f'{s.to_text(tree)} AS c{i}' for i, tree in enumerate(trees))} FROM range(1)"
    ).collect()[0]
    assert tuple(row) == tuple(f"a{value}b" for value in STRINGS)


@pytest.mark.spark
def test_column_names_come_through(spark):
    schema = StructType([StructField("v", StructType([StructField(name, IntegerType()) for name in NAMES]))])
    spark.createDataFrame([(tuple(range(len(NAMES))),)], schema).createOrReplaceTempView("injected")
    columns = [f"{s.to_text(s.column('v', name))} AS c{i}" for i, name in enumerate(NAMES)]
    assert tuple(spark.sql(f"SELECT {', '.join(columns)} FROM injected").collect()[0]) == tuple(range(len(NAMES)))


@pytest.mark.spark
def test_messages_and_loggers_come_through(spark):
    stage = Stage()
    faults = tuple(Fault(s.TRUE, value) for value in STRINGS)
    stage.add(0, Operation((("v", s.integer(1)),), faults=faults, logger=STRINGS[3]), "STRUCT<v: INT>")
    empty = ", ".join(
        f"CAST({'0' if column == 'rel' else 'array()' if column == 'log' else 'NULL'} AS {kind}) AS `{column}`"
        for column, kind in ENVELOPE.items()
    )
    spark.sql(f"SELECT {empty}, named_struct('v', 1) AS r0").createOrReplaceTempView("enveloped")
    (row,) = spark.sql(stage.sql("enveloped")).collect()
    assert tuple(entry.message for entry in row.log) == STRINGS
    assert {entry.logger for entry in row.log} == {STRINGS[3]}


def _quote(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


def _string(value: str) -> str:
    return "'" + value.replace("'", "''") + "'"


def _pipeline(value: str) -> str:
    """The Spark SQL of a query with `value` in every position of a statement that accepts it."""
    session = Session()
    name = _quote(value)
    create = (
        f"CREATE STREAM S (K STRING KEY, {name} STRING, F STRUCT<{name} INT>, H BYTES HEADER({_string(value)}))"
        f" WITH (KAFKA_TOPIC='s', VALUE_FORMAT='JSON');"
    )
    select = (
        "CREATE STREAM O WITH (KAFKA_TOPIC='o') AS"
        f" SELECT K, {name}, F->{name} AS {_quote('x' + value)}, {_string(value)} AS L,"
        f" STRUCT({name} := 1) AS T, MAP({_string(value)} := 1)[{_string(value)}] AS M, H FROM S"
        f" WHERE {name} <> {_string(value)} AND {name} LIKE {_string(value)} EMIT CHANGES;"
    )
    for statement in (create, select):
        session.execute(session.parse(statement)[0])
    (query,) = session.queries.values()
    return build_pipeline([QueryRun(plan=query.plan)]).texts[0]


def _shape(text: str) -> list[str]:
    """The kinds of the nodes of a statement, in order; strings and names count only by their kind."""
    (tree,) = sqlglot.parse(text, dialect="spark")
    assert tree is not None
    calls = {node.name if isinstance(node, exp.Anonymous) else type(node).__name__ for node in tree.find_all(exp.Func)}
    return sorted(calls) + [
        type(node).__name__ for node in tree.walk() if not isinstance(node, exp.Literal | exp.Identifier)
    ]


@FEW_OR_ALL
def test_statements_become_the_same_tree_whatever_they_say(strings):
    harmless = {_kind_of_like(sample): _shape(_pipeline(sample)) for sample in ("plain", "pl_in", "%x", "x%", "%x%")}
    differ = []
    for value in filter(str.strip, strings):
        text = _pipeline(value)
        if _shape(text) != harmless[_kind_of_like(value)]:
            differ.append((value, text))
    assert differ == []


def _kind_of_like(pattern: str) -> tuple[bool, bool] | None:
    """How LIKE matches a pattern: by a regular expression, or by a search for a string."""
    plain = plain_part(pattern, None)
    return None if plain is None else (plain[0], plain[2])
