"""Bearer tokens: JSON Web Tokens signed by a key of a JWKS."""

from __future__ import annotations

import asyncio
import json
import time
import urllib.request
from pathlib import Path

import msgspec
from joserfc import jwt
from joserfc.errors import JoseError
from joserfc.jwk import KeySet

from kestrel_sql.errors import EngineError, unreadable
from kestrel_sql.server.security.access import Principal
from kestrel_sql.server.security.users import parse_grant

ALGORITHMS = ["RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA"]
"""Asymmetric ones only: a key that the server can check with must not be one that it could sign with."""

_REFRESH_S = 60.0
"""How long keys are kept before a token with an unknown key has them fetched again."""

_FETCH_S = 10.0


class Tokens(msgspec.Struct):
    """Checks the Authorization headers of bearer authentication.

    Keys come from `jwks`, a file or an https URL. A token needs a subject, an expiry, an issuer and an audience, the
    ones given where they are given, and the claim `claim` with a list of `ROLE:PATTERN`; its subject is the name of the
    user.
    """

    jwks: str
    issuer: str | None = None
    audience: str | None = None
    claim: str = "kestrel_roles"
    _keys: KeySet | None = None
    _fetched: float = 0.0

    @classmethod
    def of(cls, jwks: str, issuer: str | None = None, audience: str | None = None) -> Tokens:
        """Read the keys of a file at once; those of a URL are fetched once there is a token, and may be away before.

        Raises:
            EngineError: the file cannot be read.
        """
        return cls(jwks, issuer, audience, _keys=None if _is_url(jwks) else _read_keys(jwks))

    async def __call__(self, header: str) -> Principal | None:
        """The user of a header, None if the token is not valid."""
        scheme, _, token = header.partition(" ")
        if scheme.lower() != "bearer":
            return None
        if self._keys is None:
            await self.load()
        found = self._checked(token.strip())
        if found is None and time.monotonic() - self._fetched > _REFRESH_S:
            await self.load()
            found = self._checked(token.strip())
        return found

    async def load(self) -> None:
        """Read the keys.

        Raises:
            EngineError: they cannot be read.
        """
        self._fetched = time.monotonic()
        self._keys = await asyncio.to_thread(_read_keys, self.jwks)

    def _checked(self, token: str) -> Principal | None:
        try:
            claims = jwt.decode(token, self._keys or KeySet([]), algorithms=ALGORITHMS).claims
            self._required().validate(claims)
            grants = tuple(parse_grant(str(each)) for each in _listed(claims.get(self.claim)))
        except (JoseError, ValueError):
            return None
        return Principal(str(claims["sub"]), grants)

    def _required(self) -> jwt.JWTClaimsRegistry:
        needed = jwt.ClaimsOption(essential=True)
        return jwt.JWTClaimsRegistry(
            leeway=30,
            exp=needed,
            sub=needed,
            iss=needed if self.issuer is None else jwt.ClaimsOption(essential=True, value=self.issuer),
            aud=needed if self.audience is None else jwt.ClaimsOption(essential=True, value=self.audience),
        )


def _listed(value: object) -> list[object]:
    return value if isinstance(value, list) else []


def _is_url(place: str) -> bool:
    return place.startswith("https://")


def _read_keys(place: str) -> KeySet:
    try:
        if _is_url(place):
            with urllib.request.urlopen(place, timeout=_FETCH_S) as answer:
                text = answer.read(1 << 20)
        else:
            text = Path(place).read_bytes()
        return KeySet.import_key_set(json.loads(text))
    except (OSError, ValueError, JoseError) as error:
        why = unreadable(error) if isinstance(error, OSError) and error.strerror else error
        raise EngineError(f"the keys of {place} cannot be read: {why}", hint="give a file, or an https URL") from error
