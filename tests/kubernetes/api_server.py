"""A server that answers as Kubernetes' API does, creates nothing, and records what it was asked for."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Event, Thread
from typing import Any


@dataclass(slots=True)
class ApiServer:
    """The objects that clients created, by kind; `url` has a port of this machine."""

    url: str = ""
    created: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    closed: Event = field(default_factory=Event)


@contextmanager
def api_server() -> Iterator[ApiServer]:
    """Serve until the block ends."""
    api = ApiServer()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            created = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            api.created.setdefault(created["kind"], []).append(created)
            self._answer(201, created | {"metadata": created["metadata"] | {"uid": "1", "resourceVersion": "1"}})

        def do_GET(self) -> None:
            if "watch=true" in self.path:
                # A watch without events, until the server ends.
                self.send_response(200)
                self.send_header("Content-Type", "application/json")
                self.send_header("Transfer-Encoding", "chunked")
                self.end_headers()
                api.closed.wait()
                self.close_connection = True
            else:
                self._answer(200, {"kind": "PodList", "apiVersion": "v1", "metadata": {}, "items": []})

        def do_DELETE(self) -> None:
            self._answer(200, {"kind": "Status", "apiVersion": "v1", "status": "Success"})

        def _answer(self, status: int, document: dict[str, Any]) -> None:
            body = json.dumps(document).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            """Stay silent."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.daemon_threads = True
        api.url = f"http://127.0.0.1:{server.server_port}"
        thread = Thread(target=server.serve_forever)
        thread.start()
        try:
            yield api
        finally:
            api.closed.set()
            server.shutdown()
            thread.join()
