"""Checkpoints that cannot be resumed from a copy."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from kestrel_qtt.plan_commands.resume import _move_paths, resume_copy
from kestrel_sql.errors import CheckpointError


@pytest.mark.rules("E12.10")
def test_a_checkpoint_that_ends_within_a_batch_is_refused(tmp_path: Path) -> None:
    for name in ("offsets/0", "commits/0", "offsets/1"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("", encoding="utf-8")
    unused: Any = None
    with pytest.raises(CheckpointError, match="its batch 1 was not finished"):
        resume_copy(unused, unused, tmp_path, [])


def test_a_state_schema_that_is_no_text_is_named(tmp_path: Path) -> None:
    file = tmp_path / "state" / "0" / "_metadata" / "v2" / "0"
    file.parent.mkdir(parents=True)
    file.write_bytes(b"\xff")
    with pytest.raises(CheckpointError, match="state/0/_metadata/v2/0 is not text"):
        _move_paths(tmp_path)
