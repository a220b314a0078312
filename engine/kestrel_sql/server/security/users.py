"""Users of a file, with hashed passwords and roles: basic authentication."""

from __future__ import annotations

import asyncio
import base64
import binascii
import hashlib
import time
from collections.abc import Mapping
from pathlib import Path

import msgspec
import yaml
from argon2 import PasswordHasher
from argon2.exceptions import InvalidHashError, VerificationError

from kestrel_sql.errors import EngineError, unreadable
from kestrel_sql.server.security.access import ROLES, Grant, Principal

_REMEMBERED_S = 300.0
"""How long a password that was right is not hashed again: hashing takes as long as hundreds of pull queries."""

_MAX_CACHED_BYTES = 10_000

_hasher = PasswordHasher()


def hash_password(password: str) -> str:
    """The argon2 hash that a users file holds for a password."""
    return _hasher.hash(password)


def parse_grant(text: str) -> Grant:
    """Read `ROLE` or `ROLE:PATTERN`.

    Raises:
        ValueError: there is no such role.
    """
    role, _, pattern = text.partition(":")
    if role not in ROLES:
        raise ValueError(f"unknown role {role!r}, expected one of {', '.join(ROLES)}")
    return Grant(role, pattern or "*")


class Users(msgspec.Struct):
    """Checks the Authorization headers of basic authentication."""

    hashes: dict[str, str]
    principals: dict[str, Principal]
    _right: dict[bytes, tuple[float, Principal]] = {}
    _unknown: str = msgspec.field(default_factory=lambda: _hasher.hash("of nobody"))

    async def __call__(self, header: str) -> Principal | None:
        """The user of a header, None if name or password are wrong; the check of an unknown name takes as long."""
        scheme, _, credentials = header.partition(" ")
        if scheme.lower() != "basic":
            return None
        digest = hashlib.sha256(credentials.encode()).digest()
        remembered = self._right.get(digest)
        if remembered is not None and remembered[0] > time.monotonic():
            return remembered[1]
        try:
            name, _, password = base64.b64decode(credentials, validate=True).decode().partition(":")
        except (binascii.Error, UnicodeDecodeError):
            return None
        if (
            not await asyncio.to_thread(_matches, self.hashes.get(name, self._unknown), password)
            or name not in self.hashes
        ):
            return None
        if len(self._right) >= _MAX_CACHED_BYTES:
            self._right.clear()
        self._right[digest] = time.monotonic() + _REMEMBERED_S, self.principals[name]
        return self.principals[name]


def _matches(hashed: str, password: str) -> bool:
    try:
        return _hasher.verify(hashed, password)
    except (VerificationError, InvalidHashError):
        return False


def read_users(path: Path) -> Users:
    """Read a users file: `{NAME: {password: HASH, roles: [ROLE:PATTERN, …]}}` in YAML.

    Raises:
        EngineError: the file cannot be read, or is no such file.
    """
    try:
        content = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise EngineError(f"{path} cannot be read: {unreadable(error)}") from error
    except yaml.YAMLError as error:
        raise EngineError(f"{path} is not YAML: {error}") from error
    if not isinstance(content, dict) or not content:
        raise EngineError(
            f"{path}: a users file is a mapping of names", hint="alice: {password: $argon2id$…, roles: [read]}"
        )
    return Users(
        {str(name): _hash(path, name, entry) for name, entry in content.items()},
        {str(name): Principal(str(name), _grants(path, name, entry)) for name, entry in content.items()},
    )


def _hash(path: Path, name: object, entry: object) -> str:
    hashed = entry.get("password") if isinstance(entry, dict) else None
    if not isinstance(hashed, str) or not hashed.startswith("$argon2"):
        raise EngineError(
            f"{path}: the password of {name} is not an argon2 hash", hint="`kestrel serve --hash-password` makes one"
        )
    return hashed


def _grants(path: Path, name: object, entry: Mapping[str, object]) -> tuple[Grant, ...]:
    roles = entry.get("roles", [])
    if not isinstance(roles, list):
        raise EngineError(f"{path}: the roles of {name} are a list such as [read, insert:ORDERS_*]")
    try:
        return tuple(parse_grant(str(role)) for role in roles)
    except ValueError as error:
        raise EngineError(f"{path}: {name}: {error}") from error
