"""The folder in which this user alone may write and look, for what must have a name known beforehand."""

from __future__ import annotations

import stat
from pathlib import Path

from kestrel_sql.errors import EngineError
from kestrel_sql.systems import user_id, user_name


def private_folder(parent: Path) -> Path:
    """Return the folder of this user in a folder that others may write to, too; make it if it is missing.

    Raises:
        EngineError: somebody else owns it, others may enter it, or it cannot be made.
    """
    folder = parent / f"kestrel-{user_name()}"
    try:
        folder.mkdir(mode=0o700, exist_ok=True)
        found = folder.lstat()
    except OSError as error:
        raise EngineError(f"{folder} cannot be used: {error.strerror}", hint="set TMPDIR to another folder") from error
    is_own = user_id() is None or (found.st_uid == user_id() and not found.st_mode & 0o077)
    if not stat.S_ISDIR(found.st_mode) or not is_own:
        raise EngineError(
            f"{folder} is not a folder that you alone may enter", hint="remove it, or set TMPDIR to another folder"
        )
    return folder
