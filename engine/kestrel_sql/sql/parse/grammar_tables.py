"""Builds lark's parser, and stores its tables beside Python's byte code.

To compute them takes ten times as long as to load them.

The file is read as byte code is: by `marshal`, from the folder of the package. Where that cannot be written, or Python
is told to write no byte code, every process computes the tables.
"""

from __future__ import annotations

import contextlib
import hashlib
import marshal
import os
import sys
from importlib.util import cache_from_source
from pathlib import Path

import lark
from lark import Lark
from lark.grammar import Rule
from lark.lexer import TerminalDef


def parser_of(grammar: Path, starts: list[str], transformer: object) -> Lark:
    """Give the LALR parser of the grammar file, whose trees go through `transformer`."""
    text = grammar.read_text("utf-8")
    key = hashlib.sha256(f"{lark.__version__} {starts} {text}".encode()).hexdigest()
    path = Path(cache_from_source(str(grammar)))
    stored = _stored(path, key)
    if stored is not None:
        loaded: Lark = Lark._load_from_dict(*stored, transformer=transformer)  # type: ignore[no-untyped-call]
        return loaded
    # The basic lexer: with the contextual one, a reserved word would become a name where no keyword may follow.
    built = Lark(
        text,
        parser="lalr",
        lexer="basic",
        start=starts,
        keep_all_tokens=True,
        maybe_placeholders=False,
        transformer=transformer,
    )
    if not sys.dont_write_bytecode:
        _store(path, key, built)
    return built


def _stored(path: Path, key: str) -> tuple[object, object] | None:
    """The tables in a file, None where it is absent, damaged, or of another grammar or lark."""
    try:
        stored_key, data, memo = marshal.loads(path.read_bytes())
    except (OSError, EOFError, ValueError, TypeError):
        return None
    return (data, memo) if stored_key == key else None


def _store(path: Path, key: str, built: Lark) -> None:
    data, memo = built.memo_serialize([TerminalDef, Rule])
    del data["options"]["transformer"]
    fresh = path.with_suffix(f".{os.getpid()}")
    with contextlib.suppress(OSError):
        path.parent.mkdir(exist_ok=True)
        fresh.write_bytes(marshal.dumps((key, data, memo)))
        fresh.replace(path)
