"""Kafka Connect's REST API, to which the statements about connectors go (rules R16)."""

from __future__ import annotations

import base64
import json
import urllib.error
import urllib.request
from collections.abc import Mapping
from http import HTTPStatus
from pathlib import Path
from typing import Any, TypedDict
from urllib.parse import quote

import msgspec

from kestrel_sql.errors import ConnectError, EngineError, unreadable
from kestrel_sql.planner.config import Config

URL = "ksql.connect.url"
SKIP = "kestrel.connectors.skip"
"""Whether statements about connectors are passed over, each with a warning."""

_CREDENTIALS = "ksql.connect.basic.auth.credentials.file"
_TIMEOUT_S = 5.0


class Connector(TypedDict, total=False):
    """A connector as a worker describes it."""

    name: str
    type: str
    config: dict[str, str]
    tasks: list[object]


class State(TypedDict):
    """The state of a connector, or of one of its tasks."""

    state: str


class Status(TypedDict, total=False):
    """The states of a connector and of its tasks."""

    connector: State
    tasks: list[State]


class Connect(msgspec.Struct, frozen=True):
    """A cluster of workers by the URL of one, with what each request carries to be let in."""

    url: str
    headers: Mapping[str, str]

    @staticmethod
    def of(config: Config) -> Connect | None:
        """The cluster of a configuration, None if it names none.

        Raises:
            EngineError: the file with the credentials cannot be read.
        """
        url = config.get(URL)
        return None if not url else Connect(url.rstrip("/"), {**_JSON, **_authorization(config.get(_CREDENTIALS))})

    def names(self) -> list[str]:
        """The names of all connectors.

        Raises:
            ConnectError: the worker refuses or does not answer, as everywhere here.
        """
        found: list[str] = self._ask("GET", "connectors")
        return found

    def info(self, name: str) -> Connector:
        """The configuration, the tasks and the type of a connector."""
        found: Connector = self._ask("GET", "connectors", name)
        return found

    def status(self, name: str) -> Status:
        """The state of a connector and of its tasks."""
        found: Status = self._ask("GET", "connectors", name, "status")
        return found

    def plugins(self) -> list[dict[str, str]]:
        """The kinds of connectors that the worker can run."""
        found: list[dict[str, str]] = self._ask("GET", "connector-plugins")
        return found

    def flaws(self, kind: str, settings: Mapping[str, str]) -> list[str]:
        """What the connector's class finds wrong with a configuration."""
        found = self._ask("PUT", "connector-plugins", kind, "config", "validate", body=settings)
        values = (each.get("value", {}) for each in found.get("configs", ()))
        return [f"{value.get('name')} - {said}" for value in values for said in value.get("errors", ())]

    def create(self, name: str, settings: Mapping[str, str]) -> Connector:
        """Start a connector, and give what `info` gives."""
        found: Connector = self._ask("POST", "connectors", body={"name": name, "config": settings})
        return found

    def drop(self, name: str) -> None:
        """End a connector; its topics stay."""
        self._ask("DELETE", "connectors", name)

    def _ask(self, method: str, *path: str, body: object = None) -> Any:
        request = urllib.request.Request(
            "/".join((self.url, *(quote(part, safe="") for part in path))),
            None if body is None else json.dumps(body).encode(),
            dict(self.headers),
            method=method,
        )
        try:
            with urllib.request.urlopen(request, timeout=_TIMEOUT_S) as answer:
                return json.loads(answer.read() or b"null")
        except urllib.error.HTTPError as error:
            raise refused(error.read().decode(errors="replace") or str(error.reason), error.code) from error
        except (OSError, ValueError) as error:
            said = f"Could not connect to Kafka Connect at {self.url}: {getattr(error, 'reason', error)}"
            raise refused(said, HTTPStatus.INTERNAL_SERVER_ERROR) from error


_JSON = {"Content-Type": "application/json", "Accept": "application/json"}


def refused(message: str, status: int) -> ConnectError:
    """Make the error of a request that is refused with an HTTP status."""
    error = ConnectError(message)
    error.status = int(status)
    return error


def _authorization(file: str | None) -> dict[str, str]:
    """The header of the user in a file of properties `username` and `password`."""
    if file is None:
        return {}
    try:
        lines = Path(file).read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise EngineError(f"{file} of {_CREDENTIALS} cannot be read: {unreadable(error)}") from error
    found = {name.strip(): value.strip() for name, _, value in (line.partition("=") for line in lines)}
    user = f"{found.get('username', '')}:{found.get('password', '')}"
    return {"Authorization": "Basic " + base64.b64encode(user.encode()).decode()}
