"""`kestrel shell --server`: the statements of the prompt over ksqlDB's HTTP API."""

from __future__ import annotations

import argparse
import base64
import getpass
import http.client
import json
import os
import ssl
from collections.abc import Iterator
from contextlib import closing
from decimal import Decimal
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import msgspec
from rich.text import Text

from kestrel_sql.admin.shown import shown
from kestrel_sql.cli.render import Display, show_error, warn
from kestrel_sql.errors import EngineError, QueryError, StatementError
from kestrel_sql.session.session import Session
from kestrel_sql.sql.nodes.admin import PrintTopic
from kestrel_sql.sql.nodes.statements import DefineVariable, Query, SetProperty, UndefineVariable, UnsetProperty
from kestrel_sql.sql.parse.parser import ParsedStatement, placed_text
from kestrel_sql.sql.parse.variables import known_name

PASSWORD_VARIABLE = "KESTREL_PASSWORD"
"""The environment variable with the password of `--user`."""

_PORTS = {"http": 8088, "https": 8088}
_ROWS = "application/vnd.ksql.v1+json"
_TIMEOUT_S = 60.0


def add_remote_options(parser: argparse.ArgumentParser) -> None:
    """Add the options that name a server."""
    group = parser.add_argument_group("against a server (docs/server.md)")
    group.add_argument("--server", metavar="URL", help="send statements to this server, of Kestrel or of ksqlDB")
    group.add_argument("--user", metavar="NAME", help=f"basic authentication; {PASSWORD_VARIABLE} has the password")
    group.add_argument("--ca", type=Path, metavar="FILE", help="who signs the server's certificate")


