"""Watches, without a clock, what the event loop of a server in this process calls."""

from __future__ import annotations

import sys
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import PurePath
from types import FrameType

import orjson

import kestrel_sql
from tests.bench.responsive import requests
from tests.engine.server.servers import Http2Client, http

LARGEST = 20_000
"""The bytes of the largest request."""

REQUESTS = tuple(name for name, _, _ in requests(LARGEST))

ROOMS = {"admin", "formats", "queries", "server", "session", "systems.py", "topics", "types"}
"""Whose functions the event loop may call: they look at what the engine knows, and write names, types and JSON."""

MOST_CALLS = 5_000
"""Fewer than the largest request has characters."""

_ROOT = str(PurePath(kestrel_sql.__file__).parent)

calls: Counter[str] = Counter()
"""How often the event loop has called functions of ours, by room."""


def _note(frame: FrameType, event: str, _: object) -> None:
    if event == "call" and frame.f_code.co_filename.startswith(_ROOT):
        calls[PurePath(frame.f_code.co_filename).relative_to(_ROOT).parts[0]] += 1


def _watch(frame: FrameType, event: str, argument: object) -> None:
    sys.setprofile(_note if threading.current_thread().name == "kestrel-http" else None)


@contextmanager
def watching() -> Iterator[None]:
    """Watch the event loop of the server that the block starts, for as long as it runs."""
    threading.setprofile(_watch)
    try:
        yield
    finally:
        threading.setprofile(None)


def check_loop(url: str, name: str, version: str, topics: str = "") -> None:
    """Send a request, and check that the event loop has done nothing of its work."""
    ((path, text),) = ((path, text) for each, path, text in requests(LARGEST, topics) if each == name)
    calls.clear()
    assert _ask(url, path, orjson.dumps({"ksql": text}), version) in (200, 400)
    assert calls["server"]
    assert calls.keys() <= ROOMS
    assert calls.total() < MOST_CALLS


def _ask(url: str, path: str, body: bytes, version: str) -> int:
    if version == "1.1":
        return http.post(f"{url}{path}", content=body).status_code
    with Http2Client(url) as client:
        stream = client.begin("POST", path)
        client.data(stream, body, ends=True)
        return client.answer(stream)[0]
