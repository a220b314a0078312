"""Bodies of requests: bounded in size and time, read in steps, and leniently as ksqlDB reads them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from json import JSONDecoder
from json.decoder import JSONArray, JSONObject, scanstring  # type: ignore[attr-defined]
from json.scanner import py_make_scanner  # type: ignore[attr-defined]
from typing import Any, NoReturn, TypeVar

import msgspec
import orjson
from starlette.requests import ClientDisconnect
from starlette.requests import Request as HttpRequest

from kestrel_sql.server.errors import BAD_REQUEST, ApiError
from kestrel_sql.server.service import Request


def _string(text: str, end: int, strict: bool) -> tuple[str, int]:
    value, end = scanstring(text, end, strict)
    # Half of a surrogate pair is no character.
    value.encode()
    return value, end


def _members(pairs: list[tuple[str, object]]) -> dict[str, object]:
    found = {}
    # One call for half a million members takes 0.1 s.
    for name, value in pairs:
        found[name] = value  # noqa: PERF403
    return found


def _refuse_constant(text: str) -> NoReturn:
    raise ValueError(f"{text} is not a JSON number")


_DECODER: Any = JSONDecoder(parse_constant=_refuse_constant, object_pairs_hook=_members)
_DECODER.parse_object, _DECODER.parse_array, _DECODER.parse_string = JSONObject, JSONArray, _string
# That of C, which the decoder has by default, reads the whole text in one call.
_DECODER.scan_once = py_make_scanner(_DECODER)


def read_in_steps(text: bytes | str) -> object:
    """Read a text that is one JSON value.

    Raises:
        ValueError: it is none, or nests too deep.
    """
    try:
        return _DECODER.decode(text if isinstance(text, str) else text.decode())
    except RecursionError:
        raise ValueError("it nests too deep") from None


T = TypeVar("T")

_LONG = 1 << 63

_LARGE = 1 << 17
"""From how many bytes on a body is read in steps: orjson keeps all threads from Python for up to 65 ms a megabyte."""


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """What one request may take; times in seconds, sizes in bytes, `pulls_per_second` for each user."""

    body_bytes: int = 10 << 20
    body_seconds: float = 30.0
    line_bytes: int = 1 << 20
    statements: int = 500
    pulls_per_second: int | None = None
    concurrent_pulls: int | None = None


async def read_body(request: HttpRequest, limits: Limits) -> bytes:
    """Read the body of a request.

    Raises:
        ApiError: it is too large, or does not come in time.
    """
    length = request.headers.get("content-length", "0")
    if length.isdecimal() and int(length) > limits.body_bytes:
        raise _too_large(limits)
    body = bytearray()
    try:
        async with asyncio.timeout(limits.body_seconds):
            async for chunk in request.stream():
                body += chunk
                if len(body) > limits.body_bytes:
                    raise _too_large(limits)
    except TimeoutError:
        raise ApiError(40800, f"The body of the request did not come within {limits.body_seconds:g} seconds") from None
    return bytes(body)


async def read_object(request: HttpRequest, limits: Limits) -> dict[str, object]:
    """Read the JSON object of a body.

    Raises:
        ApiError: it is no JSON object.
    """
    return await read_as(dict, request, limits)


async def read_as(make: Callable[[dict[str, object]], T], request: HttpRequest, limits: Limits) -> T:
    """Read the JSON object of a body, and make something of it.

    Raises:
        ApiError: it is no JSON object, or nothing can be made of it.
    """
    return await parsed_as(make, await read_body(request, limits))


async def parsed_as(make: Callable[[dict[str, object]], T], text: bytes) -> T:
    """Parse a JSON object, and make something of it: of a large one beside the event loop.

    Raises:
        ApiError: it is none, or nothing can be made of it.
    """
    if len(text) < _LARGE:
        return make(parse_object(text))
    return await asyncio.to_thread(lambda: make(parse_object(text, read_in_steps)))


def parse_object(text: bytes | str, read: Callable[[bytes | str], object] = orjson.loads) -> dict[str, object]:
    """Parse a JSON object.

    Raises:
        ApiError: it is none.
    """
    if not text.strip():
        raise ApiError(BAD_REQUEST, "Invalid request: the body is empty, and must be a JSON object")
    try:
        found = read(text)
    except ValueError as error:
        raise ApiError(BAD_REQUEST, f"Invalid JSON: {error}") from None
    if not isinstance(found, dict):
        raise ApiError(BAD_REQUEST, "Invalid request: the body must be a JSON object")
    return found


async def read_lines(request: HttpRequest, limits: Limits) -> AsyncIterator[list[bytes]]:
    """Read the lines of a body as they come, blank ones left out: those that came together are a list.

    Raises:
        ApiError: a line is too long.
    """
    rest = b""
    try:
        async for chunk in request.stream():
            *lines, rest = (rest + chunk).split(b"\n")
            if lines := [line for line in lines if line.strip()]:
                yield lines
            if len(rest) > limits.line_bytes:
                raise ApiError(41300, f"A line is longer than {limits.line_bytes} bytes")
    except ClientDisconnect:
        return
    if rest.strip():
        yield [rest]


def ksql_request(body: Mapping[str, object]) -> Request:
    """The request that a KsqlRequest is.

    Raises:
        ApiError: a field has the wrong type.
    """
    sequence = body.get("commandSequenceNumber")
    object_of(body, "requestProperties")
    if sequence is not None and (type(sequence) is not int or not -_LONG <= sequence < _LONG):
        raise ApiError(BAD_REQUEST, "commandSequenceNumber must be a whole number of 64 bits")
    return Request(
        text=_text(body, "ksql"),
        properties=object_of(body, "streamsProperties"),
        variables=_variables(body),
        sequence=-1 if sequence is None else sequence,
    )


def query_request(body: Mapping[str, object]) -> Request:
    """The request that the arguments of `/query-stream` are.

    Raises:
        ApiError: `sql` is missing, or a field has the wrong type.
    """
    sql = body.get("sql")
    if not isinstance(sql, str):
        raise ApiError(
            BAD_REQUEST, "Missing required creator property 'sql': the body must have a member `sql` with one statement"
        )
    object_of(body, "requestProperties")
    return Request(text=sql, properties=object_of(body, "properties"), variables=_variables(body))


def texts_of(body: Mapping[str, object], name: str) -> list[str]:
    """The strings that a member of a body lists; none if it is missing or null.

    Raises:
        ApiError: it is something else.
    """
    value = body.get(name)
    if value is not None and not (isinstance(value, list) and all(isinstance(each, str) for each in value)):
        raise ApiError(BAD_REQUEST, f"{name} must be a list of strings")
    return value or []


def _text(body: Mapping[str, object], name: str) -> str:
    value = body.get(name)
    if value is not None and not isinstance(value, str):
        raise ApiError(BAD_REQUEST, f"{name} must be a string")
    return value or ""


def object_of(body: Mapping[str, object], name: str) -> Mapping[str, object]:
    """The object that a member of a body is; an empty one if it is missing or null.

    Raises:
        ApiError: it is something else.
    """
    value = body.get(name)
    if value is not None and not isinstance(value, dict):
        raise ApiError(BAD_REQUEST, f"{name} must be an object")
    return value or {}


def _variables(body: Mapping[str, object]) -> dict[str, str]:
    try:
        found = object_of(body, "sessionVariables").items()
        return {name: value if isinstance(value, str) else orjson.dumps(value).decode() for name, value in found}
    except orjson.JSONEncodeError as error:
        raise ApiError(BAD_REQUEST, f"sessionVariables must be texts: {error}") from None


def _too_large(limits: Limits) -> ApiError:
    return ApiError(41300, f"The body of the request is larger than {limits.body_bytes} bytes")
