from __future__ import annotations

from pathlib import Path

import pytest

from kestrel_sql.spark.runtime import class_archive as archive


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(archive, "own_folder", lambda: tmp_path)
    return archive.archive_path()


def test_without_an_archive_the_options_are_as_given(path: Path) -> None:
    assert archive.archive_options("-Xmx1g") == "-Xmx1g"


def test_an_archive_is_used_before_what_is_given(path: Path) -> None:
    path.touch()
    assert archive.archive_options("-Xmx1g") == f"-Xlog:disable -XX:SharedArchiveFile={path} -Xmx1g"


def test_a_session_that_makes_an_archive_uses_none(path: Path) -> None:
    path.touch()
    making = archive.making_options(path.with_suffix(".new"))
    assert archive.archive_options(making) == making
