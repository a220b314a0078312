"""What is known while a text is read by a pattern."""

from __future__ import annotations

from dataclasses import dataclass, field

from kestrel_sql.java.time.fields import Field
from kestrel_sql.java.time.zones import Zone


@dataclass(slots=True)
class Parsing:
    """The fields read so far; `ignore_case` and `root` (texts without a language) are those of the pattern."""

    ignore_case: bool
    root: bool
    fields: dict[Field, int] = field(default_factory=dict)
    zone: Zone | None = None

    def put(self, name: Field, value: int, start: int, end: int) -> int:
        """Note a field and return `end`; `~start` if it was read before with another value."""
        old = self.fields.setdefault(name, value)
        return end if old == value else ~start

    def starts(self, text: str, at: int, wanted: str) -> bool:
        """Whether `wanted` is in `text` at a position."""
        if text.startswith(wanted, at):
            return True
        part = text[at : at + len(wanted)]
        return (
            self.ignore_case
            and len(part) == len(wanted)
            and (part.upper() == wanted.upper() or part.lower() == wanted.lower())
        )

    def copy(self) -> Parsing:
        """A copy, to come back to where an optional section does not fit."""
        return Parsing(self.ignore_case, self.root, dict(self.fields), self.zone)

    def restore(self, before: Parsing) -> None:
        """Forget what was read since `before` was copied."""
        self.fields, self.zone = before.fields, before.zone
