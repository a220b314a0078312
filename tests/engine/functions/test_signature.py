from __future__ import annotations

import pytest

from kestrel_sql.functions.signature import (
    AnyDecimal,
    ArrayOf,
    Generic,
    Interval,
    LambdaOf,
    MapOf,
    Parameter,
    StructOf,
    parse_signature,
)
from kestrel_sql.types.sql_types import BIGINT, INTEGER, STRING


def test_names_and_types():
    signature = parse_signature("(input STRING, length INT NOT NULL) -> STRING")
    assert signature.parameters == (Parameter(STRING, "input"), Parameter(INTEGER, "length", not_null=True))
    assert signature.returns == STRING


def test_names_are_optional():
    assert parse_signature("(STRING, T...) -> T").parameters == (
        Parameter(STRING),
        Parameter(Generic("T"), variadic=True),
    )


def test_composites():
    signature = parse_signature(
        "(MAP<K, ARRAY<V>>, DECIMAL(p,s), f LAMBDA (K, V) => R, unit INTERVALUNIT) -> STRUCT<A VARCHAR, sort_col INT>"
    )
    patterns = [parameter.pattern for parameter in signature.parameters]
    assert patterns == [
        MapOf(Generic("K"), ArrayOf(Generic("V"))),
        AnyDecimal("p", "s"),
        LambdaOf((Generic("K"), Generic("V")), Generic("R")),
        Interval(),
    ]
    assert signature.returns == StructOf((("A", STRING), ("sort_col", INTEGER)))


def test_literals_and_a_variadic_in_the_middle():
    signature = parse_signature("(value BIGINT, texts STRING..., literal k INT, INT) -> BIGINT")
    assert signature.variadic_at == 1
    assert [p.literal for p in signature.parameters] == [False, False, True, False]
    assert signature.parameters[0] == Parameter(BIGINT, "value")
    assert [len(signature.expanded(n) or ()) for n in (2, 3, 4, 6)] == [0, 3, 4, 6]


@pytest.mark.parametrize(
    "text", ["STRING -> STRING", "(STRING -> STRING", "(WAT) -> INT", "(INT) -> INT INT", "(INT) -> ?"]
)
def test_malformed_signatures(text):
    with pytest.raises(ValueError, match="bad signature"):
        parse_signature(text)
