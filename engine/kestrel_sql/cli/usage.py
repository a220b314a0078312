"""Refuses values that an option does not have, and options that have no effect where they stand."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable
from enum import StrEnum
from typing import TypedDict

from kestrel_sql.errors import UsageError

_LAST_PORT = 65_535


class _OneOf(TypedDict):
    type: Callable[[str], StrEnum]
    choices: list[StrEnum]


class _Pairs(TypedDict):
    action: str
    default: list[object]
    type: Callable[[str], tuple[str, object]]
    metavar: str


def one_of(kind: type[StrEnum]) -> _OneOf:
    """The arguments of an option whose value is a member of an enumeration."""

    def read(text: str) -> StrEnum:
        try:
            return kind(text)
        except ValueError:
            raise argparse.ArgumentTypeError(f"expected {' or '.join(kind)}, got {text!r}") from None

    return {"type": read, "choices": list(kind)}


def pairs_of(shape: str, value_of: Callable[[str], object] = str) -> _Pairs:
    """The arguments of an option such as NAME=VALUE, which may be repeated."""

    def read(text: str) -> tuple[str, object]:
        name, separator, value = text.partition("=")
        if not (name and separator and (value or value_of is str)):
            raise argparse.ArgumentTypeError(f"expected {shape}, got {text!r}")
        return name, value_of(value)

    return {"action": "append", "default": [], "type": read, "metavar": shape}


def count_option(text: str) -> int:
    """The number above 0 that an option has.

    Raises:
        ArgumentTypeError: it is none.
    """
    if not text.isdecimal() or int(text) == 0:
        raise argparse.ArgumentTypeError(f"expected a number above 0, got {text!r}")
    return int(text)


def port_option(text: str) -> int:
    """The port that an option has; 0 takes a free one.

    Raises:
        ArgumentTypeError: it is none.
    """
    if not text.isdecimal() or int(text) > _LAST_PORT:
        raise argparse.ArgumentTypeError(f"expected a port up to {_LAST_PORT}, got {text!r}")
    return int(text)


def address_option(text: str) -> tuple[str, int]:
    """The host, by default this machine, and the port that an option has.

    Raises:
        ArgumentTypeError: it is none.
    """
    host, _, port = text.rpartition(":")
    try:
        return host.strip("[]") or "127.0.0.1", port_option(port)
    except argparse.ArgumentTypeError:
        raise argparse.ArgumentTypeError(f"expected HOST:PORT or PORT, got {text!r}") from None


def metrics_option(text: str) -> tuple[str, int]:
    """The same of an address that others must know: a free port, which nobody knows, is none.

    Raises:
        ArgumentTypeError: it is none.
    """
    host, port = address_option(text)
    if not port:
        raise argparse.ArgumentTypeError(f"expected HOST:PORT or PORT, got {text!r}")
    return host, port


def refuse(arguments: argparse.Namespace, names: Iterable[str], where: str, hint: str) -> None:
    """Refuse options that were given; an option that was not given is None, False or empty.

    Args:
        arguments: the parsed options.
        names: the attributes of the options, such as `batch_records`.
        where: where they have no effect, such as "over topics in memory".
        hint: what to do.

    Raises:
        UsageError: names all of them.
    """
    given = [f"--{name.replace('_', '-')}" for name in names if getattr(arguments, name, None) not in (None, False, [])]
    if given:
        verb = "has" if len(given) == 1 else "have"
        raise UsageError(f"{', '.join(given)} {verb} no effect {where}", hint=hint)
