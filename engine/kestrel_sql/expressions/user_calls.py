"""Calls of functions that a user wrote: their errors, and values that are not of the declared type."""

from __future__ import annotations

import traceback
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import msgspec

from kestrel_sql.types import sql_types as t
from kestrel_sql.types.sql_types import SqlType


class UserFunctionError(Exception):
    """A user's function failed; the message is the cause in the processing log (rules E12.6)."""


class Tracing(msgspec.Struct):
    """Describes the errors of a user's function; the first of a kind at a line has its Python trace (rules E12.6)."""

    name: str
    _traced: set[tuple[type, int]] = set()

    def __call__(self, error: Exception) -> str:
        """Return the text of an error."""
        frames = error.__traceback__.tb_next if error.__traceback__ else None
        last = traceback.extract_tb(frames)[-1:]
        line = last[0].lineno or 0 if last else 0
        text = f"{self.name} raised {type(error).__name__}: {error}"
        if (type(error), line) in self._traced:
            return text
        self._traced.add((type(error), line))
        trace = "".join(traceback.format_exception(type(error), error, frames))
        return f"{text}\n{trace.rstrip()}"


def of_a_user(name: str, body: Callable[..., object], returns: SqlType) -> Callable[..., object]:
    """Return a user's function; what it raises, or returns of another type, becomes a UserFunctionError."""
    describe = Tracing(name)

    def call(*values: object) -> object:
        try:
            value = body(*values)
        except Exception as error:
            raise UserFunctionError(describe(error)) from error
        if not _is_of(value, returns):
            raise UserFunctionError(f"the function returned a value that is not of type {returns}: {value!r}")
        return float(value) if returns == t.DOUBLE and isinstance(value, int | float) else value

    return call


_CLASSES: dict[SqlType, tuple[type, ...]] = {
    t.BOOLEAN: (bool,),
    t.DOUBLE: (float, int),
    t.STRING: (str,),
    t.BYTES: (bytes,),
}


def _is_of(value: object, sql_type: SqlType) -> bool:
    match sql_type:
        case _ if value is None:
            return True
        case t.Decimal():
            return isinstance(value, Decimal)
        case t.Array(item):
            return isinstance(value, list | tuple) and all(_is_of(each, item) for each in value)
        case t.Map(key, item):
            return isinstance(value, dict) and all(_is_of(k, key) and _is_of(v, item) for k, v in value.items())
        case t.Struct():
            return isinstance(value, dict)
        case _ if sql_type in _BITS:
            return isinstance(value, int) and _fits(value, _BITS[sql_type])
        case _:
            return isinstance(value, _CLASSES[sql_type])


_BITS: dict[SqlType, int] = {t.INTEGER: 31, t.DATE: 31, t.BIGINT: 63, t.TIMESTAMP: 63, t.TIME: 63}


def _fits(value: Any, bits: int) -> bool:
    return bool(-(1 << bits) <= value < 1 << bits)
