"""Tables of docs/performance.md and docs/reliability.md, written by the commands that measure them.

A command prints its table in Markdown. `INTO=docs/performance.md` also puts it into that file, between the marks
`<!-- table: NAME -->` and `<!-- end -->`.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path


def write_table(name: str, columns: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """Print a table, and put it into the file that `INTO` names, if any.

    Raises:
        ValueError: the file has no marks of this name.
    """
    lines = [columns, ["---"] * len(columns), *rows]
    table = "\n".join(f"| {' | '.join(line)} |" for line in lines)
    print(table, flush=True)
    if into := os.environ.get("INTO"):
        put(Path(into), name, table)


def write_rows(name: str, columns: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """Write a table whose rows are measured by several runs: in the file, rows with another first cell stay.

    Raises:
        ValueError: the file has no marks of this name.
    """
    known = {row[0]: row for row in _rows(name)} | {row[0]: row for row in rows}
    write_table(name, columns, [known[first] for first in sorted(known)])


def _rows(name: str) -> Iterator[list[str]]:
    """The rows of a table in the file that `INTO` names, if any."""
    if into := os.environ.get("INTO"):
        _, _, table = Path(into).read_text(encoding="utf-8").partition(f"<!-- table: {name} -->")
        for line in table.partition("<!-- end -->")[0].strip().splitlines()[2:]:
            yield line.strip("| ").split(" | ")


def put(file: Path, name: str, table: str) -> None:
    """Replace what is between the marks of a name.

    Raises:
        ValueError: the file has no marks of this name.
    """
    text, found = re.subn(
        rf"(<!-- table: {re.escape(name)} -->\n).*?(<!-- end -->)",
        lambda marks: f"{marks[1]}\n{table}\n\n{marks[2]}",
        file.read_text(encoding="utf-8"),
        flags=re.DOTALL,
    )
    if not found:
        raise ValueError(f"{file} has no <!-- table: {name} -->")
    file.write_text(text, encoding="utf-8")
