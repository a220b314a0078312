"""Load the functions that a case may call: the built-in ones, and those of the sources that it names."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from pathlib import Path

from kestrel_qtt.drivers.driver import DriverError
from kestrel_sql.errors import FunctionError
from kestrel_sql.functions.registry import Registry
from kestrel_sql.functions.user_functions import functions_with


def functions_from(sources: Sequence[str | Path]) -> Registry:
    """Return the built-in functions and those of `sources`, which are modules or Python files; each list runs once.

    Raises:
        FunctionError: a source cannot be loaded.
    """
    return _registry(tuple(sources))


def check_functions(sources: Sequence[Path]) -> None:
    """Load the functions of Python files, so that a mistake is reported before any case runs.

    Raises:
        DriverError: a file cannot be loaded, or declares no function.
    """
    try:
        functions_from(sources)
    except FunctionError as error:
        raise DriverError(error.render()) from error


def forget_functions() -> None:
    """Drop all loaded functions, because a file has changed; the next case loads them again."""
    _registry.cache_clear()


@cache
def _registry(sources: tuple[str | Path, ...]) -> Registry:
    return functions_with(sources)
