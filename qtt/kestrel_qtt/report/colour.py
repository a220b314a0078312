"""Colour the text of failures: what is expected in green, what is wrong in red."""

from __future__ import annotations

import re

from rich.text import Text

_HEADER = re.compile(r"^ *column +(?P<expected>expected +)actual$")
_LONG = re.compile(r"^ +(?P<word>expected|actual)  ")
_HEAD = re.compile(r"^(FAILED|ERROR|PASSED) ")
_CARET = re.compile(r"^ *\^+$")
_STYLES = {"expected": "green", "actual": "red"}


def coloured(text: str) -> Text:
    """Style the lines of a failure; a console that is no terminal prints them plain."""
    shown = Text()
    columns: tuple[int, int] | None = None
    for line in text.splitlines(keepends=True):
        styled, bare = Text(line), line.rstrip("\n")
        header = _HEADER.match(bare)
        if header:
            columns = header.start("expected"), header.end("expected")
            styled.stylize("dim")
        elif columns is not None and _is_row(bare, columns):
            styled.stylize("green", *columns)
            styled.stylize("red", columns[1])
        else:
            columns = None
            _style_line(styled, bare)
        shown.append(styled)
    return shown


def _is_row(line: str, columns: tuple[int, int]) -> bool:
    """Say whether a line has cells where the header has them."""
    return len(line) > columns[1] and line[columns[0] - 1] == " " and line[columns[0]] != " "


def _style_line(styled: Text, line: str) -> None:
    long = _LONG.match(line)
    if long:
        styled.stylize(_STYLES[long["word"]])
    elif _HEAD.match(line):
        styled.stylize("bold green" if line.startswith("PASSED") else "bold red", 0, line.index(" "))
    elif _CARET.match(line):
        styled.stylize("red")
    elif line.lstrip().startswith(("caused by ", "hint: ", "at ")):
        styled.stylize("cyan")
