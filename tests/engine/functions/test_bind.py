from __future__ import annotations

import decimal

import pytest

from kestrel_sql.errors import EngineError, FunctionError, TypeMismatchError, UnknownColumnError, UnsupportedError
from kestrel_sql.functions.bind.bind import bind
from kestrel_sql.functions.declaration import AggregateCall, Aggregator, aggregate, scalar
from kestrel_sql.functions.registry import build_registry
from kestrel_sql.sql.nodes import expressions as e
from kestrel_sql.types.sql_types import (
    BIGINT,
    BOOLEAN,
    BYTES,
    DATE,
    DOUBLE,
    INTEGER,
    STRING,
    TIME,
    TIMESTAMP,
    Array,
    Decimal,
    Field,
    Map,
    Struct,
)

STRUCT = Struct((Field("F", BIGINT), Field("G", STRING)))
SCOPE = {
    "B": BOOLEAN, "I": INTEGER, "L": BIGINT, "D": DOUBLE, "S": STRING, "X": BYTES,
    "T": TIMESTAMP, "DAY": DATE, "TOD": TIME, "P": Decimal(5, 2), "Q": Decimal(4, 3),
    "AI": Array(INTEGER), "AL": Array(BIGINT), "M": Map(STRING, BIGINT), "R": STRUCT,
}  # fmt: skip


def _nothing(*_: object) -> None:
    raise AssertionError


@aggregate("(value BIGINT, k literal INT) -> ARRAY<BIGINT>", undoable=False)
def topn(call: AggregateCall) -> Aggregator:
    raise AssertionError


FUNCTIONS = build_registry(
    [
        scalar("(x BIGINT NOT NULL, y STRING) -> STRING", name="F")(_nothing),
        scalar("(x DECIMAL(p,s)) -> DECIMAL(p,s)", name="G")(_nothing),
        scalar("(a ARRAY<T>, s S, f LAMBDA (S, T) => S) -> S", name="REDUCE")(_nothing),
        scalar("(a ARRAY<T>, f LAMBDA (T) => R) -> ARRAY<R>", name="TRANSFORM")(_nothing),
        scalar("(u INTERVALUNIT, d DATE) -> DATE", name="ADD")(_nothing),
        topn,
    ]
)


def col(name: str) -> e.ColumnRef:
    return e.ColumnRef(name)


def num(value: int) -> e.IntegerLiteral:
    return e.IntegerLiteral(value)


def text(value: str) -> e.StringLiteral:
    return e.StringLiteral(value)


NULL = e.NullLiteral()


def typed(node):
    return bind(node, SCOPE, FUNCTIONS)


def fails(node, message, error: type[EngineError] = TypeMismatchError):
    with pytest.raises(error) as caught:
        typed(node)
    assert caught.value.message.startswith(message)


@pytest.mark.rules("L4.2.1", "L1.8")
@pytest.mark.parametrize(
    ("node", "expected"),
    [
        (num(2**31 - 1), INTEGER),
        (num(2**31), BIGINT),
        (e.LongLiteral(1), BIGINT),
        (e.DecimalLiteral(decimal.Decimal("0.1")), Decimal(2, 1)),
        (e.DecimalLiteral(decimal.Decimal("0.05")), Decimal(3, 2)),
        (e.DecimalLiteral(decimal.Decimal(1)), Decimal(1, 0)),
        (e.DecimalLiteral(decimal.Decimal("12.30")), Decimal(4, 2)),
        (e.DoubleLiteral(1.0), DOUBLE),
        (NULL, None),
    ],
)
def test_literals(node, expected):
    assert typed(node).type == expected


@pytest.mark.rules("L4.4.1")
@pytest.mark.parametrize(
    ("left", "op", "right", "expected"),
    [
        ("I", "+", "I", INTEGER),
        ("I", "/", "L", BIGINT),
        ("P", "*", "D", DOUBLE),
        ("P", "+", "Q", Decimal(7, 3)),
        ("P", "*", "Q", Decimal(10, 5)),
        ("P", "/", "Q", Decimal(13, 7)),
        ("P", "%", "Q", Decimal(4, 3)),
        ("P", "+", "I", Decimal(13, 2)),
        ("L", "-", "P", Decimal(22, 2)),
        ("S", "+", "S", STRING),
    ],
)
def test_arithmetic(left, op, right, expected):
    bound = typed(e.Arithmetic(e.ArithmeticOp(op), col(left), col(right)))
    assert bound.type == expected
    assert [child.node for child in bound.children] == [col(left), col(right)]


def test_invalid_arithmetic():
    fails(
        e.Arithmetic(e.ArithmeticOp.ADD, e.BooleanLiteral(True), e.DecimalLiteral(decimal.Decimal("1.5"))),
        "Error processing expression: (true + 1.5). Unsupported arithmetic types. BOOLEAN DECIMAL",
    )
    fails(e.Negate(col("S")), "Error processing expression")


def compare(left, right, op=e.ComparisonOp.EQUAL):
    return e.Comparison(op, left, right)


