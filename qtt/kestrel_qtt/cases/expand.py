"""Expand `format` and `config` into concrete cases with names and ids (rules Q3)."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

import msgspec

from kestrel_qtt.cases.decode import DecodeError, Members, listed, optional, required
from kestrel_qtt.cases.model import Json

FORMAT = "{FORMAT}"
CONFIG = "{CONFIG}"


class Variant(msgspec.Struct, frozen=True):
    """One point of the matrix: the expanded name, the last part of the id, and what the axes change."""

    name: str
    slug: str
    statements: tuple[str, ...]
    properties: Mapping[str, Json]
    format: str | None
    config: str | None


def expand(members: Members, stem: str) -> Iterator[Variant]:
    """Expand the case `members` of the file called `stem`; raise DecodeError where an axis does not fit the case."""
    name = required(members, "name", str)
    statements = listed(members, "statements", str)
    properties: Mapping[str, Json] = optional(members, "properties", dict) or {}
    if not statements:
        raise DecodeError("`statements` is missing or empty")
    formats: Sequence[str | None] = listed(members, "format", str) or [None]
    configs: Sequence[str | None] = listed(members, "config", str) or [None]
    holder = _config_property(properties) if configs != [None] else None
    for wire in formats:
        for value in configs:
            config = None if value is None else f"{holder}={value}"
            yield Variant(
                name=" - ".join(part for part in (stem, name, wire, config) if part),
                slug=slug(name) + "".join(f"[{part}]" for part in (wire, config) if part),
                statements=tuple(statements if wire is None else (s.replace(FORMAT, wire) for s in statements)),
                properties=properties if holder is None else {**properties, holder: value},
                format=wire,
                config=config,
            )


def slug(name: str) -> str:
    """The kebab form of a name: letters and digits of any script in lower case, everything else a hyphen."""
    return re.sub(r"[\W_]+", "-", name.lower()).strip("-") or "case"


def _config_property(properties: Mapping[str, Json]) -> str:
    holders = [name for name, value in properties.items() if isinstance(value, str) and value.upper() == CONFIG]
    if len(holders) != 1:
        raise DecodeError(f"`config` needs exactly one property with the value {CONFIG}, there are {len(holders)}")
    return holders[0]
