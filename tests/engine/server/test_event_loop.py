"""Nothing of a user's text is parsed, planned or evaluated on the event loop, so that no request holds up the others."""

from __future__ import annotations

import sys
import threading
from collections import Counter
from collections.abc import Iterator
from pathlib import PurePath
from types import FrameType

import orjson
import pytest

import kestrel_sql
from kestrel_sql.server.open import Running
from tests.bench.responsive import SETUP, requests
from tests.engine.server.servers import Http2Client, http, ksql, spark_server

REQUESTS = {name: (path, text) for name, path, text in requests(20_000)}

ROOT = str(PurePath(kestrel_sql.__file__).parent)

ROOMS = {"admin", "formats", "queries", "server", "session", "topics", "types"}
"""Whose functions the event loop may call: they look at what the engine knows, and write names, types and JSON."""

MOST_CALLS = 5_000
"""Fewer than a text of 20,000 bytes has characters."""

calls: Counter[str] = Counter()
"""How often the event loop has called functions of ours, by room."""


def note(frame: FrameType, event: str, _: object) -> None:
    if event == "call" and frame.f_code.co_filename.startswith(ROOT):
        calls[PurePath(frame.f_code.co_filename).relative_to(ROOT).parts[0]] += 1


def watch(frame: FrameType, event: str, argument: object) -> None:
    """Watch the thread of the event loop only."""
    sys.setprofile(note if threading.current_thread().name == "kestrel-http" else None)


@pytest.fixture(scope="module")
def watched() -> Iterator[Running]:
    threading.setprofile(watch)
    try:
        with spark_server() as running:
            threading.setprofile(None)
            assert ksql(running.url, SETUP, streamsProperties={"auto.offset.reset": "earliest"}).status_code == 200
            yield running
    finally:
        threading.setprofile(None)


def ask(url: str, path: str, body: bytes, version: str) -> int:
    if version == "1.1":
        return http.post(f"{url}{path}", content=body).status_code
    with Http2Client(url) as client:
        stream = client.begin("POST", path)
        client.data(stream, body, ends=True)
        return client.answer(stream)[0]


@pytest.mark.rules("R14.5")
@pytest.mark.parametrize("version", ["1.1", "2"])
@pytest.mark.parametrize("name", REQUESTS)
def test_the_event_loop_does_no_work_of_a_request(watched: Running, name: str, version: str) -> None:
    path, text = REQUESTS[name]
    calls.clear()
    assert ask(watched.url, path, orjson.dumps({"ksql": text}), version) in (200, 400)
    assert calls["server"]
    assert calls.keys() <= ROOMS
    assert calls.total() < MOST_CALLS


@pytest.mark.rules("R14.5")
@pytest.mark.parametrize("path", ["/metrics", "/ui/data"])
def test_what_is_told_of_many_queries_is_written_beside_the_event_loop(watched: Running, path: str) -> None:
    made = "".join(f"CREATE STREAM {path[1]}{number} AS SELECT * FROM s;" for number in range(100))
    assert ksql(watched.url, made).status_code == 200
    calls.clear()
    assert f"CSAS_{path[1].upper()}99" in http.get(f"{watched.url}{path}").text
    assert calls.total() < 200
