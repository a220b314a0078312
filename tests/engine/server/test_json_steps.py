"""Bodies of requests as JSON; large ones are read in steps, so that the event loop goes on."""

from __future__ import annotations

import asyncio
import json
import threading
from typing import Any

import pytest
from starlette.requests import Request

from kestrel_sql.server.errors import ApiError
from kestrel_sql.server.http.bodies import Limits, read_as, read_in_steps, read_object

LARGE = {"ksql": "SELECT é\u0001 '\U0001f600';" * 10_000, "streamsProperties": {"a": [1, -2.5, True, None, {}]}}
BAD = ["{", '{"a":NaN}', '{"a":-Infinity}', '{"a":"\\ud800"}', '{"a":1} x', '{"a":01}', b'{"a":"\xff"}']


def request(body: bytes) -> Request:
    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": body}

    return Request({"type": "http", "method": "POST", "headers": []}, receive)


def test_a_large_body_is_read_beside_the_event_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    threads = []

    def read(text: bytes | str) -> Any:
        threads.append(threading.current_thread())
        return read_in_steps(text)

    monkeypatch.setattr("kestrel_sql.server.http.bodies.read_in_steps", read)
    assert asyncio.run(read_object(request(json.dumps(LARGE).encode()), Limits())) == LARGE
    assert asyncio.run(read_object(request(b'{"ksql": "x"}'), Limits())) == {"ksql": "x"}
    assert threads != []
    assert threading.main_thread() not in threads


@pytest.mark.parametrize("text", BAD)
def test_what_is_no_json_is_refused_however_large_it_is(text: bytes | str) -> None:
    small = text.encode() if isinstance(text, str) else text
    for body in (small, b" " * 200_000 + small):
        with pytest.raises(ApiError, match="Invalid JSON"):
            asyncio.run(read_object(request(body), Limits()))


def test_what_nests_too_deep_is_refused() -> None:
    with pytest.raises(ValueError, match="nests too deep"):
        read_in_steps("[" * 100_000)


@pytest.mark.rules("R14.5")
@pytest.mark.parametrize(("body", "beside"), [({"ksql": "x"}, False), (LARGE, True)])
def test_what_is_made_of_a_large_body_is_made_beside_the_event_loop(body: object, beside: bool) -> None:
    def make(found: dict[str, object]) -> bool:
        assert found == body
        return threading.current_thread() is not threading.main_thread()

    assert asyncio.run(read_as(make, request(json.dumps(body).encode()), Limits())) is beside
