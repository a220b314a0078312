"""Declares a function: one decorated Python function with its signatures as text and its docstring as manual.

The decorators only create values; `kestrel_sql.functions.table` lists the modules and indexes their functions.

A *native* body takes sqlglot expressions (Spark dialect) and returns one; it runs in the JVM. A *Python* body takes
Python values (see `kestrel_sql.types.sql_types`) and returns one; it runs in an Arrow function. By default a NULL
argument makes the result NULL without a call of the body; `nulls` changes that.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, TypedDict, Unpack

import pyarrow as pa
from sqlglot import exp

from kestrel_sql.types.sql_types import SqlType


class Nulls(Enum):
    """What a NULL argument does; the value is the text of the manual."""

    PROPAGATE = "the result is NULL"
    BODY = "the body decides"


class Runs(Enum):
    """Where the body runs; the value is the text of the manual."""

    NATIVE = "Spark expression"
    PYTHON = "Arrow function"


@dataclass(frozen=True, slots=True)
class Checked:
    """A Spark expression with the condition under which its evaluation counts as failed.

    `fails` is a boolean Spark expression that is never NULL, or None if the evaluation cannot fail. `value` must not
    throw in Spark even where `fails` is true (use `try_` forms); its result there is arbitrary unless `null_on_failure`
    is set: then it is NULL, and callers need not test `fails` to make it so. `null_only_on_failure` also says that it
    is NULL nowhere else, so that a NULL test is a test for failure.
    """

    value: exp.Expression
    fails: exp.Expression | None = None
    null_on_failure: bool = False
    null_only_on_failure: bool = False

    @property
    def is_null_on_failure(self) -> bool:
        """Whether `value` is NULL wherever the evaluation fails."""
        return self.null_on_failure or self.fails is None


@dataclass(frozen=True, slots=True)
class SparkLambda:
    """A compiled lambda argument; `body` and `fails` refer to the `parameters` as identifiers."""

    parameters: tuple[str, ...]
    body: exp.Expression
    fails: exp.Expression | None = None


@dataclass(frozen=True, slots=True)
class CallTypes:
    """The types of one call: arguments (None for an untyped NULL or a lambda), result, and the session's settings."""

    arguments: tuple[SqlType | None, ...]
    returns: SqlType
    settings: Mapping[str, str] = field(default_factory=dict)


Body = Callable[..., Any]
ReturnType = Callable[[tuple[SqlType | None, ...]], SqlType]


@dataclass(frozen=True, slots=True, kw_only=True)
class Scalar:
    """A scalar function; overloads are declarations with the same `name`."""

    name: str
    signatures: tuple[str, ...]
    body: Body
    runs: Runs
    nulls: Nulls
    with_types: bool
    returns: ReturnType | None
    display_name: str
    doc: str
    deterministic: bool = True
    vector: Callable[..., pa.Array] | None = None
    """The Python body for a whole column: arguments are Arrow arrays or constants, and it cannot fail."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tabular:
    """A table function; its body returns an ARRAY of the declared return type, and NULL counts as empty."""

    name: str
    signatures: tuple[str, ...]
    body: Body
    runs: Runs
    with_types: bool
    returns: ReturnType | None
    display_name: str
    doc: str


class Fold(Enum):
    """An operation that `operators.aggregates.by_column` applies to a whole column of numbers without failing."""

    COUNT = "count"
    SUM = "sum"
    AVG = "avg"
    MIN = "min"
    MAX = "max"


@dataclass(frozen=True, slots=True, kw_only=True)
class Aggregator:
    """One aggregate call; states are plain values (None, bool, int, float, str, bytes, Decimal, list, dict).

    `aggregate(state, *arguments)` and `undo` may change `state` in place and return it. An aggregate without `undo`
    works on streams only.
    """

    initialize: Callable[[], Any]
    aggregate: Callable[..., Any]
    merge: Callable[[Any, Any], Any]
    result: Callable[[Any], Any]
    undo: Callable[..., Any] | None = None
    mutates: bool = False
    """Whether ksqlDB updates the old state in place, so that HAVING sees the new state as the old one too."""
    numbered: bool = False
    """Whether `aggregate` takes, before the arguments, a number that increases with every call."""
    fold: Fold | None = None
    """The operation on whole columns that equals `aggregate`, if there is one."""
    name: str = ""
    """The name of the called function, for error messages."""


@dataclass(frozen=True, slots=True)
class AggregateCall:
    """The input of an aggregate's factory: column argument types, result type, trailing literals, session settings."""

    arguments: tuple[SqlType | None, ...]
    returns: SqlType
    literals: tuple[Any, ...]
    settings: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Aggregate:
    """An aggregate function; `factory` creates the `Aggregator` of one call."""

    name: str
    signatures: tuple[str, ...]
    factory: Callable[[AggregateCall], Aggregator]
    returns: ReturnType | None
    undoable: bool
    intermediate: Callable[[tuple[SqlType | None, ...]], SqlType] | None
    display_name: str
    doc: str


