"""The reference of the HTTP API, docs/endpoints.md, made of what the endpoints say of themselves.

python -m tests.endpoints            (writes it anew)
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from kestrel_sql.server.http.app import ENDPOINTS
from kestrel_sql.server.http.endpoint import Endpoint

PAGE = Path(__file__).resolve().parents[1] / "docs" / "endpoints.md"
HEAD = """# Endpoints

`python -m tests.endpoints` writes this page from the endpoints in `engine/kestrel_sql/server/http/`, and
`tests/engine/server/test_endpoints.py` asks each example. The rules are those of [the HTTP interface](spec/rest-api.md);
what has none is Kestrel's own. [Roles](server.md#security) count where there are users: without one any user may ask,
and statements need the roles of what they do.

| Endpoint | Answer | Rule | Role |
|---|---|---|---|
"""
EXAMPLE = re.compile(r"^Example: (\w+) (\S+?)(?: (\{.*\}))? -> (\d+)$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Example:
    """A request and the status of its answer."""

    method: str
    path: str
    body: str
    status: int


def examples(endpoint: Endpoint) -> Iterator[Example]:
    """The examples of an endpoint."""
    for method, path, body, status in EXAMPLE.findall(inspect.cleandoc(endpoint.doc)):
        yield Example(method, path, body, int(status))


def page() -> str:
    """The text of the page."""
    asked = (each for endpoint in ENDPOINTS for each in examples(endpoint))
    lines = (f"{' '.join(filter(None, (each.method, each.path, each.body)))} -> {each.status}\n" for each in asked)
    return f"{HEAD}{''.join(map(row, ENDPOINTS))}\nExamples, where there is a stream `ORDERS`:\n\n```\n{''.join(lines)}```\n"


def row(endpoint: Endpoint) -> str:
    """The line of an endpoint in the table."""
    paths = ", ".join(f"`{endpoint.method} {path.replace(':path', '')}`" for path in endpoint.paths)
    text = " ".join(inspect.cleandoc(endpoint.doc).partition("\n\nExample: ")[0].split())
    role = f"`{endpoint.role}`" if endpoint.role else "" if endpoint.needs_credentials else "no credentials"
    return f"| {paths} | {text} | {endpoint.rule or ''} | {role} |\n"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
