"""Files of statements: which ones a path names and in which order, what they run, and what only ksqlDB writes (R15)."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from kestrel_sql.errors import StatementError, unreadable
from kestrel_sql.sql.parse.parser import place_of, placed_text
from kestrel_sql.sql.parse.tokens import StatementTokens

SUFFIXES = (".sql", ".ksql")
_NUMBER = re.compile(r"(\d+)")
_POLICIES = {"STREAM": ("delete",), "TABLE": ("compact", "compact,delete")}


def script_files(paths: Sequence[Path]) -> list[Path]:
    """Return files as they are, and instead of each folder the scripts below it, V2__b.sql before V10__a.sql.

    Raises:
        StatementError: a folder has no scripts.
    """
    return [file for path in paths for file in (scripts_below(path) if path.is_dir() else [path])]


def scripts_below(folder: Path) -> list[Path]:
    """Return the scripts below a folder in the order of migrations: numbers in names count by their value.

    Raises:
        StatementError: there are none.
    """
    found = [
        file
        for file in folder.rglob("*")
        if file.suffix.lower() in SUFFIXES
        and file.is_file()
        and not any(part.startswith(".") for part in file.relative_to(folder).parts)
    ]
    if not found:
        raise StatementError(f"{folder} has no scripts", hint=f"files of statements end in {' or '.join(SUFFIXES)}")
    return sorted(found, key=lambda file: [_pieces(part) for part in file.relative_to(folder).parts])


def _pieces(name: str) -> tuple[list[str | int], str]:
    """What a name is sorted by; texts and numbers alternate, so that only alike are compared."""
    return [int(piece) if at % 2 else piece for at, piece in enumerate(_NUMBER.split(name))], name


def read_script(file: Path, named: str | Path | None = None) -> str:
    """Return the text of a script, which messages call by the name that it was `named` by.

    Raises:
        StatementError: it cannot be read.
    """
    try:
        return file.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise StatementError(f"the script {named or file} cannot be read: {unreadable(error)}") from error


def words_of(piece: StatementTokens) -> list[str]:
    """Return what tells the commands of the prompt from statements: words in upper case, and the kinds of the rest."""
    return [token.upper() if token.type == "IDENTIFIER" else token.type for token in piece.tokens]


def run_script(piece: StatementTokens, folder: Path, running: Sequence[Path]) -> tuple[Path, str]:
    """Return the file that RUN SCRIPT names, whose path is relative to `folder`, and its text.

    Raises:
        StatementError: it cannot be read, is empty, or is one of the scripts that are `running`.
    """
    path = piece.tokens[2][1:-1].replace("''", "'")
    file = (folder / path).resolve()
    if file in running:
        raise StatementError(f"the script {path} runs itself")
    text = read_script(file, path)
    if not text.strip():
        raise StatementError(f"the script {path} is empty")
    return file, text


def statement_text(piece: StatementTokens) -> str:
    """Return the text of a statement at its place in the whole text, without what only ksqlDB may write.

    ksqlDB shows a CREATE with the CLEANUP_POLICY that it chose, which it refuses when it gets the text back, and for
    tables without windows with a RETENTION_MS that has no effect. They become blanks.
    """
    text, begin = piece.text, (piece.tokens[0].start_pos or 0) if piece.tokens else 0
    for start, end in _additions(piece):
        text = text[: start - begin] + re.sub(r"\S", " ", text[start - begin : end - begin]) + text[end - begin :]
    return placed_text(text, place_of(piece))


def _additions(piece: StatementTokens) -> Iterator[tuple[int, int]]:
    words = words_of(piece)
    kind = next((word for word in words[1:4] if word in _POLICIES), None)
    if words[:1] != ["CREATE"] or kind is None or "CLEANUP_POLICY" not in words:
        return
    at = words.index("CLEANUP_POLICY")
    policy = piece.tokens[at + 2].strip("'") if words[at + 1 : at + 3] == ["EQ", "STRING_VALUE"] else None
    if policy not in _POLICIES[kind]:
        return
    yield _property(piece, words, at)
    if policy == "compact" and "RETENTION_MS" in words:
        yield _property(piece, words, words.index("RETENTION_MS"))


def _property(piece: StatementTokens, words: Sequence[str], at: int) -> tuple[int, int]:
    """The offsets of `NAME = value` with the comma that belongs to it."""
    tokens, last = piece.tokens, at
    while last + 1 < len(words) and words[last + 1] not in ("COMMA", "RPAR"):
        last += 1
    if words[last + 1 : last + 2] == ["COMMA"]:
        last += 1
    elif words[at - 1] == "COMMA":
        at -= 1
    return tokens[at].start_pos or 0, tokens[last].end_pos or 0
