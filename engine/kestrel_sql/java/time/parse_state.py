"""The state while a text is parsed by a pattern."""

from __future__ import annotations

import msgspec

from kestrel_sql.java.time.fields import Field
from kestrel_sql.java.time.zones import Zone


class ParseState(msgspec.Struct):
    """The fields read so far; `ignore_case` and `root` (use the language-neutral locale) come from the caller."""

    ignore_case: bool
    root: bool
    fields: dict[Field, int] = {}
    zone: Zone | None = None

    def put(self, name: Field, value: int, start: int, end: int) -> int:
        """Store a field and return `end`; return `~start` if it already has another value."""
        old = self.fields.setdefault(name, value)
        return end if old == value else ~start

    def starts(self, text: str, at: int, wanted: str) -> bool:
        """Whether `text` has `wanted` at position `at`."""
        if text.startswith(wanted, at):
            return True
        part = text[at : at + len(wanted)]
        return (
            self.ignore_case
            and len(part) == len(wanted)
            and (part.upper() == wanted.upper() or part.lower() == wanted.lower())
        )

    def copy(self) -> ParseState:
        """Return a copy, for the return to the start of an optional section that does not match."""
        return ParseState(self.ignore_case, self.root, dict(self.fields), self.zone)

    def restore(self, before: ParseState) -> None:
        """Forget what was read since `before` was copied."""
        self.fields, self.zone = before.fields, before.zone
