"""Declares a function: one decorated Python function with its signatures as text and its docstring as manual.

The decorators only create values; `kestrel_sql.functions.table` lists the modules and indexes their functions.

A body takes Python values (see `kestrel_sql.types.sql_types`) and returns one; any exception is an error of its row.
By default a NULL argument makes the result NULL without a call of the body; `nulls` changes that.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from importlib import import_module
from typing import Any, SupportsIndex, TypedDict, Unpack

import msgspec

from kestrel_sql.types.sql_types import SqlType


class Nulls(Enum):
    """What a NULL argument does; the value is the text of the manual."""

    PROPAGATE = "the result is NULL"
    BODY = "the body decides"


class CallTypes(msgspec.Struct, frozen=True):
    """The types of one call: arguments (None for an untyped NULL or a lambda), result, and the session's settings."""

    arguments: tuple[SqlType | None, ...]
    returns: SqlType
    settings: Mapping[str, str] = {}


Body = Callable[..., Any]
ColumnBody = Callable[..., Any]
"""Takes an Arrow array for each argument, a scalar of Arrow, which is not NULL, for a constant, and returns an array.

For a lambda it takes a function of the rows of some calls, and of arrays of their arguments. It returns None where the
values may be others than those of the value body, or fail: it looks at its arguments first, and the value body runs.
"""
ReturnType = Callable[[tuple[SqlType | None, ...]], SqlType]
Calls = Callable[[Any], Iterable[tuple[Any, ...]]]
"""Returns what a body calls its lambdas with, in order, by the value of its first argument, which is not NULL."""


class _Declared:
    """A built-in function pickles by its name, as its body cannot: the name of the body is that of its declaration."""

    __slots__ = ()

    def __reduce_ex__(self, protocol: SupportsIndex) -> str | tuple[object, ...]:
        made = self.factory if isinstance(self, Aggregate) else self.body  # type: ignore[attr-defined]
        module, name = made.__module__, made.__name__
        if module.startswith("kestrel_sql.") and getattr(sys.modules.get(module), name, None) is self:
            return _declaration, (module, name)
        return super().__reduce_ex__(protocol)


def _declaration(module: str, name: str) -> object:
    return getattr(import_module(module), name)


@dataclass(frozen=True, slots=True, kw_only=True)
class Scalar(_Declared):
    """A scalar function; overloads are declarations with the same `name`."""

    name: str
    signatures: tuple[str, ...]
    body: Body
    nulls: Nulls = Nulls.PROPAGATE
    with_types: bool = False
    returns: ReturnType | None = None
    display_name: str
    doc: str
    deterministic: bool = True
    shown_names: Mapping[str, str] = field(default_factory=dict, compare=False)
    calls: Calls | None = None
    columns: ColumnBody | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Tabular(_Declared):
    """A table function; its body returns an ARRAY of the declared return type, and NULL counts as empty."""

    name: str
    signatures: tuple[str, ...]
    body: Body
    with_types: bool
    returns: ReturnType | None
    display_name: str
    doc: str


class Fold(Enum):
    """An operation that `operators.aggregates.column_folds` applies to a whole column of numbers without failing."""

    COUNT = "count"
    SUM = "sum"
    AVG = "avg"
    MIN = "min"
    MAX = "max"


class Aggregator(msgspec.Struct, frozen=True, kw_only=True):
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
    restored: Callable[[object], object] | None = None
    """Changes a state as ksqlDB's store does, which writes and reads it with each row (rule F10.2)."""
    name: str = ""
    """The name of the called function, for error messages."""


class AggregateCall(msgspec.Struct, frozen=True):
    """The input of an aggregate's factory: column argument types, result type, trailing literals, session settings."""

    arguments: tuple[SqlType | None, ...]
    returns: SqlType
    literals: tuple[Any, ...]
    settings: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Aggregate(_Declared):
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
    (rules U1). `shown_names` are what DESCRIBE FUNCTION calls parameters that ksqlDB shows under another name. `calls`
    is for a body whose other arguments are lambdas, each of which it calls with the same arguments in the same order.
    `columns` is a second body, over whole columns, where the first one is hot.
    """

    nulls: Nulls
    with_types: bool
    returns: ReturnType | None
    deterministic: bool
    shown_names: Mapping[str, str]
    calls: Calls | None
    columns: ColumnBody | None


class _Described(TypedDict):
    name: str
    display_name: str
    doc: str


def _described(body: Callable[..., object], name: str | None, display_name: str | None) -> _Described:
    """Return the name of a function, its spelling in messages, and the text of its manual."""
    declared = name or body.__name__.rstrip("_").upper()
    return {"name": declared, "display_name": display_name or declared, "doc": body.__doc__ or ""}


def scalar(
    *signatures: str, name: str | None = None, display_name: str | None = None, **options: Unpack[Options]
) -> Callable[[Body], Scalar]:
    """Declare a scalar function, whose body runs once per row."""
    return lambda body: Scalar(signatures=signatures, body=body, **options, **_described(body, name, display_name))


def tabular(
    *signatures: str,
    with_types: bool = False,
    returns: ReturnType | None = None,
    name: str | None = None,
    display_name: str | None = None,
) -> Callable[[Body], Tabular]:
    """Declare a table function; the result type of its signature is the type of one row."""
    return lambda body: Tabular(
        signatures=signatures,
        body=body,
        with_types=with_types,
        returns=returns,
        **_described(body, name, display_name),
    )


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
    return lambda factory: Aggregate(
        signatures=signatures,
        factory=factory,
        returns=returns,
        undoable=undoable,
        intermediate=intermediate,
        **_described(factory, name, display_name),
    )
