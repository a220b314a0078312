"""`/ui`: a page that shows the server; its files come from the package, its data from two small endpoints."""

from __future__ import annotations

import asyncio
from importlib.resources import files
from pathlib import PurePath

from msgspec.structs import asdict
from starlette.requests import Request as HttpRequest
from starlette.responses import Response

from kestrel_sql.catalog.catalog import Source
from kestrel_sql.server.errors import ApiError
from kestrel_sql.server.http.answers import json_answer
from kestrel_sql.server.http.context import context_of, principal_of
from kestrel_sql.server.http.endpoint import endpoint

_TYPES = {".html": "text/html", ".css": "text/css", ".js": "text/javascript", ".txt": "text/plain"}

_HEADERS = {
    "content-security-policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:"
    ),
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cache-control": "no-cache",
}


@endpoint("GET", "/ui/data", role="read")
async def page_data(http: HttpRequest) -> Response:
    """What the page shows: figures and sources.

    Example: GET /ui/data -> 200
    """
    context, user = context_of(http), principal_of(http)
    service, history = context.service, context.history.of_all()

    def content() -> Response:
        sources = [_source(each) for each in service.sources() if user.may("read", each.name)]
        told = {"state": service.state.value, "service": service.service_id, "sources": sources}
        figures = service.figures()
        queries = [asdict(each) for each in figures.queries]
        return json_answer({"history": history, **told, **asdict(figures), "queries": queries})

    return await asyncio.to_thread(content)


@endpoint("GET", "/ui/plan/{query}", role="read")
async def page_plan(http: HttpRequest) -> Response:
    """The steps of a persistent query.

    Example: GET /ui/plan/NOBODY -> 404
    """
    return json_answer(await context_of(http).service.plan(http.path_params["query"]))


@endpoint("GET", "/ui", "/ui/{file}")
async def page(http: HttpRequest) -> Response:
    """The page, and its files.

    Example: GET /ui -> 200
    Example: GET /ui/page.js -> 200
    Example: GET /ui/nothing.js -> 404
    """
    name = http.path_params.get("file", "index.html")
    found = next((each for each in files("kestrel_sql.server.ui").iterdir() if each.name == name), None)
    kind = _TYPES.get(PurePath(name).suffix)
    if found is None or kind is None:
        raise ApiError(40400, "No such file")
    return Response(found.read_bytes(), 200, _HEADERS, f"{kind}; charset=utf-8")


def _source(source: Source) -> dict[str, object]:
    columns = [{"name": c.name, "type": str(c.type), "role": c.role.value} for c in source.schema.columns]
    return {
        "name": source.name,
        "kind": source.kind.value,
        "topic": source.topic,
        "keyFormat": source.formats.key_format.format,
        "valueFormat": source.formats.value_format.format,
        "windowed": source.window is not None,
        "columns": columns,
    }
