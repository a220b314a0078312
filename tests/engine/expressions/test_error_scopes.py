"""Tests error scopes with their settings, lazy branches, and that an expression is evaluated once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest

from kestrel_sql.expressions.columns import Columns, Failures
from kestrel_sql.expressions.compiler import Options, compile_expression
from kestrel_sql.functions.bind.bind import bind
from kestrel_sql.functions.declaration import Nulls, scalar
from kestrel_sql.functions.table import FUNCTIONS
from kestrel_sql.sql.parse.parser import parse_expression
from kestrel_sql.types.sql_types import INTEGER

_calls = 0


@scalar("(value INT) -> INT", nulls=Nulls.BODY, deterministic=False)
def counted(value: Any) -> int:
    """Return the number of calls so far."""
    global _calls
    _calls += 1
    return _calls


@scalar("(value STRING) -> STRING", nulls=Nulls.BODY)
def boom(value: Any) -> str:
    """Fail for `x`."""
    if value == "x":
        raise ValueError("boom")
    return str(value)


@scalar("(kind STRING) -> INT")
def wrong(kind: str) -> Any:
    """Return a value that is not an INT."""
    return {"text": "x", "large": 2**40, "fine": 7}[kind]


@scalar("() -> STRING")
def half() -> str:
    """Return half of a surrogate pair."""
    return "\ud83d"


@scalar("(value INT) -> DOUBLE")
def real(value: int) -> Any:
    """Return an int as the DOUBLE."""
    return value


REGISTRY = FUNCTIONS.with_functions(counted, boom, wrong, half, real)
WHOLE = "whole"


@dataclass(frozen=True)
class Expected:
    """The value, and the messages of the log from the innermost scope outwards."""

    value: Any
    log: tuple[str, ...] = ()


def failed(*inner: str) -> Expected:
    return Expected(None, (*inner, WHOLE))


def inside(text: str) -> str:
    return f"Error processing {text}"


NESTED = {
    # Each item of a constructor, each argument that is a call and each explicit CAST catches its own failure.
    "1 / 0": failed(),
    "ARRAY[1, 1 / 0]": Expected([1, None], (inside("(1 / 0)"),)),
    "STRUCT(A := 1 / 0)->A": Expected(None, (inside("(1 / 0)"),)),
    "MAP('a' := 1 / 0)['a']": Expected(None, (inside("(1 / 0)"),)),
    "COALESCE(BOOM('x'), 'y')": Expected("y", (inside("BOOM('x')"),)),
    "COALESCE(CAST('x' AS INT), 7)": Expected(7, (inside("CAST('x' AS INTEGER)"),)),
    "CAST('x' AS INT) IS NULL": Expected(True, (inside("CAST('x' AS INTEGER)"),)),
    "COALESCE(1 / 0, 7)": failed(),
    "ABS(1 / 0)": failed(),
    # Comparisons and arithmetic have no scope of their own, and neither has an implicit conversion.
    "1 / 0 = 1": failed(),
    "CAST('2020-01-01' AS DATE) = 'never'": failed(),
    "CAST('2020-01-01' AS DATE) = CAST('never' AS DATE)": Expected(False, (inside("CAST('never' AS DATE)"),)),
    # NULL in arithmetic and logic is a failure, in a comparison it is false.
    "CAST(NULL AS INT) + 1": failed(),
    "CAST(NULL AS INT) = 1": Expected(False),
    "NOT (CAST(NULL AS INT) = 1)": Expected(True),
    "CAST(NULL AS BOOLEAN) AND TRUE": failed(),
    "FALSE AND CAST(NULL AS BOOLEAN)": Expected(False),
    # What Java does not evaluate cannot fail.
    "FALSE AND 1 / 0 = 1": Expected(False),
    "TRUE OR 1 / 0 = 1": Expected(True),
    "CASE WHEN TRUE THEN 1 ELSE 1 / 0 END": Expected(1),
    "CASE WHEN TRUE THEN 1 WHEN 1 / 0 = 1 THEN 2 END": Expected(1),
    "CASE WHEN FALSE THEN 1 / 0 ELSE 2 END": Expected(2),
    "CASE WHEN TRUE THEN 'a' ELSE BOOM('x') END": Expected("a"),
    "CASE WHEN BOOM('x') = 'x' THEN 'a' ELSE 'b' END": failed(),
    "CAST(CAST(NULL AS INT) AS STRING)": Expected(None),
    # A function that returns what it did not promise fails for its row only.
    "WRONG('fine')": Expected(7),
    "WRONG('text')": failed(),
    "WRONG('large')": failed(),
    "WRONG('missing')": failed(),
    "HALF()": Expected("\ud83d"),
    "REAL(2)": Expected(2.0),
}
FLAT = {
    "ARRAY[1, 1 / 0]": failed(),
    "STRUCT(A := 1 / 0)->A": failed(),
    "COALESCE(BOOM('x'), 'y')": failed(),
    "COALESCE(CAST('x' AS INT), 7)": failed(),
    "CASE WHEN TRUE THEN 'a' ELSE BOOM('x') END": Expected("a"),
    "TRANSFORM(ARRAY[1], x => ARRAY[x / 0])": failed(),
}
NULL_TEXTS = {
    "CAST(CAST(NULL AS INT) AS STRING)": Expected("null"),
    "COALESCE(CAST(CAST(NULL AS INT) AS STRING), 'x')": Expected("null"),
    "CAST(1 AS STRING)": Expected("1"),
}
CASES = [
    *((text, True, True, expected) for text, expected in NESTED.items()),
    *((text, False, True, expected) for text, expected in FLAT.items()),
    *((text, True, False, expected) for text, expected in NULL_TEXTS.items()),
]


def found(text: str, options: Options) -> Expected:
    log: list[str] = []
    failures: Failures = {}
    columns = Columns({}, 1, lambda at, message, error: log.append(message))
    (value,) = compile_expression(bind(parse_expression(text), {}, REGISTRY), options)(columns, failures)
    return failed(*log) if failures else Expected(value, tuple(log))


@pytest.mark.parametrize(
    ("text", "nested", "preserve", "expected"), CASES, ids=[f"{text} nested={nested}" for text, nested, *_ in CASES]
)
def test_scope(text: str, nested: bool, preserve: bool, expected: Expected) -> None:
    outcome = found(text, Options(nested=nested, preserve_nulls=preserve))
    assert outcome == expected
    assert type(outcome.value) is type(expected.value)


@pytest.mark.parametrize(
    "text", ["CASE WHEN COUNTED(ID) > 0 THEN 'more' ELSE 'none' END", "ABS(COUNTED(ID))", "COUNTED(ID) BETWEEN 1 AND 9"]
)
def test_a_function_is_called_once_a_row(text: str) -> None:
    before = _calls
    evaluate = compile_expression(bind(parse_expression(text), {"ID": INTEGER}, REGISTRY), Options(nested=True))
    evaluate(Columns({"ID": [None, *range(19)]}, 20), {})
    assert _calls == before + 20
