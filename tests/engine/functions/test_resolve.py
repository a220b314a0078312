from __future__ import annotations

import pytest

from kestrel_sql.errors import FunctionError
from kestrel_sql.functions.declaration import AggregateCall, Aggregator, aggregate, scalar
from kestrel_sql.functions.registry import Registry, build_registry
from kestrel_sql.functions.resolve import LambdaArgument, result_type
from kestrel_sql.types.sql_types import BIGINT, DATE, DOUBLE, INTEGER, STRING, Array, Decimal, Map


def function(*signatures: str) -> Registry:
    return build_registry([scalar(*signatures, name="F", display_name="f")(lambda *_: None)])


def chosen(signatures, arguments):
    choice = function(*signatures).choose("f", arguments)
    return str(choice.overload.signature)


@pytest.mark.rules("L4.8.2", "L4.8.3", "L4.8.4")
@pytest.mark.parametrize(
    ("signatures", "arguments", "expected"),
    [
        (["(INT) -> INT", "(BIGINT) -> BIGINT"], [BIGINT], "(BIGINT) -> BIGINT"),
        (["(BIGINT) -> INT", "(STRING) -> INT"], [INTEGER], "(BIGINT) -> INTEGER"),
        (["(DECIMAL(p,s)) -> DECIMAL(p,s)", "(STRING) -> INT"], [BIGINT], "(DECIMAL) -> DECIMAL"),
        (["(DATE) -> INT", "(INT) -> INT"], [STRING], "(DATE) -> INTEGER"),
        (["(INT...) -> INT", "(INT, INT) -> INT"], [INTEGER, INTEGER], "(INTEGER, INTEGER) -> INTEGER"),
        (["(INT, INT...) -> INT", "(INT...) -> INT"], [INTEGER], "(INTEGER, INTEGER...) -> INTEGER"),
        (["(T) -> INT", "(INT) -> INT"], [INTEGER], "(INTEGER) -> INTEGER"),
        (["(ANY...) -> INT", "(INT...) -> INT"], [INTEGER], "(INTEGER...) -> INTEGER"),
        (["(INT..., INT) -> INT", "(INT, INT...) -> INT"], [INTEGER, INTEGER], "(INTEGER, INTEGER...) -> INTEGER"),
        (["(ARRAY<T>, T) -> T"], [Array(STRING), None], "(ARRAY<T>, T) -> T"),
        (
            ["(ARRAY<T>, LAMBDA (T) => R) -> R", "(ARRAY<T>, LAMBDA (T, S) => R) -> R"],
            [Array(STRING), LambdaArgument(2)],
            "(ARRAY<T>, LAMBDA (T, S) => R) -> R",
        ),
    ],
)  # fmt: skip
def test_choice(signatures, arguments, expected):
    assert chosen(signatures, arguments) == expected


@pytest.mark.rules("L4.8.2")
def test_exact_matches_win_over_implicit_casts():
    assert chosen(["(DOUBLE, DOUBLE) -> INT", "(T, T) -> INT"], [INTEGER, INTEGER]) == "(T, T) -> INTEGER"


@pytest.mark.rules("L4.8.5")
def test_a_tie_is_an_error():
    with pytest.raises(FunctionError, match=r"'f' cannot be resolved due to ambiguous method parameters \(INTEGER\)"):
        chosen(["(BIGINT) -> INT", "(DOUBLE) -> INT"], [INTEGER])


@pytest.mark.rules("L4.8.6", "U1.1")
def test_no_match_lists_the_alternatives():
    signatures = ["(list ARRAY<T>) -> INT", "(input ARRAY<DECIMAL>, INT...) -> INT"]
    with pytest.raises(FunctionError) as caught:
        chosen(signatures, [Map(STRING, INTEGER), Decimal(5, 1), None])
    assert caught.value.message.splitlines() == [
        "Function 'f' does not accept parameters (MAP<STRING, INTEGER>, DECIMAL(5, 1), null).",
        "Valid alternatives are:",
        "f(ARRAY<DECIMAL> input, INTEGER...)",
        "f(ARRAY<T> list)",
    ]


def test_a_type_variable_has_one_type_per_call():
    with pytest.raises(FunctionError, match="does not accept"):
        chosen(["(T, T) -> T"], [Decimal(4, 1), Decimal(5, 1)])


def test_result_types():
    choice = function("(MAP<K, V>, V) -> ARRAY<V>").choose("F", [Map(STRING, DATE), None])
    assert result_type(choice, (Map(STRING, DATE), None)) == Array(DATE)
    choice = function("(DECIMAL(p,s)) -> DECIMAL(p,s)").choose("F", [INTEGER])
    assert result_type(choice, (Decimal(10, 0),)) == Decimal(10, 0)
    with pytest.raises(FunctionError, match="NULL arguments"):
        result_type(function("(T) -> T").choose("F", [None]), (None,))


@pytest.mark.rules("L4.8.8")
def test_aggregates_never_cast():
    @aggregate("(BIGINT) -> BIGINT", undoable=False)
    def g(call: AggregateCall) -> Aggregator:
        raise AssertionError

    with pytest.raises(FunctionError, match="'G' does not accept"):
        build_registry([g]).choose("G", [INTEGER])


def test_unknown_names_get_a_hint():
    with pytest.raises(FunctionError, match="Can't find any functions with the name 'SUBSTRIN'") as caught:
        build_registry([scalar("() -> INT", name="SUBSTRING")(lambda: 1)]).get("SUBSTRIN")
    assert caught.value.hint == "did you mean SUBSTRING?"


def test_duplicate_overloads_are_rejected():
    with pytest.raises(ValueError, match="declared twice"):
        function("(x INT) -> INT").with_functions(scalar("(y INT) -> BIGINT", name="F")(lambda y: y))


def test_names_are_sorted_and_the_registry_can_be_extended():
    registry = function("(DOUBLE) -> INT").with_functions(scalar("(INT) -> INT", name="A")(lambda y: y))
    assert list(registry) == ["A", "F"]
    assert not registry.is_aggregate("A")
    assert not registry.is_table_function("nope")
    assert registry.choose("a", [INTEGER]).function.name == "A"
    assert DOUBLE in [p.pattern for p in registry.get("F")[0].signature.parameters]
