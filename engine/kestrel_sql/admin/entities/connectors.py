"""The entities of connectors, as ksqlDB's server makes them of what Kafka Connect answers (rules R16)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from http import HTTPStatus
from typing import TypeVar

from kestrel_sql.admin.answer import Entity
from kestrel_sql.admin.connect import SKIP, URL, Connect, Status, refused
from kestrel_sql.admin.view import EngineView
from kestrel_sql.errors import ConnectError, Span, UnsupportedError
from kestrel_sql.planner.config import Config
from kestrel_sql.sql.nodes import admin as a

_CLASS = "connector.class"
_T = TypeVar("_T")


def created_connector(statement: a.CreateConnector, view: EngineView) -> Entity:
    """Start a connector.

    Raises:
        UnsupportedError: no Kafka Connect is configured.
        ConnectError: the configuration has no class, or Kafka Connect refuses it.
    """
    config, name = view.session.config, statement.name
    if _is_passed_over(config):
        return _warning(f"CREATE CONNECTOR {name} is passed over: what it would feed comes from elsewhere")
    connect = _connect(config, statement.span)
    settings = {key: str(value).lower() if isinstance(value, bool) else str(value) for key, value in _given(statement)}
    settings["name"] = name
    if _CLASS not in settings:
        said = ", ".join(f"{key}={value}" for key, value in sorted(settings.items()))
        raise _invalid(f"Connector config {{{said}}} contains no connector type")
    if not settings[_CLASS].strip():
        raise _invalid("Connector type cannot be empty")
    if statement.if_not_exists and any(each.upper() == name.upper() for each in connect.names()):
        return _warning(f"Connector {name} already exists")
    flaws = _told("Validation error", lambda: connect.flaws(settings[_CLASS], settings))
    if flaws:
        raise _invalid("\n".join(flaws))
    return {
        "@type": "connector_info",
        "info": _told("Failed to create connector", lambda: connect.create(name, settings)),
    }


def dropped_connector(statement: a.DropConnector, view: EngineView) -> Entity:
    """End a connector; with IF EXISTS one that cannot be found costs a warning.

    Raises:
        UnsupportedError: no Kafka Connect is configured.
        ConnectError: Kafka Connect refuses.
    """
    config, name = view.session.config, statement.name
    if _is_passed_over(config):
        return _warning(f"DROP CONNECTOR {name} is passed over")
    if statement.if_exists and not config.get(URL):
        return _warning(f"Connector '{name}' does not exist.")
    connect = _connect(config, statement.span)
    try:
        _told("Failed to drop connector", lambda: connect.drop(name))
    except ConnectError as error:
        if statement.if_exists:
            return _warning(
                f"Connector '{name}' does not exist." if error.status == HTTPStatus.NOT_FOUND else error.message
            )
        raise
    return {"@type": "drop_connector", "connectorName": name}


def listed_connectors(what: str, view: EngineView) -> Entity:
    """List connectors or their kinds; where there is no Kafka Connect there are none, and a warning says why."""
    config = view.session.config
    if what == "CONNECTOR PLUGINS":
        kind, member, find = "connector_plugins_list", "connectorsPlugins", _plugins
    else:
        kind, member, find = "connector_list", "connectors", _connectors
    try:
        connect = _connect(config, None)
        found, warnings = find(connect)
    except (UnsupportedError, ConnectError) as error:
        found, warnings = [], [error.message]
    wanted = what.partition(" ")[0].lower()
    found = [each for each in found if wanted not in ("source", "sink") or each["type"] == wanted]
    return {"@type": kind, "warnings": [{"message": each} for each in warnings], member: found}


def described_connector(statement: a.Describe, view: EngineView) -> Entity:
    """Describe a connector.

    Raises:
        UnsupportedError: no Kafka Connect is configured.
        ConnectError: there is no such connector.
    """
    config, name = view.session.config, statement.name or ""
    if _is_passed_over(config):
        return _warning(f"DESCRIBE CONNECTOR {name} is passed over")
    connect = _connect(config, statement.span)
    status = _told("Failed to query connector status", lambda: connect.status(name))
    info = _told("Failed to query connector", lambda: connect.info(name))
    return {
        "@type": "connector_description",
        "connectorClass": info.get("config", {}).get(_CLASS, ""),
        "status": {key: value for key, value in status.items() if key in ("name", "connector", "tasks", "type")},
        "sources": [],
        "topics": [],
    }


def _invalid(flaw: str) -> ConnectError:
    return refused(f"Validation error: {flaw}", HTTPStatus.BAD_REQUEST)


def _given(statement: a.CreateConnector) -> Iterator[tuple[str, object]]:
    return ((name, value) for name, value in statement.properties if value is not None)


def _is_passed_over(config: Config) -> bool:
    return config.get(SKIP) == "true"


def _connect(config: Config, span: Span | None) -> Connect:
    connect = Connect.of(config)
    if connect is None:
        raise UnsupportedError(
            "no Kafka Connect is configured, which runs connectors",
            span=span,
            hint=f"--set {URL}=http://HOST:8083 names one; --skip-connectors passes over statements about connectors",
        )
    return connect


def _told(what: str, ask: Callable[[], _T]) -> _T:
    """Say in an error of Kafka Connect what it was asked."""
    try:
        return ask()
    except ConnectError as error:
        error.message = f"{what}: {error.message}"
        raise


def _warning(message: str) -> Entity:
    return {"@type": "warning_entity", "message": message}


def _plugins(connect: Connect) -> tuple[list[Entity], Sequence[str]]:
    return [
        {"className": each["class"], "type": each["type"], "version": each.get("version")} for each in connect.plugins()
    ], ()


def _connectors(connect: Connect) -> tuple[list[Entity], Sequence[str]]:
    found, warnings = [], []
    for name in connect.names():
        try:
            status, info = connect.status(name), connect.info(name)
        except ConnectError as error:
            warnings.append(f"Could not describe connector {name}: {error.message}")
            continue
        found.append(
            {
                "name": name,
                "type": info.get("type", "unknown"),
                "className": info.get("config", {}).get(_CLASS, ""),
                "state": _state(status),
            }
        )
    return found, warnings


def _state(status: Status) -> str:
    own, tasks = status["connector"]["state"], status.get("tasks", [])
    running = sum(task["state"] == "RUNNING" for task in tasks)
    if own != "RUNNING":
        return str(own)
    return f"{'RUNNING' if running == len(tasks) else 'WARNING'} ({running}/{len(tasks)} tasks RUNNING)"
