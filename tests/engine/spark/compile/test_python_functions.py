"""Tests that Python functions have stable names in Spark, because people read and compare the SQL."""

from __future__ import annotations

from dataclasses import dataclass, replace
from types import FunctionType
from typing import Any

from kestrel_sql.functions.declaration import CallTypes, Scalar
from kestrel_sql.functions.library.text.urls import url_encode_param
from kestrel_sql.spark.compile.context import PythonCall, PythonCalls
from kestrel_sql.types.sql_types import STRING

TYPES = CallTypes((STRING,), STRING, {})


def test_a_use_has_one_name_in_every_run() -> None:
    assert isinstance(url_encode_param, Scalar)
    # What a run of its own would load: an equal function elsewhere in memory.
    loaded_again = replace(url_encode_param)
    names = [PythonCalls().name(PythonCall(function, TYPES)) for function in (url_encode_param, loaded_again)]
    assert names[0] == names[1]
    assert names[0].startswith("kestrel_url_encode_param_")


@dataclass(frozen=True)
class _Holder:
    held: Any

    def __call__(self, text: str) -> Any:
        return self.held(text)


def _again(function: Any) -> Any:
    assert isinstance(function, FunctionType)
    return FunctionType(function.__code__, function.__globals__, function.__name__)


def test_a_body_with_functions_has_the_same_name_in_every_run() -> None:
    assert isinstance(url_encode_param, Scalar)
    body = url_encode_param.body
    held = [replace(url_encode_param, body=_Holder(each)) for each in (body, _again(body), _again(_again))]
    first, second, other = [PythonCalls().name(PythonCall(function, TYPES)) for function in held]
    assert first == second
    assert first != other


def test_other_uses_have_other_names() -> None:
    calls = PythonCalls()
    uses = [PythonCall(url_encode_param, TYPES), PythonCall(url_encode_param, TYPES, guarded=False)]
    uses += [
        PythonCall(url_encode_param, replace(TYPES, settings={"a": "b"})),
        PythonCall(url_encode_param, TYPES, ((0, "x"),)),
    ]
    assert len({calls.name(use) for use in uses}) == len(uses)
