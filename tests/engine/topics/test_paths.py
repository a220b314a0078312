from __future__ import annotations

from pathlib import Path

import pytest

from kestrel_sql.topics.paths import path_part


@pytest.mark.rules("L6.23")
@pytest.mark.parametrize("name", ["../x", "..", ".", "/etc/passwd", "a/../../b", "a\\b", "%2F", "x\0y", ".hidden"])
def test_no_name_leads_out_of_its_folder(tmp_path: Path, name: str) -> None:
    path = tmp_path / f"{path_part(name)}.jsonl"
    path.write_text("", encoding="utf-8")
    assert path.resolve().parent == tmp_path


@pytest.mark.rules("L6.23")
def test_names_of_topics_and_queries_stay_as_they_are_and_others_stay_apart() -> None:
    assert [path_part(name) for name in ("CSAS_OUT_0", "a.b-c_D", "größe")] == ["CSAS_OUT_0", "a.b-c_D", "größe"]
    assert len({path_part(name) for name in ("a/b", "a%2Fb", "a\\b", "ab")}) == 4
