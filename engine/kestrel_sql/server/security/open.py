"""The security of a server from its settings."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import msgspec

from kestrel_sql.errors import EngineError
from kestrel_sql.server.security.access import Access, Principal
from kestrel_sql.server.security.audit import AuditLog
from kestrel_sql.server.security.gate import Authenticate
from kestrel_sql.server.security.tokens import Tokens
from kestrel_sql.server.security.users import read_users


class SecuritySettings(msgspec.Struct, frozen=True, kw_only=True):
    """Who may ask; without users and keys everybody on this machine may do everything."""

    users: Path | None = None
    jwks: str | None = None
    issuer: str | None = None
    audience: str | None = None
    origins: tuple[str, ...] = ()
    audit_log: Path | None = None

    def authenticate(self) -> Authenticate | None:
        """What checks Authorization headers.

        Raises:
            EngineError: the users file, or that of the keys, cannot be read.
        """
        checks: list[Authenticate] = []
        if self.users is not None:
            checks.append(read_users(self.users))
        if self.jwks is not None:
            checks.append(Tokens.of(self.jwks, self.issuer, self.audience))
        return _any_of(checks) if checks else None

    def access(self) -> Access:
        """What checks statements.

        Raises:
            EngineError: the audit log cannot be written.
        """
        if self.audit_log is None:
            return Access()
        try:
            return Access(AuditLog.open(self.audit_log))
        except OSError as error:
            raise EngineError(f"the audit log {self.audit_log} cannot be written: {error.strerror}") from error


def _any_of(checks: Sequence[Authenticate]) -> Authenticate:
    async def authenticate(header: str) -> Principal | None:
        for check in checks:
            found = await check(header)
            if found is not None:
                return found
        return None

    return authenticate
