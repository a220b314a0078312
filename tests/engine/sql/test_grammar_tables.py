"""The tables of the grammar are computed once, and never those of another grammar."""

from __future__ import annotations

import sys
from importlib.util import cache_from_source
from pathlib import Path

import pytest
from lark import Lark, Transformer, v_args

from kestrel_sql.sql.parse import grammar_tables
from kestrel_sql.sql.parse.grammar_tables import parser_of

GRAMMAR = """
total: NUMBER ("+" NUMBER)*
NUMBER: /[0-9]+/
"""


@v_args(inline=True)
class Adding(Transformer[object, int]):
    def total(self, *numbers: str) -> int:
        return sum(int(number) for number in numbers[::2])


@pytest.fixture
def built(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The grammars whose tables were computed."""
    texts: list[str] = []

    class Watched(Lark):
        def __init__(self, grammar: str, **options: object) -> None:
            texts.append(grammar)
            super().__init__(grammar, **options)

    monkeypatch.setattr(grammar_tables, "Lark", Watched)
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    return texts


@pytest.fixture
def grammar(tmp_path: Path) -> Path:
    path = tmp_path / "a.lark"
    path.write_text(GRAMMAR)
    return path


def value(grammar: Path, text: str = "1+20") -> object:
    return parser_of(grammar, ["total"], Adding()).parse(text, start="total")


def test_the_second_process_loads_what_the_first_computed(grammar: Path, built: list[str]) -> None:
    assert [value(grammar), value(grammar)] == [21, 21]
    assert len(built) == 1
    assert [path.name for path in Path(cache_from_source(str(grammar))).parent.iterdir()] == [
        Path(cache_from_source(str(grammar))).name
    ]


def test_another_grammar_is_computed_anew(grammar: Path, built: list[str]) -> None:
    value(grammar)
    grammar.write_text(GRAMMAR.replace('"+"', '"and"'))
    assert value(grammar, "1and20") == 21
    assert len(built) == 2


@pytest.mark.parametrize("content", [b"", b"nonsense", None])
def test_a_damaged_file_is_replaced(grammar: Path, built: list[str], content: bytes | None) -> None:
    value(grammar)
    stored = Path(cache_from_source(str(grammar)))
    stored.write_bytes(stored.read_bytes()[:-9] if content is None else content)
    assert [value(grammar), value(grammar)] == [21, 21]
    assert len(built) == 2


def test_nothing_is_written_where_no_byte_code_is(
    grammar: Path, built: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    assert [value(grammar), value(grammar)] == [21, 21]
    assert len(built) == 2
    assert [path.name for path in grammar.parent.iterdir()] == ["a.lark"]


def test_a_folder_that_cannot_be_written_is_no_problem(grammar: Path, built: list[str]) -> None:
    Path(cache_from_source(str(grammar))).parent.write_text("not a folder")
    assert [value(grammar), value(grammar)] == [21, 21]
