from __future__ import annotations

import pytest

from kestrel_sql.java import letters


@pytest.mark.parametrize("text", ["", "aBc", "straße İı ǆ ŉ ΐ", "ΑΣ ΣΑΣ. Σ", "😀𐐨𐐀", "x\ud83d", "e\u0301É"])
@pytest.mark.parametrize("piece", [1, 2, 100])
def test_case_in_pieces_is_that_of_the_whole(text: str, piece: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(letters, "_PIECE", piece)
    assert (letters.upper(text), letters.lower(text)) == (text.upper(), text.lower())
