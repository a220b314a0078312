"""Which parts of its outputs a case compares, and how."""

from __future__ import annotations

import re
from dataclasses import dataclass
from decimal import Decimal

_INDEX = re.compile(r"\[\d+\]")


@dataclass(frozen=True, slots=True, kw_only=True)
class Matching:
    """How outputs are compared: all columns, in order within a topic, exactly, unless the case says otherwise.

    `ignore` holds paths such as `value.UPDATED_AT` that are not compared. Where outputs are `unordered`, order counts
    only among records of one key. `tolerance` is how far a number with a fraction may be off.
    """

    ignore: tuple[str, ...] = ()
    unordered: bool = False
    tolerance: Decimal | None = None

    def __str__(self) -> str:
        """Describe what is compared loosely, for a report; empty if nothing is."""
        parts = [f"without {', '.join(self.ignore)}"] if self.ignore else []
        parts += ["in any order of keys"] if self.unordered else []
        parts += [f"fractions within {self.tolerance}"] if self.tolerance is not None else []
        return "; ".join(parts)

    def ignores(self, column: str) -> bool:
        """Say whether a column, such as `value.ITEMS[0].PRICE`, is at or below a path of `ignore`."""
        spelled = _INDEX.sub("", column).upper()
        return any(f"{spelled}.".startswith(f"{path.upper()}.") for path in self.ignore)
