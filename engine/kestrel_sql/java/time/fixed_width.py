"""The patterns that most people write, digits at fixed places such as `yyyy-MM-dd HH:mm:ss.SSS`, without the machinery for all others.

What does not fit at once (another year, a wrong digit, a day that the month does not have) is None: the machinery decides.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import date
from functools import lru_cache

_DATE = ("yyyy", "MM", "dd")
_TIME = ("HH", "mm", "ss", "SSS")
_TOKEN = re.compile(r"(?P<unit>([A-Za-z])\2*)|'(?P<quoted>[^']+)'|(?P<plain>[^A-Za-z'\[\]{}#])")
_FIRST = date(1970, 1, 1).toordinal()


@dataclass(frozen=True, slots=True)
class Layout:
    """A pattern as a template for `str.format` and as a regular expression; `units` in the order of its groups."""

    template: str
    expression: re.Pattern[str]
    units: tuple[str, ...]
    has_date: bool
    has_time: bool

    def write(self, days: int, nanos: int) -> str | None:
        """Write a date (days since 1970-01-01) and a time (nanoseconds of the day) in the years 1 to 9999."""
        if not 1 <= days + _FIRST <= _LAST:
            return None
        day = date.fromordinal(days + _FIRST)
        second, fraction = divmod(nanos, 1_000_000_000)
        minute = second // 60
        return self.template.format(
            yyyy=day.year,
            MM=day.month,
            dd=day.day,
            HH=minute // 60,
            mm=minute % 60,
            ss=second % 60,
            SSS=fraction // 1_000_000,
        )

    def read(self, text: str) -> tuple[int, int] | None:
        """Read a date and a time, both 0 where the pattern has none."""
        found = self.expression.fullmatch(text)
        if found is None:
            return None
        given = dict(zip(self.units, map(int, found.groups()), strict=True))
        hour, minute, second = (given.get(unit, 0) for unit in _TIME[:3])
        if hour > 23 or minute > 59 or second > 59:
            return None
        try:
            days = date(given["yyyy"], given["MM"], given["dd"]).toordinal() - _FIRST if self.has_date else 0
        except ValueError:
            return None
        return days, ((hour * 60 + minute) * 60 + second) * 1_000_000_000 + given.get("SSS", 0) * 1_000_000


_LAST = date.max.toordinal()


@lru_cache(maxsize=1024)
def layout_of(pattern: str) -> Layout | None:
    """Take a pattern apart; None unless it has a whole date, the first units of a time, or both."""
    template: list[str] = []
    expression: list[str] = []
    units: list[str] = []
    at = 0
    while at < len(pattern):
        token = _TOKEN.match(pattern, at)
        if token is None:
            return None
        at = token.end()
        unit = token["unit"]
        if unit is None:
            literal = token["quoted"] or token["plain"]
            template.append(literal.replace("{", "{{").replace("}", "}}"))
            expression.append(re.escape(literal))
        elif unit in units or unit not in _DATE + _TIME:
            return None
        else:
            units.append(unit)
            template.append(f"{{{unit}:0{len(unit)}d}}")
            expression.append(f"([0-9]{{{len(unit)}}})")
    return _checked(
        Layout("".join(template), re.compile("".join(expression)), tuple(units), "yyyy" in units, "HH" in units)
    )


def _checked(layout: Layout) -> Layout | None:
    """A date lacks nothing, a time only units at its end."""
    dates = [unit for unit in _DATE if unit in layout.units]
    times = [unit for unit in _TIME if unit in layout.units]
    return layout if len(dates) in (0, len(_DATE)) and times == list(_TIME[: len(times)]) and layout.units else None
