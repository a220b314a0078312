"""The requests of faces.yaml, and how they are sent to a server."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from tests.engine.server.servers import Http2Client, http

FACES = yaml.safe_load(Path(__file__).with_name("faces.yaml").read_text(encoding="utf-8"))

VERSIONS = ("1.1", "2")

_DEPTH = 1_000
"""How deep the calls of an expression nest that is too large."""


@dataclass(frozen=True, slots=True)
class Place:
    """A server, the stream that it has, and how the names of its topics begin."""

    url: str
    stream: str
    topics: str

    def fill(self, text: str) -> str:
        """Fill in the names of this server."""
        deep = f"{'ABS(' * _DEPTH}1{')' * _DEPTH}"
        return text.replace("{s}", self.stream).replace("{t}", self.topics).replace("{deep}", deep)


def send(place: Place, asked: Mapping[str, Any], version: str) -> tuple[int, str]:
    """Send a request over a version of HTTP; the status and the text of its answer."""
    method, path, body = "POST", asked.get("path", "/ksql"), asked.get("body", "")
    if "get" in asked:
        method, path = "GET", asked["get"]
    elif "text" in asked:
        body = json.dumps({"ksql": place.fill(asked["text"])})
    if version == "1.1":
        answer = http.request(method, f"{place.url}{path}", content=body)
        return answer.status_code, answer.text
    with Http2Client(place.url) as client:
        stream = client.begin(method, path)
        client.data(stream, body.encode(), ends=True)
        status, data = client.answer(stream)
        return status, data.decode()


def check(place: Place, point: str, version: str) -> None:
    """Send the requests of a point, and compare their answers."""
    for asked in FACES["asked"][point]:
        status, text = send(place, asked, version)
        assert status == asked.get("status", 200), (asked, text)
        if "code" in asked:
            assert json.loads(text)["error_code"] == asked["code"], (asked, text)
        assert place.fill(asked.get("says", "")) in text, (asked, text)
        assert "hide" not in asked or asked["hide"] not in text, (asked, text)
