r"""Translates Java's regular expressions to Python's.

Constructs not translated (`\G`, `\X`, variable-length lookbehind, rare properties, references to groups that end
later) count as invalid patterns.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache, reduce

from kestrel_sql.java.regex import character_classes as sets
from kestrel_sql.java.utf16 import whole

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
_LOW_HALF = re.compile(r"\\u([dD][c-fC-F][0-9a-fA-F]{2})")
_REPEAT = re.compile(r"\{\d+(,\d*)?\}")
_DIGITS = frozenset("0123456789")
_NOTHING = "(?:(?!))"
_FLAGS = re.compile(r"\(\?([a-zA-Z]*)(?:-([a-zA-Z]+))?([:)])")


class BadPatternError(ValueError):
    """A pattern or replacement that Java rejects, or that this module does not translate."""


@lru_cache(maxsize=1024)
def compile_pattern(pattern: str) -> re.Pattern[str]:
    """Compile a pattern of `java.util.regex`.

    Raises:
        BadPatternError: the pattern is invalid.
    """
    try:
        return re.compile(_Translator(pattern).run(), re.ASCII)
    except RecursionError:
        # Its own words depend on where in the stack it was raised.
        raise BadPatternError(f"bad regular expression {pattern!r}: it is nested too deeply") from None
    except (re.error, OverflowError, IndexError) as error:
        raise BadPatternError(f"bad regular expression {pattern!r}: {error}") from None


def matches(pattern: re.Pattern[str], value: str) -> Iterator[re.Match[str]]:
    """Yield the matches that repeated calls of `Matcher.find` return."""
    at = 0
    while at <= len(value) and (match := pattern.search(value, at)) is not None:
        yield match
        at = match.end() + (match.end() == match.start())


def replace_all(pattern: re.Pattern[str], value: str, replacement: str, most: int) -> str:
    r"""Replace every match as `String.replaceAll` does; `$1`, `${name}` and `\` are special in `replacement`.

    Raises:
        BadPatternError: the replacement is malformed or names a group that does not exist.
        ValueError: what comes in place of the matches has more than `most` characters.
    """
    is_plain = "$" not in replacement and "\\" not in replacement
    if is_plain and (len(value) + 1) * len(replacement) <= most:
        return pattern.sub(replacement, value)
    parts = []
    end = made = 0
    for match in matches(pattern, value):
        new = replacement if is_plain else "".join(_expanded(replacement, match))
        made += len(new)
        if made > most:
            raise ValueError(f"the result would have more than {most} characters")
        parts += [value[end : match.start()], new]
        end = match.end()
    return "".join((*parts, value[end:]))


def split(pattern: re.Pattern[str], value: str) -> list[str]:
    """Split as `Pattern.split` does: drop empty parts at the end, and one before an empty match at the start."""
    parts = split_all(pattern, value, skip_leading=True)
    while len(parts) > 1 and not parts[-1]:
        parts.pop()
    return parts if parts != [""] or not value else []


def split_all(pattern: re.Pattern[str], value: str, *, skip_leading: bool = False) -> list[str]:
    """Split at every match and return all parts."""
    parts = []
    end = 0
    for match in matches(pattern, value):
        if skip_leading and match.end() == 0:
            continue
        parts.append(value[end : match.start()])
        end = match.end()
    return [*parts, value[end:]]


def _expanded(replacement: str, match: re.Match[str]) -> Iterator[str]:
    at = 0
    while at < len(replacement):
        if replacement[at] == "\\":
            if at + 1 == len(replacement):
                raise BadPatternError("character to be escaped is missing")
            yield replacement[at + 1]
            at += 2
        elif replacement[at] == "$":
            group, at = _reference(replacement, at + 1, match)
            yield match.group(group) or ""
        else:
            yield replacement[at]
            at += 1


def _reference(replacement: str, at: int, match: re.Match[str]) -> tuple[int | str, int]:
    named = re.compile(r"\{([a-zA-Z][a-zA-Z0-9]*)\}").match(replacement, at)
    if named is not None:
        if named.group(1) not in match.re.groupindex:
            raise BadPatternError(f"No group with name {named.group(0)}")
        return named.group(1), named.end()
    if at == len(replacement) or not "0" <= replacement[at] <= "9":
        raise BadPatternError("Illegal group reference")
    group = int(replacement[at])
    if group > match.re.groups:
        raise BadPatternError(f"No group {group}")
    at += 1
    while (
        at < len(replacement) and "0" <= replacement[at] <= "9" and group * 10 + int(replacement[at]) <= match.re.groups
    ):
        group = group * 10 + int(replacement[at])
        at += 1
    return group, at


def _reference_to(group: int) -> str:
    return rf"(?:\{group})"


class _Translator:
    """Translates one pattern; a flag set inside a group holds to the end of the group, as in Java."""

    def __init__(self, pattern: str) -> None:
        self.pattern = pattern
        self.at = 0
        self.flags: list[frozenset[str]] = [frozenset()]
        self.flag_groups: list[list[str]] = [[]]
        self.groups = 0
        self.references: set[int] = set()
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
        if len(self.flag_groups) != 1:
            raise BadPatternError(f"unclosed group in {self.pattern!r}")
        # Nothing matches a reference to a group that the pattern does not have.
        absent = {_reference_to(number) for number in self.references if number > self.groups}
        return "".join(_NOTHING if part in absent else part for part in parts) + ")" * len(self.flag_groups[0])

    def open(self) -> str:
        flags = _FLAGS.match(self.pattern, self.at)
        if flags is not None:
            self.at = flags.end()
            return self.set_flags(flags.group(1), flags.group(2) or "", scoped=flags.group(3) == ":")
        self.flags.append(self.flags[-1])
        self.flag_groups.append([])
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
                self.groups += java == "(?<"
                return python
        if self.pattern.startswith("(?", self.at):
            raise BadPatternError(f"unknown group in {self.pattern!r}")
        self.at += 1
        self.groups += 1
        return "("

    def set_flags(self, on: str, off: str, *, scoped: bool) -> str:
        if set(on + off) - set("imsxudU"):
            raise BadPatternError(f"unknown flag in {self.pattern!r}")
        flags = (self.flags[-1] | set(on)) - set(off)
        # Classes are ASCII here (re.ASCII) unless a group sets "u"; "a" resets that, because Python lacks "-u".
        for_python = "".join(flag for flag in "ixu" if flag in on) + ("a" if "u" in off else "")
        not_for_python = "".join(flag for flag in "ix" if flag in off)
        opening = f"(?{for_python}{'-' if not_for_python else ''}{not_for_python}:"
        if scoped:
            self.flags.append(flags)
            self.flag_groups.append([])
        else:
            self.flags[-1] = flags
            self.flag_groups[-1].append(opening)
        return opening

    def alternative(self) -> str:
        """End the flag groups opened in this alternative and reopen them in the next."""
        self.at += 1
        return ")" * len(self.flag_groups[-1]) + "|" + "".join(self.flag_groups[-1])

    def close(self) -> str:
        if len(self.flag_groups) == 1:
            raise BadPatternError(f"unmatched closing ')' in {self.pattern!r}")
        self.at += 1
        self.flags.pop()
        return ")" * (len(self.flag_groups.pop()) + 1)

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
        match = _REPEAT.match(self.pattern, self.at)
        if match is None:
            raise BadPatternError(f"illegal repetition in {self.pattern!r}")
        self.at = match.end()
        return match.group()

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
        if name and name in "123456789":
            return self.reference()
        members, negated = self.members()
        if negated:
            return f"[^{members}]"
        return f"[{members}]" if len(members) > 1 else members

    def reference(self) -> str:
        """Read a reference to a group; a second digit belongs to it if so many groups have begun."""
        number, self.at = int(self.pattern[self.at + 1]), self.at + 2
        while (
            self.pattern[self.at : self.at + 1] in _DIGITS and 10 * number + int(self.pattern[self.at]) <= self.groups
        ):
            number, self.at = 10 * number + int(self.pattern[self.at]), self.at + 1
        self.references.add(number)
        return _reference_to(number)

    def quoted(self) -> str:
        end = self.pattern.find(r"\E", self.at)
        text = self.pattern[self.at + 2 : end if end >= 0 else None]
        self.at = len(self.pattern) if end < 0 else end + 2
        return text

    def members(self) -> tuple[str, bool]:
        """Read an escape as the members of a class, and whether the class is negated."""
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
        if name.isascii() and name.isalnum():
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
        match = re.compile(forms[kind]).match(self.pattern, self.at)
        if match is None:
            raise BadPatternError(f"illegal escape \\{kind}")
        self.at = match.end()
        text = next(group for group in match.groups() if group is not None)
        code = ord(text) ^ 64 if kind == "c" else int(text, 8 if kind == "0" else 16)
        low = _LOW_HALF.match(self.pattern, self.at) if kind == "u" and 0xD800 <= code < 0xDC00 else None
        if low is None:
            return code
        self.at = low.end()
        return ord(whole(chr(code) + chr(int(low[1], 16))))

    def character_class(self) -> str:
        members, negated = self.class_body()
        if not members:
            return r"[\s\S]" if negated else "(?!)"
        return f"[{'^' if negated else ''}{members}]"

    def class_body(self) -> tuple[str, bool]:
        """Read a class as its members, and whether it is negated; nested classes form a union, `&&` an intersection."""
        self.at += 1
        negated = self.pattern[self.at : self.at + 1] == "^"
        self.at += negated
        operands: list[list[str]] = [[]]
        while self.at < len(self.pattern):
            character = self.pattern[self.at]
            if character == "]" and any(operands):
                self.at += 1
                non_empty = ["".join(operand) for operand in operands if operand]
                return reduce(sets.intersection, non_empty), negated
            if self.pattern.startswith("&&", self.at):
                self.at += 2
                operands.append([])
            else:
                operands[-1].append(self.class_item(character))
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
