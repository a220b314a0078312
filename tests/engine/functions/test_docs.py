from __future__ import annotations

from kestrel_sql.functions import manual as docs
from kestrel_sql.functions.declaration import scalar
from kestrel_sql.functions.registry import build_registry
from kestrel_sql.functions.table import FUNCTIONS


def test_the_manual_is_up_to_date():
    assert docs.main(["--check"]) == 0, "run python -m kestrel_sql.functions.manual --write"


def test_the_manual_has_every_function():
    text = docs.manual()
    assert [name for name in FUNCTIONS if f"\n### {name}\n" not in text] == []


def test_a_section_has_signatures_description_and_example():
    @scalar("(a INT) -> INT", "(a BIGINT) -> BIGINT")
    def twice(a):
        """Double it.

        More of it.

        Example: TWICE(2) -> 4
        """

    text = docs.manual(build_registry([twice]))
    assert "```\nTWICE(a INT) -> INT\nTWICE(a BIGINT) -> BIGINT\n```" in text
    assert "Double it.\n\nMore of it.\n" in text
    assert "* NULL argument: the result is NULL\n" in text
    assert "```sql\nTWICE(2)\n-- 4\n```" in text


def test_check_fails_for_an_outdated_manual(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(docs, "MANUAL", tmp_path / "functions.md")
    assert docs.main(["--check"]) == 1
    assert "--write" in capsys.readouterr().err
    assert docs.main(["--write"]) == 0
    assert docs.main(["--check"]) == 0
