"""The properties of ksqlDB, Kafka Streams, consumers and producers, and the values that each takes (rule L8.2)."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Mapping
from importlib.resources import files
from types import MappingProxyType

from kestrel_sql.java.numbers import parse_int

STREAMS_PREFIX = "ksql.streams."

_CLIENT_PREFIXES = ("consumer.", "producer.")
_BITS = {"short": 16, "int": 32, "long": 64}
_IN_ANY_CASE = "(in any case)"

Check = Callable[[str], str | None]
"""Says what is wrong with a value, None if nothing is."""


@functools.cache
def known_properties() -> Mapping[str, Check]:
    """Return what checks the value of each property, by its name without a prefix."""
    table: dict[str, Check] = {}
    check: Check = _any
    for line in files(__package__).joinpath("known_properties.txt").read_text(encoding="utf-8").splitlines():
        if line.startswith(" "):
            table.update(dict.fromkeys(line.split(), check))
        else:
            check = _check(line.removesuffix(":"))
    return MappingProxyType(table)


def bare_name(name: str) -> str:
    """Return a name without the prefixes that ksqlDB looks past, such as that of `ksql.streams.consumer.check.crcs`."""
    bare = name.removeprefix(STREAMS_PREFIX)
    bare = next((bare.removeprefix(each) for each in _CLIENT_PREFIXES if bare.startswith(each)), bare)
    return name if bare.startswith("ksql.") else bare


def _any(_: str) -> None:
    return None


def boolean(text: str) -> str | None:
    """Check a value that is true or false."""
    return None if text.strip().lower() in ("true", "false") else "Expected value to be either true or false"


def _check(kind: str) -> Check:
    """Return the check of a line such as "boolean", "int from 0 to 9", "one of a b" or "text"."""
    word, _, rest = kind.partition(" ")
    match word:
        case "text":
            return _any
        case "boolean":
            return boolean
        case "one":
            return _choice(rest.removeprefix("of ").split(_IN_ANY_CASE)[-1].split(), in_any_case=_IN_ANY_CASE in rest)
        case _:
            low, _, high = rest.removeprefix("from ").partition(" to ")
            return _number(word, float(low or -math.inf), float(high or math.inf))


def _choice(choices: list[str], *, in_any_case: bool) -> Check:
    said = f"String must be one of: {', '.join(choices)}"
    known = {choice.upper() for choice in choices} if in_any_case else set(choices)
    return lambda text: None if (text.upper() if in_any_case else text) in known else said


def _number(kind: str, low: float, high: float) -> Check:
    bits = _BITS.get(kind)

    def check(text: str) -> str | None:
        try:
            value: float = float(text) if bits is None else parse_int(text.strip())
        except ValueError:
            return f"Not a number of type {kind.upper()}"
        if bits is not None and not -(1 << bits - 1) <= value < 1 << bits - 1:
            return f"Not a number of type {kind.upper()}"
        if value < low:
            return f"Value must be at least {low:.15g}"
        return f"Value must be no more than {high:.15g}" if value > high else None

    return check
