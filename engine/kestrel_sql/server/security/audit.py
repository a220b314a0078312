"""The audit log: one line of JSON for each statement of each user."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import TextIO

import msgspec

from kestrel_sql.server.secrets import without_secrets
from kestrel_sql.server.security.access import Principal


class AuditLog(msgspec.Struct):
    """Writes lines to a file that is open for appending; values of properties that hold secrets are left out."""

    file: TextIO

    @staticmethod
    def open(path: Path) -> AuditLog:
        """Append to `path`.

        Raises:
            OSError: it cannot be written.
        """
        return AuditLog(path.open("a", encoding="utf-8", buffering=1))

    def __call__(self, user: Principal, what: str, outcome: str) -> None:
        """Write a line."""
        stamp = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        line = {"time": stamp, "user": user.name, "outcome": outcome, "statement": without_secrets(what)}
        self.file.write(json.dumps(line, ensure_ascii=False) + "\n")
