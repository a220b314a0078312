"""A fast path for the common patterns of fixed-width digits, such as `yyyy-MM-dd HH:mm:ss.SSS`.

It returns None for any text or value that does not fit (a year above 9999, a wrong digit, a day the month does not
have); the general implementation then decides.
"""

from __future__ import annotations

import re
from datetime import date
from functools import lru_cache

import msgspec

_DATE = ("yyyy", "MM", "dd")
_TIME = ("HH", "mm", "ss", "SSS")
_TOKEN = re.compile(r"(?P<unit>([A-Za-z])\2*)|'(?P<quoted>[^']+)'|(?P<plain>[^A-Za-z'\[\]{}#])")
_FIRST = date(1970, 1, 1).toordinal()


class Layout(msgspec.Struct, frozen=True):
    """A pattern as a template for `str.format` and as a regular expression; `units` are in the order of its groups."""

    template: str
    expression: re.Pattern[str]
    units: tuple[str, ...]
    has_date: bool
    has_time: bool
    parts: tuple[str | bytes, ...]
    """The units, and what is between them as bytes."""

    def write(self, days: int, nanos: int) -> str | None:
        """Write a date (days since 1970-01-01) and a time of day (ns); None outside of the years 1 to 9999."""
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
        """Read a date (days since 1970-01-01) and a time of day (ns), each 0 if the pattern lacks it."""
        match = self.expression.fullmatch(text)
        if match is None:
            return None
        values = dict(zip(self.units, map(int, match.groups()), strict=True))
        hour, minute, second = (values.get(unit, 0) for unit in _TIME[:3])
        if hour > 23 or minute > 59 or second > 59:
            return None
        try:
            days = date(values["yyyy"], values["MM"], values["dd"]).toordinal() - _FIRST if self.has_date else 0
        except ValueError:
            return None
        return days, ((hour * 60 + minute) * 60 + second) * 1_000_000_000 + values.get("SSS", 0) * 1_000_000


_LAST = date.max.toordinal()


@lru_cache(maxsize=1024)
def layout_of(pattern: str) -> Layout | None:
    """Return the layout of a pattern; None unless it has a complete date, the first units of a time, or both."""
    layout = any_layout_of(pattern)
    if layout is None:
        return None
    dates = [unit for unit in _DATE if unit in layout.units]
    times = [unit for unit in _TIME if unit in layout.units]
    return layout if len(dates) in (0, len(_DATE)) and times == list(_TIME[: len(times)]) else None


@lru_cache(maxsize=1024)
def any_layout_of(pattern: str) -> Layout | None:
    """Return the layout of a pattern of these units, whichever it has; it is complete enough for writing."""
    template: list[str] = []
    expression: list[str] = []
    units: list[str] = []
    parts: list[str | bytes] = []
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
            try:
                parts.append(literal.encode())
            except UnicodeEncodeError:
                # Half of a surrogate pair has no bytes.
                return None
        elif unit in units or unit not in _DATE + _TIME:
            return None
        else:
            units.append(unit)
            parts.append(unit)
            template.append(f"{{{unit}:0{len(unit)}d}}")
            expression.append(f"([0-9]{{{len(unit)}}})")
    compiled = re.compile("".join(expression))
    is_date, is_time = any(unit in _DATE for unit in units), any(unit in _TIME for unit in units)
    return Layout("".join(template), compiled, tuple(units), is_date, is_time, tuple(parts)) if units else None
