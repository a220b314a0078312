"""Case files as plain values with their lines, before cases are decoded."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias

import msgspec

from kestrel_qtt.cases.model import Json

JsonPath: TypeAlias = "Sequence[str | int]"


class TextError(Exception):
    """The text is not JSON, or not the YAML subset that we read; `line` counts from 1."""

    def __init__(self, line: int, message: str) -> None:
        super().__init__(message)
        self.line = line
        self.message = message


class RawItem(msgspec.Struct, frozen=True):
    """One element of the `tests` list; `locate` gives the line of a path inside it, `error` says why it has no data."""

    data: Json
    line: int
    locate: Callable[[JsonPath], int]
    lines_of: Callable[[str], Sequence[int]]
    error: TextError | None = None


class RawFile(msgspec.Struct, frozen=True):
    """A case file: its members besides `tests`, and the elements of `tests` (None where there is no such list)."""

    head: Mapping[str, Json]
    items: tuple[RawItem, ...] | None
    locate: Callable[[JsonPath], int]
