"""Tables of docs/performance.md, written by the benchmarks that measure them.

A benchmark prints its table in Markdown. `INTO=docs/performance.md` also puts it into that file, between the marks
`<!-- table: NAME -->` and `<!-- end -->`.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Sequence
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