def test_strings_are_parsed_in_comparisons_with_times():
    bound = typed(compare(text("2020"), col("T")))
    assert bound.children[0].node == e.Cast(text("2020"), TIMESTAMP)
    assert bound.children[0].children[0].node == text("2020")
    assert bound.children[1].node == col("T")
    assert typed(compare(col("DAY"), col("T"))).children[0].type == TIMESTAMP


@pytest.mark.parametrize(("left", "right"), [("I", "P"), ("L", "D"), ("S", "S"), ("X", "X"), ("TOD", "TOD")])
def test_orderings(left, right):
    bound = typed(compare(col(left), col(right), e.ComparisonOp.LESS_THAN))
    assert [child.node for child in bound.children] == [col(left), col(right)]


def test_invalid_comparisons():
    fails(
        compare(col("I"), text("10")), "Cannot compare I (INTEGER) to '10' (STRING) with EQUAL.\nStatement: (I = '10')"
    )
    fails(
        compare(col("B"), col("B"), e.ComparisonOp.LESS_THAN),
        "Cannot compare B (BOOLEAN) to B (BOOLEAN) with LESS_THAN.",
    )
    fails(
        compare(col("I"), NULL),
        "Comparison with NULL not supported: INTEGER = NULL\nUse 'IS NULL' or 'IS NOT NULL' instead.",
    )
    assert typed(compare(col("AI"), col("AI"))).type == BOOLEAN


def test_between():
    bound = typed(e.Between(col("T"), text("2020"), text("2021")))
    assert [child.type for child in bound.children] == [TIMESTAMP] * 3
    assert [child.type for child in typed(e.Between(text("a"), col("DAY"), col("T"))).children] == [
        STRING,
        DATE,
        TIMESTAMP,
    ]
    fails(e.Between(col("I"), text("a"), num(1)), "Cannot compare")


def types_in(operand, *items):
    return [child.type for child in typed(e.InList(operand, items)).children]


@pytest.mark.rules("L4.3.13")
def test_in_lists_have_a_common_type():
    assert types_in(col("I"), num(1), text("2147483648"), NULL) == [BIGINT, BIGINT, BIGINT, None]
    assert types_in(col("B"), text("TrUe"), text("y")) == [BOOLEAN] * 3
    assert types_in(col("S"), num(10)) == [STRING] * 2
    assert types_in(col("D"), text(" 1 ")) == [DOUBLE] * 2
    assert types_in(col("I"), text("1.5")) == [Decimal(11, 1)] * 2
    assert types_in(col("I"), text("1e3")) == [Decimal(10, 0)] * 2
    assert types_in(text("1.5"), num(1)) == [STRING] * 2
    assert types_in(col("AI"), col("AL")) == [Array(BIGINT)] * 2
    assert types_in(col("AL"), e.ArrayConstructor((text("10"), num(1)))) == [Array(BIGINT)] * 2


def test_invalid_in_lists():
    fails(e.InList(col("L"), (text("x y"),)), 'invalid input syntax for type BIGINT: "x y".')
    fails(
        e.InList(col("L"), (e.ArrayConstructor((text("x"),)),)),
        "operator does not exist: BIGINT = ARRAY<STRING> (ARRAY['x'])",
    )
    fails(e.InList(col("AL"), (e.ArrayConstructor((text("x"),)),)), 'invalid input syntax for type BIGINT: "x".')
    fails(
        e.InList(e.BooleanLiteral(True), (col("S"),)),
        "operator does not exist: BOOLEAN = STRING (S)\nHint: You might need to add",
    )
    fails(e.InList(text("1.5"), (col("I"),)), "operator does not exist: STRING = INTEGER (I)")
    fails(e.InList(col("I"), (text("1e999999999"),)), 'invalid input syntax for type INTEGER: "1e999999999".')
    fails(e.InList(col("S"), (num(1), col("D"))), "operator does not exist: STRING = DOUBLE (D)")
    fails(e.InList(col("B"), (text("no way"),)), 'invalid input syntax for type BOOLEAN: "no way".')


def test_constructors():
    bound = typed(e.ArrayConstructor((num(1), NULL, text("2"), e.DoubleLiteral(1.5))))
    assert bound.type == Array(DOUBLE)
    assert [child.type for child in bound.children] == [DOUBLE, None, DOUBLE, DOUBLE]
    assert typed(e.MapConstructor(((text("a"), num(1)), (col("S"), col("L"))))).type == Map(STRING, BIGINT)
    assert typed(e.StructConstructor((("A", num(1)), ("b", col("S"))))).type == Struct(
        (Field("A", INTEGER), Field("b", STRING))
    )
    fails(e.ArrayConstructor(()), "Array constructor cannot be empty. Please supply at least one element")
    fails(e.ArrayConstructor((NULL,)), "Cannot construct an array with all NULL elements")
    fails(e.MapConstructor(()), "Map constructor cannot be empty.")
    fails(e.MapConstructor(((text("a"), NULL),)), "Cannot construct a map with all NULL values")
    fails(e.StructConstructor((("A", num(1)), ("A", num(2)))), "Duplicate field names")