class RemoteServer(msgspec.Struct):
    """A server by its URL. It keeps what SET and DEFINE say, and the number of the last command."""

    url: str
    authorization: str | None = None
    tls: ssl.SSLContext | None = None
    properties: dict[str, str] = msgspec.field(default_factory=lambda: {"auto.offset.reset": "earliest"})
    variables: dict[str, str] = {}
    sequence: int = -1

    @staticmethod
    def of(arguments: argparse.Namespace) -> RemoteServer:
        """Make the server of the options.

        Raises:
            EngineError: the URL is not one of HTTP, or the certificate cannot be read.
        """
        parts = urlsplit(arguments.server)
        if parts.scheme not in _PORTS or not parts.hostname:
            raise EngineError(f"--server: expected a URL such as http://127.0.0.1:8088, got {arguments.server!r}")
        authorization = None
        if arguments.user:
            password = os.environ.get(PASSWORD_VARIABLE) or getpass.getpass(f"password of {arguments.user}: ")
            authorization = "Basic " + base64.b64encode(f"{arguments.user}:{password}".encode()).decode()
        try:
            tls = ssl.create_default_context(cafile=arguments.ca) if parts.scheme == "https" else None
        except OSError as error:
            raise EngineError(f"{arguments.ca} cannot be read: {error.strerror}") from error
        server = RemoteServer(arguments.server, authorization, tls)
        server.properties.update(arguments.set)
        server.variables.update(arguments.define)
        return server

    def version(self) -> str:
        """Ask which server it is.

        Raises:
            QueryError: nothing answers there.
        """
        found = self.ask("GET", "/info")
        info = found.get("KsqlServerInfo", {}) if isinstance(found, dict) else {}
        return (
            f"{info.get('ksqlServiceId', '?')} at {self.url}, API {info.get('version', '?')},"
            f" {info.get('serverStatus', '?')}"
        )

    def run_text(self, text: str, display: Display) -> bool:
        """Execute the statements of a text; on the first error print it and return False."""
        try:
            for parsed in Session(variables=self.variables).parse(text):
                self._run(parsed, display)
        except EngineError as error:
            show_error(display.notes, error, text)
            return False
        return True

    def ask(self, method: str, path: str, body: object = None) -> Any:
        """Send a request, and return the JSON of its answer.

        Raises:
            StatementError: the server refuses, in its own words.
            QueryError: nothing answers.
        """
        with closing(self._connection()) as connection:
            answer = self._answer(connection, method, path, body, "application/json")
            return json.loads(answer.read() or b"null")

    def _run(self, parsed: ParsedStatement, display: Display) -> None:
        match parsed.statement:
            case SetProperty(name=name, value=value):
                # The server checks it, and forgets it.
                self._send(parsed, display)
                self.properties[name] = value
            case UnsetProperty(name=name):
                self.properties.pop(name, None)
            case DefineVariable(name=name, value=value):
                self.variables[known_name(self.variables, name)] = value
            case UndefineVariable(name=name):
                self.variables.pop(known_name(self.variables, name), None)
            case PrintTopic():
                for line in self._lines(parsed):
                    display.out.print(Text(line), soft_wrap=True)
            case Query() as query:
                self._query(parsed, display, pushes=query.emit is not None)
            case _:
                self._send(parsed, display)

    def _send(self, parsed: ParsedStatement, display: Display) -> None:
        text = placed_text(parsed.text.rstrip().removesuffix(";") + ";", parsed.span)
        for entity in self.ask("POST", "/ksql", self._body(text)):
            self.sequence = max(self.sequence, entity.get("commandSequenceNumber", -1))
            display.answer(shown(entity))
            for warning in entity.get("warnings") or ():
                warn(display.notes)(str(warning.get("message", warning)))

    def _query(self, parsed: ParsedStatement, display: Display, *, pushes: bool) -> None:
        """Show the rows of a query: of a push query as they come, of a pull query as one table."""
        names: list[str] = []
        rows: list[list[Any]] = []
        for line in self._lines(parsed):
            message = _message(line)
            if "header" in message:
                names = column_names(message["header"].get("schema", ""))
                if pushes:
                    display.header(names)
            elif "row" in message:
                row = message["row"]
                if pushes:
                    display.row(names, row["columns"], tombstone=bool(row.get("tombstone")))
                else:
                    rows.append(row["columns"])
            elif "errorMessage" in message:
                raise QueryError(message["errorMessage"].get("message", "the query failed"))
            elif "finalMessage" in message:
                display.note(message["finalMessage"])
        if not pushes:
            display.rows(names, rows)
            display.note(f"{len(rows)} row{'' if len(rows) == 1 else 's'}")

    def _lines(self, parsed: ParsedStatement) -> Iterator[str]:
        """The lines of a query's answer as they come; a query that is left is ended by closing its connection."""
        with closing(self._connection(None)) as connection:
            answer = self._answer(connection, "POST", "/query", self._body(parsed.text), _ROWS)
            try:
                for line in answer:
                    if line.strip():
                        yield line.decode().rstrip("\n")
            except (OSError, http.client.HTTPException) as error:
                raise QueryError(f"{self.url} ended the answer: {error}") from error

    def _body(self, text: str) -> dict[str, object]:
        return {
            "ksql": text,
            "streamsProperties": self.properties,
            "sessionVariables": self.variables,
            "commandSequenceNumber": self.sequence,
        }

    def _connection(self, timeout: float | None = _TIMEOUT_S) -> http.client.HTTPConnection:
        parts = urlsplit(self.url)
        host, port = parts.hostname or "", parts.port or _PORTS[parts.scheme]
        if self.tls is not None:
            return http.client.HTTPSConnection(host, port, timeout=timeout, context=self.tls)
        return http.client.HTTPConnection(host, port, timeout=timeout)

    def _answer(
        self, connection: http.client.HTTPConnection, method: str, path: str, body: object, accept: str
    ) -> http.client.HTTPResponse:
        headers = {"Accept": accept, "Content-Type": "application/json"}
        if self.authorization is not None:
            headers["Authorization"] = self.authorization
        try:
            connection.request(method, path, None if body is None else json.dumps(body), headers)
            answer = connection.getresponse()
        except (OSError, http.client.HTTPException) as error:
            raise QueryError(f"{self.url} does not answer: {error}", hint="is the server up?") from error
        if answer.status >= http.client.BAD_REQUEST:
            raise _refusal(answer.status, answer.read())
        return answer


def _refusal(status: int, body: bytes) -> StatementError:
    try:
        found = json.loads(body)
    except ValueError:
        found = None
    said = found.get("message") if isinstance(found, dict) else None
    return StatementError(str(said or f"the server answers {status}"))


def _message(line: str) -> dict[str, Any]:
    """One object of an answer, whose lines are the members of a JSON array."""
    bare = line.strip().removeprefix("[").rstrip(",")
    bare = bare.removesuffix("]") if bare.endswith("}]") or bare == "]" else bare
    found = json.loads(bare, parse_float=Decimal) if bare else {}
    return found if isinstance(found, dict) else {}


def column_names(schema: str) -> list[str]:
    """The names of columns in a schema such as "`ID` INTEGER KEY, `S` STRUCT<`A` INTEGER>"."""
    names, depth, at = [], 0, 0
    while at < len(schema):
        character = schema[at]
        if character == "`":
            end = at + 1
            while schema[end : end + 2] == "``" or schema[end : end + 1] not in ("`", ""):
                end += 2 if schema[end : end + 2] == "``" else 1
            if depth == 0:
                names.append(schema[at + 1 : end].replace("``", "`"))
            at = end
        depth += (character in "<(") - (character in ">)")
        at += 1
    return names
