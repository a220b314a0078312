"""The properties that a request may set."""

from __future__ import annotations

from collections.abc import Mapping

from kestrel_sql.errors import PropertyError
from kestrel_sql.java.regex.time_limit import check_work
from kestrel_sql.planner.config import IMMUTABLE, Config, is_known
from kestrel_sql.server.errors import BAD_REQUEST, ApiError
from kestrel_sql.server.secrets import told
from kestrel_sql.sql.nodes.statements import AlterSystem

FIXED = frozenset(
    {
        "bootstrap.servers",
        "ksql.extension.dir",
        "ksql.query.persistent.active.limit",
        "ksql.pull.queries.enable",
        "ksql.query.pull.enable",
        "ksql.hidden.topics",
        "ksql.readonly.topics",
        "ksql.source.table.materialization.enabled",
        "ksql.headers.columns.enabled",
    }
)
"""Settings of the server that no request may override (rest-api.md, section 8)."""


def check_property(name: str, config: Config) -> None:
    """Check that a request may set a property.

    Raises:
        ApiError: it is unknown, or belongs to the server.
    """
    if name in FIXED or name.startswith("ssl."):
        raise ApiError(BAD_REQUEST, f"Cannot override property '{name}'")
    check_allowed(name, config)
    if not is_known(name):
        raise ApiError(BAD_REQUEST, f"Not recognizable as ksql, streams, consumer, or producer property: '{name}'")


def check_allowed(name: str, config: Config) -> None:
    """Check that the server does not prohibit a property; an unknown one it does not.

    Raises:
        ApiError: it does.
    """
    denied = {each.strip() for each in config["ksql.properties.overrides.denylist"].split(",")}
    if name in IMMUTABLE or name in denied:
        raise ApiError(
            BAD_REQUEST,
            "One or more properties overrides set locally are prohibited by the KSQL server (use UNSET to reset their"
            f" default value): [{name}]",
        )


def with_properties(config: Config, properties: Mapping[str, object]) -> Config:
    """The configuration under the properties of a request; lists are joined by commas, null removes an override.

    Raises:
        ApiError: a property is unknown, may not be set, or has a bad value.
    """
    for name, value in properties.items():
        check_work()
        check_property(name, config)
        try:
            config = _with_property(config, name, value)
        except PropertyError as error:
            raise ApiError(BAD_REQUEST, told(error)) from error
    return config


def altered_system(config: Config, statement: AlterSystem) -> Config:
    """The settings of the server after ALTER SYSTEM.

    Raises:
        ApiError: the property is unknown, may not be set, or has a bad value.
    """
    return with_properties(config, {statement.name: statement.value})


def _with_property(config: Config, name: str, value: object) -> Config:
    if value is None:
        return config.without_property(name)
    if isinstance(value, dict) or (isinstance(value, list) and any(isinstance(each, dict | list) for each in value)):
        raise ApiError(BAD_REQUEST, f"Invalid value for property {name}: expected text or a number, or a list of them")
    return config.with_property(name, _text(value))


def _text(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return ",".join(map(_text, value)) if isinstance(value, list) else str(value)
