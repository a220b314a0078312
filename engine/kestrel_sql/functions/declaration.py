"""How a function is declared: one decorated Python function, its signatures as text, its docstring the manual.

Decorators only make values; `kestrel_sql.functions.table` lists the modules and indexes them.

A *native* body gets sqlglot expressions (Spark dialect) and returns one; it runs in the JVM. A *Python* body gets
Python values (see `kestrel_sql.types.sql_types`) and returns one; it runs in an Arrow function. An argument
that is NULL makes both NULL unless the declaration says otherwise (`nulls`), so most bodies never see one.
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
    """What a NULL argument does."""

    PROPAGATE = "the result is NULL"
    BODY = "the body decides"


class Runs(Enum):
    """Where the body runs."""

    NATIVE = "Spark expression"
    PYTHON = "Arrow function"


@dataclass(frozen=True, slots=True)
class Checked:
    """A Spark expression with the condition under which its evaluation counts as failed.

    `fails` is a boolean Spark expression that is never NULL, or None when it cannot fail. `value` must not throw in
    Spark even where `fails` is true (use `try_` forms); what it gives then does not matter, unless the result is
    `quiet`: then it is NULL, so that nobody has to test `fails` only to say so. `exact` says that it is NULL nowhere else,
    so that a test for NULL is a test for failure.
    """

    value: exp.Expression
    fails: exp.Expression | None = None
    quiet: bool = False
    exact: bool = False

    @property
    def falls_silent(self) -> bool:
        """Whether `value` is NULL wherever the evaluation counts as failed."""
        return self.quiet or self.fails is None


@dataclass(frozen=True, slots=True)
class SparkLambda:
    """A compiled lambda argument: `body` and `fails` use the `parameters` as identifiers."""

    parameters: tuple[str, ...]
    body: exp.Expression
    fails: exp.Expression | None = None


@dataclass(frozen=True, slots=True)
class CallTypes:
    """The types of one call: arguments (None for an untyped NULL or a lambda), result, and session settings."""

    arguments: tuple[SqlType | None, ...]
    returns: SqlType
    settings: Mapping[str, str] = field(default_factory=dict)


Body = Callable[..., Any]
ReturnType = Callable[[tuple[SqlType | None, ...]], SqlType]


@dataclass(frozen=True, slots=True, kw_only=True)
class Scalar:
    """A scalar function; several declarations may share a `name` (overloads)."""

    name: str
    signatures: tuple[str, ...]
    body: Body
    runs: Runs
    nulls: Nulls
    with_types: bool
    returns: ReturnType | None
    printed: str
    doc: str
    deterministic: bool = True
    vector: Callable[..., pa.Array] | None = None
    """What a Python body does, for a whole column at once: arguments are Arrow arrays or constants, and nothing fails."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tabular:
    """A table function; the body gives an ARRAY of the declared return type, NULL counts as empty."""

    name: str
    signatures: tuple[str, ...]
    body: Body
    runs: Runs
    with_types: bool
    returns: ReturnType | None
    printed: str
    doc: str


class Fold(Enum):
    """What an aggregate does to a column of numbers, as `operators.aggregates.by_column` knows it; none of them can fail."""

    COUNT = "count"
    SUM = "sum"
    AVG = "avg"
    MIN = "min"
    MAX = "max"


@dataclass(frozen=True, slots=True, kw_only=True)
class Aggregator:
    """One aggregate, ready to run; states are plain values (None, bool, int, float, str, bytes, Decimal, list, dict).

    `aggregate(state, *arguments)` and `undo` may change `state` in place and return it. `undo` None means: streams only.
    """

    initialize: Callable[[], Any]
    aggregate: Callable[..., Any]
    merge: Callable[[Any, Any], Any]
    result: Callable[[Any], Any]
    undo: Callable[..., Any] | None = None
    mutates: bool = False
    """Whether old and new state share one object in ksqlDB, so that HAVING sees the new one twice."""
    numbered: bool = False
    """Whether `aggregate` gets, before the arguments, a number that grows with every call in the order of processing."""
    fold: Fold | None = None
    """What `aggregate` does, where it is one of the things that can be done to whole columns as well."""
    name: str = ""
    """The function that was called, for the message when it fails."""


@dataclass(frozen=True, slots=True)
class AggregateCall:
    """What an aggregate's factory gets: column argument types, result type, trailing literals, session settings."""

    arguments: tuple[SqlType | None, ...]
    returns: SqlType
    literals: tuple[Any, ...]
    settings: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Aggregate:
    """An aggregate function; `factory` makes the `Aggregator` of one call."""

    name: str
    signatures: tuple[str, ...]
    factory: Callable[[AggregateCall], Aggregator]
    returns: ReturnType | None
    undoable: bool
    intermediate: Callable[[tuple[SqlType | None, ...]], SqlType] | None
    printed: str
    doc: str


Function = Scalar | Tabular | Aggregate


class Options(TypedDict, total=False):
    """What the declaration of a scalar function may say besides its signatures.

    With `with_types` the body gets a `CallTypes` before the arguments. `returns` computes a result type that the
    signature text cannot say; `name` is that of the body unless given, `printed` the spelling in messages (rules U1).
    """

    nulls: Nulls
    with_types: bool
    returns: ReturnType | None
    name: str
    printed: str
    deterministic: bool


def scalar(*signatures: str, **options: Unpack[Options]) -> Callable[[Body], Scalar]:
    """Declare a native scalar function: the body maps Spark expressions to one (or to `Checked`)."""
    return lambda body: _declared(body, signatures, Runs.NATIVE, None, options)


def python_scalar(
    *signatures: str, vector: Callable[..., pa.Array] | None = None, **options: Unpack[Options]
) -> Callable[[Body], Scalar]:
    """Declare a scalar function whose body runs in Python, once per row; any exception is that row's error.

    `vector` does the same for a column at once (see `Scalar`).
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
        printed=options.get("printed") or name,
        doc=body.__doc__ or "",
        deterministic=options.get("deterministic", True),
        vector=vector,
    )


def tabular(
    *signatures: str,
    runs: Runs = Runs.NATIVE,
    with_types: bool = False,
    returns: ReturnType | None = None,
    name: str | None = None,
    printed: str | None = None,
) -> Callable[[Body], Tabular]:
    """Declare a table function; the signature's result is the type of one row."""

    def declare(body: Body) -> Tabular:
        declared = name or body.__name__.rstrip("_").upper()
        return Tabular(
            name=declared,
            signatures=signatures,
            body=body,
            runs=runs,
            with_types=with_types,
            returns=returns,
            printed=printed or declared,
            doc=body.__doc__ or "",
        )

    return declare


def aggregate(
    *signatures: str,
    undoable: bool,
    returns: ReturnType | None = None,
    intermediate: Callable[[tuple[SqlType | None, ...]], SqlType] | None = None,
    name: str | None = None,
    printed: str | None = None,
) -> Callable[[Callable[[AggregateCall], Aggregator]], Aggregate]:
    """Declare an aggregate; `intermediate` gives the type of its state where that is not its result type.

    In the signature text a parameter marked `literal` is a constant given at creation (`AggregateCall.literals`).
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
            printed=printed or declared,
            doc=factory.__doc__ or "",
        )

    return declare