def test_struct_types_merge():
    other = e.StructConstructor((("F", num(1)), ("H", num(2))))
    merged = Struct((Field("F", BIGINT), Field("H", INTEGER), Field("G", STRING)))
    assert types_in(col("R"), other) == [merged, merged]


def test_access():
    assert typed(e.Subscript(col("AI"), col("L"))).children[1].type == INTEGER
    assert typed(e.Subscript(col("M"), text("k"))).type == BIGINT
    assert typed(e.Dereference(col("R"), "G")).type == STRING
    fails(e.Dereference(col("R"), "f"), "Could not find field 'f' in 'R'.", UnknownColumnError)
    fails(e.Dereference(col("I"), "f"), "Expected STRUCT type")
    with pytest.raises(TypeMismatchError, match="do not apply to STRUCT") as caught:
        typed(e.Subscript(col("R"), num(1)))
    assert caught.value.hint is not None


def test_case():
    when = e.When(col("B"), num(1))
    assert typed(e.Case((when, e.When(NULL, NULL)), num(3))).type == INTEGER
    assert len(typed(e.Case((when, when), num(3))).children) == 5
    assert typed(e.Case((e.When(col("B"), NULL),), num(3))).type == INTEGER
    fails(e.Case((e.When(col("I"), num(1)),)), "WHEN operand type should be boolean.")
    fails(
        e.Case((when, e.When(col("B"), col("L")))),
        "Invalid Case expression. Type for all 'THEN' clauses should be the same",
    )
    fails(e.Case((when,), text("x")), "Invalid Case expression. Type for the default clause should be the same")
    fails(e.Case((e.When(col("B"), NULL),), NULL), "Invalid Case expression. All case branches have NULL type")


def test_casts():
    assert typed(e.Cast(NULL, BIGINT)).type == BIGINT
    fails(e.Cast(col("S"), Array(INTEGER)), "Cast of STRING to ARRAY<INTEGER> is not supported")


def test_logic_and_like():
    assert typed(e.Logical(e.LogicalOp.AND, col("B"), e.Not(col("B")))).type == BOOLEAN
    fails(e.Not(col("I")), "Expected a BOOLEAN")
    fails(e.Like(col("I"), text("x")), "LIKE needs STRING")
    fails(e.Like(col("S"), text("x"), "!!"), "ESCAPE must be one character")


def call(name, *arguments):
    return e.FunctionCall(name, arguments)


def test_calls_make_implicit_casts_explicit():
    bound = typed(call("F", col("I"), text("x")))
    assert (bound.type, bound.required) == (STRING, (True, False))
    assert bound.function is not None
    assert bound.children[0].node == e.Cast(col("I"), BIGINT)
    assert typed(call("G", col("L"))).type == Decimal(19, 0)
    assert typed(call("F", NULL, NULL)).children[0].node == NULL
    assert typed(call("ADD", e.IntervalUnit("DAYS"), text("2020-01-01"))).children[1].type == DATE


def test_lambdas_are_typed_by_the_signature():
    x, y = e.LambdaVariable("x"), e.LambdaVariable("y")
    bound = typed(call("REDUCE", col("AI"), col("L"), e.Lambda(("x", "y"), e.Arithmetic(e.ArithmeticOp.ADD, x, y))))
    assert bound.type == BIGINT
    assert bound.children[2].children[0].type == BIGINT
    inner = call("TRANSFORM", col("AL"), e.Lambda(("y",), compare(x, y)))
    assert typed(call("TRANSFORM", col("AI"), e.Lambda(("x",), inner))).type == Array(Array(BOOLEAN))
    fails(
        call("REDUCE", col("AI"), num(1), e.Lambda(("x", "y"), text("a"))),
        "Function 'REDUCE' does not accept",
        FunctionError,
    )
    fails(call("TRANSFORM", col("AI"), e.Lambda(("x", "y"), x)), "Function 'TRANSFORM' does not accept", FunctionError)


def test_aggregates_take_constants():
    assert typed(call("TOPN", col("L"), num(3))).type == Array(BIGINT)
    message = "Parameter 2 passed to function TOPN must be a literal constant, but was expression: 'I'"
    fails(call("TOPN", col("L"), col("I")), message, FunctionError)


def test_unsupported_expressions():
    fails(e.SimpleCase(col("I"), ()), "CASE with an operand", UnsupportedError)
    fails(e.AtTimeZone(col("T"), "UTC"), "AT TIME ZONE", UnsupportedError)
    fails(e.Lambda(("x",), num(1)), "A lambda may only be")
    fails(col("NOPE"), "Unknown column NOPE.", UnknownColumnError)


def test_a_binding_is_kept_for_scopes_that_agree_on_the_columns_that_it_reads():
    node = e.Arithmetic(e.ArithmeticOp.ADD, col("I"), e.ColumnRef("I", "S1"))
    bound = bind(node, {"I": INTEGER, "OTHER": STRING})
    assert bind(node, {"I": INTEGER}) is bound
    assert bind(node, {"I": BIGINT, "OTHER": STRING}).type == BIGINT
    assert bind(node, {"I": INTEGER, "S1.I": DOUBLE}).type == DOUBLE
