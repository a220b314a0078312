"""The manual of the functions, `docs/functions.md`, written from their declarations.

`python -m kestrel_sql.functions.manual --check` says whether the file is what the declarations give; `--write` makes it so.
"""

from __future__ import annotations

import argparse
import inspect
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from kestrel_sql.functions.declaration import Aggregate, Function, Nulls, Scalar, Tabular
from kestrel_sql.functions.registry import Registry
from kestrel_sql.functions.table import FUNCTIONS

MANUAL = Path(__file__).parents[3] / "docs" / "functions.md"

_EXAMPLE = "Example: "
_HEAD = """# Functions

Written by `python -m kestrel_sql.functions.manual --write` from the declarations in `engine/kestrel_sql/functions/library/`; do not edit.
Every example of a scalar function is run by `tests/engine/functions/test_native.py`.

In a signature a single capital letter stands for one type per call, `...` for any number of arguments, `literal` for a
constant, and `NOT NULL` says that a NULL argument is an error.
"""
_KINDS = (("Scalar functions", Scalar), ("Table functions", Tabular), ("Aggregate functions", Aggregate))


def manual(functions: Registry = FUNCTIONS) -> str:
    """Write the manual of all functions, by kind and name."""
    parts = [_HEAD]
    for title, kind in _KINDS:
        names = [name for name in functions if isinstance(functions.get(name)[0].function, kind)]
        parts += [f"## {title}\n", " · ".join(f"[{name}](#{name.lower()})" for name in names) + "\n"]
        parts += [section for name in names for section in _sections(name, functions)]
    return "\n".join(parts)


def describe(function: Function) -> tuple[str, tuple[tuple[str, str], ...]]:
    """Give the description of a function and its examples, each a call and its result."""
    lines = inspect.cleandoc(function.doc).splitlines()
    examples = [line.removeprefix(_EXAMPLE).rsplit(" -> ", 1) for line in lines if line.startswith(_EXAMPLE)]
    text = "\n".join(line for line in lines if not line.startswith(_EXAMPLE)).strip()
    return text, tuple((example[0], example[-1] if len(example) > 1 else "") for example in examples)


def _sections(name: str, functions: Registry) -> Iterator[str]:
    yield f"### {name}\n"
    for function in dict.fromkeys(overload.function for overload in functions.get(name)):
        text, examples = describe(function)
        yield "```\n" + "\n".join(f"{name}{signature}" for signature in function.signatures) + "\n```\n"
        yield f"{text}\n"
        yield "\n".join(f"* {fact}" for fact in _facts(function)) + "\n"
        for call, result in examples:
            yield f"```sql\n{call}\n-- {result}\n```\n" if result else f"```sql\n{call}\n```\n"


def _facts(function: Function) -> Iterator[str]:
    if isinstance(function, Scalar):
        nulls = "the description says what it does" if function.nulls is Nulls.BODY else function.nulls.value
        yield f"NULL argument: {nulls}"
        yield f"Runs as: {function.runs.value}"
        if not function.deterministic:
            yield "Another result for each row"
    elif isinstance(function, Tabular):
        yield f"Runs as: {function.runs.value}"
    else:
        yield f"Over tables: {'yes, rows can be taken back' if function.undoable else 'no'}"
        yield "Runs as: stateful operator"


def main(arguments: Sequence[str] | None = None) -> int:
    """Check or write the manual; the exit code is 1 if it is out of date."""
    parser = argparse.ArgumentParser(
        prog="python -m kestrel_sql.functions.manual", description="The manual of the functions."
    )
    action = parser.add_mutually_exclusive_group(required=True)
    action.add_argument(
        "--check", action="store_true", help="fail if docs/functions.md is not what the declarations say"
    )
    action.add_argument("--write", action="store_true", help="write docs/functions.md")
    chosen = parser.parse_args(arguments)
    text = manual()
    if chosen.write:
        MANUAL.write_text(text, encoding="utf-8")
        return 0
    current = MANUAL.read_text(encoding="utf-8") if MANUAL.is_file() else ""
    if current == text:
        return 0
    sys.stderr.write(f"{MANUAL} is out of date: run python -m kestrel_sql.functions.manual --write\n")
    return 1


if __name__ == "__main__":
    sys.exit(main())
