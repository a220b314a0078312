"""The folder of Spark's sockets, wherever temporary files are."""

from __future__ import annotations

import shutil
import socket
import tempfile
from pathlib import Path
from uuid import uuid4

import pytest

from kestrel_sql.spark.runtime import sockets

ACCEPTED = 61
"""The longest folder, in bytes, that Spark accepts for its sockets."""


@pytest.mark.parametrize("letter", ["x", "\u00e9"])
@pytest.mark.parametrize("length", range(30, 91))
def test_sockets_fit_below_any_folder_for_temporary_files(
    length: int, letter: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    usual = Path(tempfile.mkdtemp(dir="/tmp"))
    deep = usual / (letter * (length - len(str(usual)) - 1))
    deep.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(deep))
    folder = Path(sockets._own_folder.__wrapped__())
    try:
        assert len(str(folder).encode()) <= ACCEPTED
        assert (folder.parent == deep) == (len(str(deep).encode()) <= 44)
        with socket.socket(socket.AF_UNIX) as opened:
            opened.bind(str(folder / f".{uuid4()}.sock"))
    finally:
        shutil.rmtree(usual)
        shutil.rmtree(folder, ignore_errors=True)