Function = Scalar | Tabular | Aggregate


class Options(TypedDict, total=False):
    """Optional properties of a scalar function.

    With `with_types`, the body takes a `CallTypes` before the arguments. `returns` computes a result type that the
    signature text cannot express. `name` defaults to the name of the body; `display_name` is its spelling in messages
    (rules U1).
    """

    nulls: Nulls
    with_types: bool
    returns: ReturnType | None
    name: str
    display_name: str
    deterministic: bool


def scalar(*signatures: str, **options: Unpack[Options]) -> Callable[[Body], Scalar]:
    """Declare a native scalar function; its body maps Spark expressions to one, or to `Checked`."""
    return lambda body: _declared(body, signatures, Runs.NATIVE, None, options)


def python_scalar(
    *signatures: str, vector: Callable[..., pa.Array] | None = None, **options: Unpack[Options]
) -> Callable[[Body], Scalar]:
    """Declare a scalar function whose body runs in Python, once per row; any exception is an error of that row.

    `vector` computes a whole column at once (see `Scalar`).
    """
    return lambda body: _declared(body, signatures, Runs.PYTHON, vector, options)


def _declared(
    body: Body, signatures: tuple[str, ...], runs: Runs, vector: Callable[..., pa.Array] | None, options: Options
) -> Scalar:
    name = options.get("name") or body.__name__.rstrip("_").upper()
    return Scalar(
        name=name,
        signatures=signatures,
        body=body,
        runs=runs,
        nulls=options.get("nulls", Nulls.PROPAGATE),
        with_types=options.get("with_types", False),
        returns=options.get("returns"),
        display_name=options.get("display_name") or name,
        doc=body.__doc__ or "",
        deterministic=options.get("deterministic", True),
        vector=vector,
    )


def tabular(
    *signatures: str,
    runs: Runs = Runs.PYTHON,
    with_types: bool = False,
    returns: ReturnType | None = None,
    name: str | None = None,
    display_name: str | None = None,
) -> Callable[[Body], Tabular]:
    """Declare a table function; the result type of its signature is the type of one row."""

    def declare(body: Body) -> Tabular:
        declared = name or body.__name__.rstrip("_").upper()
        return Tabular(
            name=declared,
            signatures=signatures,
            body=body,
            runs=runs,
            with_types=with_types,
            returns=returns,
            display_name=display_name or declared,
            doc=body.__doc__ or "",
        )

    return declare


def aggregate(
    *signatures: str,
    undoable: bool,
    returns: ReturnType | None = None,
    intermediate: Callable[[tuple[SqlType | None, ...]], SqlType] | None = None,
    name: str | None = None,
    display_name: str | None = None,
) -> Callable[[Callable[[AggregateCall], Aggregator]], Aggregate]:
    """Declare an aggregate function; `intermediate` returns the type of its state if that is not the result type.

    A signature marks a parameter as `literal` if its argument is a constant (`AggregateCall.literals`).
    """

    def declare(factory: Callable[[AggregateCall], Aggregator]) -> Aggregate:
        declared = name or factory.__name__.rstrip("_").upper()
        return Aggregate(
            name=declared,
            signatures=signatures,
            factory=factory,
            returns=returns,
            undoable=undoable,
            intermediate=intermediate,
            display_name=display_name or declared,
            doc=factory.__doc__ or "",
        )

    return declare
