"""Who may do what: roles for patterns of sources."""

from __future__ import annotations

from collections.abc import Callable
from fnmatch import fnmatchcase

import msgspec

from kestrel_sql.catalog.catalog import Source
from kestrel_sql.server.errors import FORBIDDEN, ApiError
from kestrel_sql.sql.nodes import admin as a
from kestrel_sql.sql.nodes.statements import (
    SESSION_STATEMENTS,
    AlterSystem,
    CreateAs,
    InsertInto,
    InsertValues,
    Query,
)
from kestrel_sql.sql.parse.parser import ParsedStatement

ROLES = ("read", "insert", "ddl", "admin")
"""What a grant may allow: ask and select; insert rows; create, change and drop; everything."""


class Grant(msgspec.Struct, frozen=True):
    """A role for the sources whose names match a pattern such as `ORDERS_*`."""

    role: str
    pattern: str = "*"


class Principal(msgspec.Struct, frozen=True):
    """A user with what is granted to them."""

    name: str
    grants: tuple[Grant, ...] = ()

    def may(self, role: str, source: str | None) -> bool:
        """Whether a role is granted for a source; None asks for a role that is about no source."""
        return any(
            grant.role in (role, "admin") and (source is None or fnmatchcase(source, grant.pattern))
            for grant in self.grants
        )


EVERYBODY = Principal("anonymous", (Grant("admin"),))
"""Who asks where nobody must log in."""

_ASKING = (a.ListObjects, a.Describe, a.Explain, a.AssertTopic, a.AssertSchema)


class Access(msgspec.Struct, frozen=True):
    """Checks statements of users against their grants."""

    log: Callable[[Principal, str, str], None] = msgspec.field(default=lambda user, what, outcome: None)
    """Told each statement of each user, with `allowed` or `refused`."""

    def require(self, user: Principal, role: str, source: str | None = None) -> None:
        """Check that a user has a role.

        Raises:
            ApiError: they have not.
        """
        if not user.may(role, source):
            about = "" if source is None else f" for {source}"
            raise ApiError(FORBIDDEN, f"User {user.name} does not have the role {role}{about}")

    def check(self, user: Principal, parsed: ParsedStatement, source: Callable[[str], Source | None]) -> None:
        """Check that a user may carry a statement out, and log it.

        Raises:
            ApiError: they may not.
        """
        try:
            for role, name in needed(parsed.statement):
                self.require(user, role, name)
        except ApiError:
            self.log(user, parsed.text, "refused")
            raise
        self.log(user, parsed.text, "allowed")

    def check_insert(self, user: Principal, target: str) -> None:
        """Check that a user may stream rows into a source, and log it.

        Raises:
            ApiError: they may not.
        """
        allowed = user.may("insert", target.strip('`"') if target[:1] in ('"', "`") else target.upper())
        self.log(user, f"inserts-stream {target}", "allowed" if allowed else "refused")
        if not allowed:
            raise ApiError(FORBIDDEN, f"User {user.name} does not have the role insert for {target}")


def needed(statement: object) -> list[tuple[str, str | None]]:
    """The roles that a statement needs, each with the source that it is about."""
    match statement:
        case Query():
            return _read(statement)
        case CreateAs():
            return [("ddl", statement.name), *_read(statement.query)]
        case InsertInto():
            return [("ddl", statement.target), *_read(statement.query)]
        case InsertValues():
            return [("insert", statement.target)]
        case a.Describe(what="SOURCE"):
            return [("read", statement.name)]
        case a.PrintTopic() | a.ControlQuery() | AlterSystem():
            return [("admin", None)]
        case a.Explain(target=target) if not isinstance(target, str):
            return needed(target)
        case _ if isinstance(statement, _ASKING):
            return [("read", None)]
        case _:
            return [] if isinstance(statement, SESSION_STATEMENTS) else [("ddl", getattr(statement, "name", None))]


def _read(query: Query) -> list[tuple[str, str | None]]:
    return [("read", source.name) for source in (query.source, *(join.source for join in query.joins))]
