"""The ends of the last batch in the topic of a table, as they stand beside a checkpoint."""

from __future__ import annotations

from pathlib import Path

import pytest

from kestrel_sql.server.broker.tables import save_ends, saved_ends


def test_the_last_ends_are_read_again(tmp_path: Path) -> None:
    save_ends(tmp_path, {("sums", 0): 7, ("sums", 1): 0})
    save_ends(tmp_path, {("sums", 0): 9, ("sums", 1): 12})
    assert saved_ends(tmp_path) == {("sums", 0): 9, ("sums", 1): 12}


@pytest.mark.parametrize("text", [None, "", '{"sums": {"0"', "[]", '{"sums": 1}', '{"sums": {"x": 1}}'])
def test_without_ends_that_can_be_read_there_are_none(tmp_path: Path, text: str | None) -> None:
    if text is not None:
        (tmp_path / "table.json").write_text(text)
    assert saved_ends(tmp_path) is None
