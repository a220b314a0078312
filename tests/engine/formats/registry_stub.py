"""A stub of a schema registry over HTTP that can also simulate faults."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from typing import Any


@dataclass
class Stub:
    """A registry over HTTP; `fault` may answer a request in its place."""

    schemas: dict[int, dict[str, Any]] = field(default_factory=dict)
    subjects: dict[str, list[int]] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)
    credentials: list[str | None] = field(default_factory=list)
    frozen: set[str] = field(default_factory=set)
    deleted: set[str] = field(default_factory=set)
    fault: Callable[[BaseHTTPRequestHandler], bool] = lambda handler: False
    url: str = ""

    def answer(self, method: str, path: str, body: dict[str, Any]) -> tuple[int, Any]:
        parts = path.partition("?")[0].strip("/").split("/")
        match method, parts:
            case "GET", ["subjects"]:
                return 200, list(self.subjects)
            case "GET", ["schemas", "ids", number] if int(number) in self.schemas:
                return 200, self.schemas[int(number)]
            case "GET", ["subjects", subject, "versions", version] if subject in self.subjects:
                ids = self.subjects[subject]
                schema_id = ids[-1] if version == "latest" else ids[int(version) - 1]
                return 200, {"subject": subject, "version": len(ids), "id": schema_id, **self.schemas[schema_id]}
            case "PUT", ["mode", subject]:
                (self.frozen.add if body["mode"] == "READONLY" else self.frozen.discard)(subject)
                return 200, {"mode": body["mode"]}
            case "DELETE", ["subjects", subject, *version]:
                remove = self.delete_version if version else self.delete
                return remove(subject, permanent="permanent=true" in path)
            case "POST", ["subjects", subject, "versions"] if subject in self.frozen:
                return 422, {"error_code": 42205, "message": "in read-only mode"}
            case "POST", ["subjects", subject] if any(
                self.schemas[i]["schema"] == body["schema"] for i in self.subjects[subject]
            ):
                known = next(i for i in self.subjects[subject] if self.schemas[i]["schema"] == body["schema"])
                return 200, {"subject": subject, "version": 1, "id": known, **self.schemas[known]}
            case "POST", ["subjects", subject, "versions"]:
                return 200, {"id": self.register(subject, body)}
            case _:
                return 404, {"error_code": 40401, "message": "not found"}

    def delete(self, subject: str, *, permanent: bool) -> tuple[int, Any]:
        """Delete a subject in two steps, as a registry does."""
        if subject in self.frozen:
            return 422, {"error_code": 42205, "message": "in read-only mode"}
        if permanent:
            found = subject in self.deleted
            self.deleted.discard(subject)
            return (200, [1]) if found else (404, {"error_code": 40405, "message": "not deleted softly before"})
        if subject not in self.subjects:
            return 404, {"error_code": 40404, "message": "deleted softly"} if subject in self.deleted else {
                "error_code": 40401
            }
        self.deleted.add(subject)
        return 200, [1 for _ in self.subjects.pop(subject)]

    def delete_version(self, subject: str, *, permanent: bool) -> tuple[int, Any]:
        """Delete the newest version of a subject in two steps."""
        if permanent:
            self.subjects[subject].pop()
            self.subjects = {name: ids for name, ids in self.subjects.items() if ids}
        return 200, 1

    def register(self, subject: str, schema: dict[str, Any]) -> int:
        known = next((i for i, each in self.schemas.items() if each["schema"] == schema["schema"]), None)
        schema_id = known or 100 + len(self.schemas)
        self.schemas[schema_id] = {k: v for k, v in schema.items() if k in ("schema", "schemaType", "references")}
        self.subjects.setdefault(subject, []).append(schema_id)
        return schema_id


def handler_of(stub: Stub) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.serve({})

        def do_POST(self) -> None:
            self.serve(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))

        def do_PUT(self) -> None:
            self.do_POST()

        def do_DELETE(self) -> None:
            self.serve({})

        def serve(self, body: dict[str, Any]) -> None:
            stub.asked.append(f"{self.command} {self.path.partition('?')[0]}")
            stub.credentials.append(self.headers.get("Authorization"))
            if not stub.fault(self):
                send(self, *stub.answer(self.command, self.path, body))

        def log_message(self, format: str, *args: Any) -> None:
            """Log nothing."""

    return Handler


def send(handler: BaseHTTPRequestHandler, status: int, body: Any) -> bool:
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    handler.send_response(status)
    handler.send_header("Content-Length", str(len(data)))
    handler.end_headers()
    handler.wfile.write(data)
    return True
