"""A worker of Kafka Connect by its documented API, without plugins that move records."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

PLUGIN = "org.example.Files"


class _Handler(BaseHTTPRequestHandler):
    connectors: dict[str, dict[str, str]]
    users: list[str | None]

    def _answer(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        self.users.append(self.headers.get("Authorization"))
        status, found = self._found(self.path.strip("/").split("/"), json.loads(body or b"null"))
        answer = b"" if found is None else json.dumps(found).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    do_GET = do_POST = do_PUT = do_DELETE = _answer  # noqa: N815 - the names that the base class calls

    def _found(self, path: list[str], body: Any) -> tuple[int, Any]:
        match self.command, path:
            case "GET", ["connector-plugins"]:
                return 200, [{"class": PLUGIN, "type": "source", "version": "1"}]
            case "PUT", ["connector-plugins", kind, "config", "validate"]:
                errors = [] if kind == PLUGIN else [f"Failed to find any class that implements Connector: {kind}"]
                return 200, {"name": kind, "configs": [{"value": {"name": "connector.class", "errors": errors}}]}
            case "GET", ["connectors"]:
                return 200, [*self.connectors]
            case "POST", ["connectors"]:
                self.connectors[body["name"]] = body["config"]
                return 201, self._info(body["name"])
            case _, ["connectors", name, *_] if name not in self.connectors:
                return 404, {"error_code": 404, "message": f"Connector {name} not found"}
            case "GET", ["connectors", name]:
                return 200, self._info(name)
            case "GET", ["connectors", name, "status"]:
                tasks = [{"id": 0, "state": "RUNNING"}, {"id": 1, "state": "FAILED"}]
                return 200, {"name": name, "connector": {"state": "RUNNING"}, "tasks": tasks, "type": "source"}
            case "DELETE", ["connectors", name]:
                del self.connectors[name]
                return 204, None
            case _:
                return 404, None

    def _info(self, name: str) -> dict[str, Any]:
        return {"name": name, "config": self.connectors[name], "tasks": [], "type": "source"}

    def log_message(self, *_: object) -> None:
        """Say nothing."""


class Worker:
    """A worker that answers at `url`; `users` has what the requests carried to be let in."""

    def __init__(self, url: str, handler: type[_Handler]) -> None:
        self.url = url
        self.connectors = handler.connectors
        self.users = handler.users


@contextmanager
def connect_worker() -> Iterator[Worker]:
    handler = type("Handler", (_Handler,), {"connectors": {}, "users": []})
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield Worker(f"http://127.0.0.1:{server.server_port}", handler)
        finally:
            server.shutdown()
