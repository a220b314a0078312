r"""Java's regular expressions on Python's engine.

Spark could run them in the JVM, but there a bad pattern ends the query instead of failing one row, and a group that took
no part in a match gives an empty text instead of NULL. What this does not translate (`\G`, `\X`, look-behinds of varying
length, rare properties) counts as a bad pattern.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache, reduce

from kestrel_sql.java.regex import character_classes as sets

_BREAKS = r"\n\r\x85\u2028\u2029"
_LINE_END = rf"\r\n|[{_BREAKS}]"
_SETS: Mapping[str, str] = {
    "h": r" \t\xa0\u1680\u180e\u2000-\u200a\u202f\u205f\u3000",
    "v": r"\n\x0b\f\r\x85\u2028\u2029",
    "d": "0-9",
    "w": "a-zA-Z_0-9",
    "s": r" \t\n\x0b\f\r",
}
_POSIX: Mapping[str, str] = {
    "Lower": "a-z",
    "Upper": "A-Z",
    "ASCII": r"\x00-\x7f",
    "Alpha": "a-zA-Z",
    "Digit": "0-9",
    "Alnum": "a-zA-Z0-9",
    "Punct": r"!-/:-@\[-`{-~",
    "Graph": "!-~",
    "Print": " -~",
    "Blank": r" \t",
    "Cntrl": r"\x00-\x1f\x7f",
    "XDigit": "0-9a-fA-F",
    "Space": r" \t\n\x0b\f\r",
}
_ALIASES: Mapping[str, str] = {
    "IsAlphabetic": "L",
    "IsLetter": "L",
    "IsDigit": "Nd",
    "IsUppercase": "Lu",
    "IsLowercase": "Ll",
    "IsPunctuation": "P",
}
_PLAIN = {"t": r"\t", "n": r"\n", "r": r"\r", "f": r"\f", "a": r"\a", "e": r"\x1b"}
_REPEAT = re.compile(r"\{\d+(,\d*)?\}")
_FLAGS = re.compile(r"\(\?([a-zA-Z]*)(?:-([a-zA-Z]+))?([:)])")


class BadPatternError(ValueError):
    """A pattern or replacement that Java refuses, or that is not translated."""


@lru_cache(maxsize=1024)
def compile_pattern(pattern: str) -> re.Pattern[str]:
    """Compile a pattern of `java.util.regex`.

    Raises:
        BadPatternError: the pattern is malformed.
    """
    try:
        return re.compile(_Translator(pattern).run(), re.ASCII)
    except (re.error, OverflowError, IndexError) as error:
        raise BadPatternError(f"bad regular expression {pattern!r}: {error}") from None


def matches(pattern: re.Pattern[str], value: str) -> Iterator[re.Match[str]]:
    """Give the matches that repeated calls of `Matcher.find` give."""
    at = 0
    while at <= len(value) and (found := pattern.search(value, at)) is not None:
        yield found
        at = found.end() + (found.end() == found.start())


def replace_all(pattern: re.Pattern[str], value: str, replacement: str) -> str:
    r"""Do what `String.replaceAll` does; `$1`, `${name}` and `\` are special in `replacement`.

    Raises:
        BadPatternError: the replacement is malformed or names a group that does not exist.
    """
    if "$" not in replacement and "\\" not in replacement:
        return pattern.sub(replacement, value)
    parts = []
    end = 0
    for found in matches(pattern, value):
        parts += [value[end : found.start()], *_expanded(replacement, found)]
        end = found.end()
    return "".join((*parts, value[end:]))


def split(pattern: re.Pattern[str], value: str) -> list[str]:
    """Do what `Pattern.split` does: empty parts at the end, and one before a leading empty match, are dropped."""
    parts = split_all(pattern, value, skip_leading=True)
    while len(parts) > 1 and not parts[-1]:
        parts.pop()
    return parts if parts != [""] or not value else []


def split_all(pattern: re.Pattern[str], value: str, *, skip_leading: bool = False) -> list[str]:
    """Split at every match and keep all parts."""
    parts = []
    end = 0
    for found in matches(pattern, value):
        if skip_leading and found.end() == 0:
            continue
        parts.append(value[end : found.start()])
        end = found.end()
    return [*parts, value[end:]]


def _expanded(replacement: str, found: re.Match[str]) -> Iterator[str]:
    at = 0
    while at < len(replacement):
        if replacement[at] == "\\":
            if at + 1 == len(replacement):
                raise BadPatternError("character to be escaped is missing")
            yield replacement[at + 1]
            at += 2
        elif replacement[at] == "$":
            group, at = _reference(replacement, at + 1, found)
            yield found.group(group) or ""
        else:
            yield replacement[at]
            at += 1


def _reference(replacement: str, at: int, found: re.Match[str]) -> tuple[int | str, int]:
    named = re.compile(r"\{([a-zA-Z][a-zA-Z0-9]*)\}").match(replacement, at)
    if named is not None:
        if named.group(1) not in found.re.groupindex:
            raise BadPatternError(f"No group with name {named.group(0)}")
        return named.group(1), named.end()
    if at == len(replacement) or not "0" <= replacement[at] <= "9":
        raise BadPatternError("Illegal group reference")
    group = int(replacement[at])
    if group > found.re.groups:
        raise BadPatternError(f"No group {group}")
    at += 1
    while (
        at < len(replacement) and "0" <= replacement[at] <= "9" and group * 10 + int(replacement[at]) <= found.re.groups
    ):
        group = group * 10 + int(replacement[at])
        at += 1
    return group, at


class _Translator:
    """Translates one pattern; flags set in the middle hold to the end of their group, as in Java."""

    def __init__(self, pattern: str) -> None:
        self.pattern = pattern
        self.at = 0
        self.flags: list[frozenset[str]] = [frozenset()]
        self.opened: list[list[str]] = [[]]
        self.actions: Mapping[str, Callable[[], str]] = {
            "\\": self.escape,
            "[": self.character_class,
            "(": self.open,
            ")": self.close,
            "|": self.alternative,
            ".": self.dot,
            "^": self.start,
            "$": self.end,
            "{": self.repetition,
        }

    def run(self) -> str:
        parts = []
        while self.at < len(self.pattern):
            character = self.pattern[self.at]
            action = self.actions.get(character)
            if action is not None:
                parts.append(action())
            else:
                parts.append(character)
                self.at += 1
        if len(self.opened) != 1:
            raise BadPatternError(f"unclosed group in {self.pattern!r}")
        return "".join(parts) + ")" * len(self.opened[0])

    def open(self) -> str:
        flags = _FLAGS.match(self.pattern, self.at)
        if flags is not None:
            self.at = flags.end()
            return self.set_flags(flags.group(1), flags.group(2) or "", scoped=flags.group(3) == ":")
        self.flags.append(self.flags[-1])
        self.opened.append([])
        for java, python in (
            ("(?<=", "(?<="),
            ("(?<!", "(?<!"),
            ("(?<", "(?P<"),
            ("(?=", "(?="),
            ("(?!", "(?!"),
            ("(?>", "(?>"),
        ):
            if self.pattern.startswith(java, self.at):
                self.at += len(java)
                return python
        if self.pattern.startswith("(?", self.at):
            raise BadPatternError(f"unknown group in {self.pattern!r}")
        self.at += 1
        return "("

    def set_flags(self, on: str, off: str, *, scoped: bool) -> str:
        if set(on + off) - set("imsxudU"):
            raise BadPatternError(f"unknown flag in {self.pattern!r}")
        now = (self.flags[-1] | set(on)) - set(off)
        # Python's letters are ASCII here unless a group says otherwise; it cannot say that they are not Unicode.
        for_python = "".join(flag for flag in "ixu" if flag in on) + ("a" if "u" in off else "")
        not_for_python = "".join(flag for flag in "ix" if flag in off)
        opening = f"(?{for_python}{'-' if not_for_python else ''}{not_for_python}:"
        if scoped:
            self.flags.append(now)
            self.opened.append([])
        else:
            self.flags[-1] = now
            self.opened[-1].append(opening)
        return opening

    def alternative(self) -> str:
        """End the flag groups that were opened in this alternative and open them again in the next."""
        self.at += 1
        return ")" * len(self.opened[-1]) + "|" + "".join(self.opened[-1])

    def close(self) -> str:
        if len(self.opened) == 1:
            raise BadPatternError(f"unmatched closing ')' in {self.pattern!r}")
        self.at += 1
        self.flags.pop()
        return ")" * (len(self.opened.pop()) + 1)

    def dot(self) -> str:
        self.at += 1
        return r"[\s\S]" if "s" in self.flags[-1] else f"[^{_BREAKS}]"

    def start(self) -> str:
        self.at += 1
        return rf"(?:\A|(?<=[{_BREAKS}])(?!\Z))" if "m" in self.flags[-1] else r"\A"

    def end(self) -> str:
        self.at += 1
        return rf"(?={_LINE_END}|\Z)" if "m" in self.flags[-1] else rf"(?=(?:{_LINE_END})?\Z)"

    def repetition(self) -> str:
        found = _REPEAT.match(self.pattern, self.at)
        if found is None:
            raise BadPatternError(f"illegal repetition in {self.pattern!r}")
        self.at = found.end()
        return found.group()

    def escape(self) -> str:
        name = self.pattern[self.at + 1 : self.at + 2]
        if name == "Q":
            return re.escape(self.quoted())
        anchors = {
            "A": r"\A",
            "z": r"\Z",
            "Z": rf"(?=(?:{_LINE_END})?\Z)",
            "b": r"\b",
            "B": r"\B",
            "R": f"(?:{_LINE_END}|[\\x0b\\f])",
        }
        if name in anchors:
            self.at += 2
            return anchors[name]
        if name == "k":
            end = self.pattern.index(">", self.at) if ">" in self.pattern[self.at :] else len(self.pattern)
            group, self.at = self.pattern[self.at + 3 : end], end + 1
            return f"(?P={group})"
        if name.isdigit() and name != "0":
            self.at += 2
            return rf"(?:\{name})"
        members, negated = self.members()
        if negated:
            return f"[^{members}]"
        return f"[{members}]" if len(members) > 1 else members

    def quoted(self) -> str:
        end = self.pattern.find(r"\E", self.at)
        text = self.pattern[self.at + 2 : end if end >= 0 else None]
        self.at = len(self.pattern) if end < 0 else end + 2
        return text

    def members(self) -> tuple[str, bool]:
        """Read an escape as members of a class, and whether they are excluded."""
        name = self.pattern[self.at + 1 : self.at + 2]
        self.at += 2
        if not name:
            raise BadPatternError("pattern ends with a backslash")
        if name.lower() in _SETS:
            return _SETS[name.lower()], name.isupper()
        if name in "pP":
            return self.property(), name == "P"
        if name in _PLAIN:
            return _PLAIN[name], False
        if name in "xu0c":
            return sets.character(self.code(name)), False
        if name.isascii() and name.isalpha():
            raise BadPatternError(f"unknown escape \\{name}")
        return sets.character(ord(name)), False

    def property(self) -> str:
        if self.pattern[self.at : self.at + 1] == "{":
            end = self.pattern.find("}", self.at)
            name, self.at = self.pattern[self.at + 1 : end], end + 1
        else:
            name = self.pattern[self.at : self.at + 1]
            self.at += 1
        return _POSIX[name] if name in _POSIX else _category(_ALIASES.get(name, name.removeprefix("Is")))

    def code(self, kind: str) -> int:
        forms = {
            "x": r"\{([0-9a-fA-F]+)\}|([0-9a-fA-F]{2})",
            "u": r"u*([0-9a-fA-F]{4})",
            "0": r"([0-3]?[0-7]{1,2})",
            "c": r"(.)",
        }
        found = re.compile(forms[kind]).match(self.pattern, self.at)
        if found is None:
            raise BadPatternError(f"illegal escape \\{kind}")
        self.at = found.end()
        text = next(group for group in found.groups() if group is not None)
        return ord(text) ^ 64 if kind == "c" else int(text, 8 if kind == "0" else 16)

    def character_class(self) -> str:
        members, negated = self.class_body()
        if not members:
            return r"[\s\S]" if negated else "(?!)"
        return f"[{'^' if negated else ''}{members}]"

    def class_body(self) -> tuple[str, bool]:
        """Read a class as its members, and whether they are excluded; classes within it join it, `&&` cuts what stands at its sides."""
        self.at += 1
        negated = self.pattern[self.at : self.at + 1] == "^"
        self.at += negated
        sides: list[list[str]] = [[]]
        while self.at < len(self.pattern):
            character = self.pattern[self.at]
            if character == "]" and any(sides):
                self.at += 1
                given = ["".join(side) for side in sides if side]
                return reduce(sets.intersection, given), negated
            if self.pattern.startswith("&&", self.at):
                self.at += 2
                sides.append([])
            else:
                sides[-1].append(self.class_item(character))
        raise BadPatternError(f"unclosed character class in {self.pattern!r}")

    def class_item(self, character: str) -> str:
        if character == "[":
            members, negated = self.class_body()
            return sets.complement(members) if negated else members
        if self.pattern.startswith(r"\Q", self.at):
            return "".join(sets.character(ord(c)) for c in self.quoted())
        if character == "\\":
            members, negated = self.members()
            return sets.complement(members) if negated else members
        self.at += 1
        return "-" if character == "-" else sets.character(ord(character))


def _category(name: str) -> str:
    members = sets.category(name)
    if not members:
        raise BadPatternError(f"unknown character property {name}")
    return members
