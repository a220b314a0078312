"""The requests of answers.yaml, and what is compared of the answers; run as a program, it asks ksqlDB's own server."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import yaml

from kestrel_sql.kafka.broker.broker import Broker
from tests.kafka.ksqldb import start_ksqldb
from tests.kafka.servers import Server, eventually, http

_HERE = Path(__file__)
_FILE = yaml.safe_load(_HERE.with_suffix(".yaml").read_text(encoding="utf-8"))
REQUESTS = [{"text": each} if isinstance(each, str) else each for each in _FILE["asked"]]
RECORDED = _HERE.with_suffix(".json")

_VOLATILE = _FILE["ours"].keys() | {"commandSequenceNumber", "timestamp", "kafkaClusterId", "kafka-cluster"}
_ERROR = ("@type", "error_code")
"""The message of an error shows the place in the text, and the text is that which was sent."""

_WRITTEN = {
    r"127\.0\.0\.1:\d+": "HOST",
    r"(query|transient_\w+?)_\d+(_\d+)?$": r"\1",
    # A topic that ksqlDB creates keeps records for a week, one of Kestrel as long as the broker says.
    r"RETENTION_MS=-?\d+": "RETENTION_MS=…",
    # A query that has not read yet.
    "^STARTING$": "RUNNING",
}


def answers(server: Server, service: str) -> Iterator[Any]:
    """Send the requests to a server of a fresh service, and give what is compared of each answer, None for nothing."""
    for request in REQUESTS:
        status, content = _ask(server, service, request)
        yield None if "differs" in request else [status, shape(content, service)]


def shape(content: Any, service: str) -> Any:
    """What is compared of an answer: names of services, times and the like left out, lists in order."""
    if isinstance(content, Mapping):
        if "error_code" in content:
            return {name: content[name] for name in _ERROR}
        shown = {name: shape(each, service) for name, each in content.items()}
        return {name: "…" if name in _VOLATILE else each for name, each in shown.items()}
    if isinstance(content, list):
        content = [each for each in content if not _is_foreign(each, service)]
        # ksqlDB keeps much of what it lists in hash maps.
        return sorted((shape(each, service) for each in content), key=partial(json.dumps, sort_keys=True))
    if isinstance(content, str):
        for pattern, text in _WRITTEN.items():
            content = re.sub(pattern, text, content)
        return content.replace(service, "{t}")
    return content


def _is_foreign(content: Any, service: str) -> bool:
    """Whether it is a topic of somebody else on the broker."""
    return isinstance(content, Mapping) and "replicaInfo" in content and not content["name"].startswith(service)


def _ask(server: Server, service: str, request: Mapping[str, str]) -> tuple[int, Any]:
    body = request["body"] if "body" in request else json.dumps({"ksql": request.get("text")})
    deadline = time.monotonic() + 60
    while True:
        if "get" in request:
            answer = http.get(f"{server.url}{request['get']}")
        else:
            answer = http.post(f"{server.url}{request.get('path', '/ksql')}", content=body.replace("{t}", service))
        if request.get("until", "") in answer.text or time.monotonic() > deadline:
            return answer.status_code, _content(answer.text)
        time.sleep(0.2)


def _content(text: str) -> Any:
    """JSON as it is, otherwise the lines of a text, each as JSON if it is."""
    try:
        return json.loads(text)
    except ValueError:
        lines = text.splitlines()
        return [_content(line) for line in lines] if len(lines) > 1 else text


def main() -> None:
    """Ask ksqlDB's server, and write what it answers."""
    with TemporaryDirectory() as folder, ExitStack() as stack:
        broker = stack.enter_context(Broker.start())
        server = start_ksqldb(broker.address, "a7_", Path(folder), stack)
        eventually(server.is_up, server)
        lines = [json.dumps(each, ensure_ascii=False, sort_keys=True) for each in answers(server, "a7_")]
    RECORDED.write_text("[\n" + ",\n".join(lines) + "\n]\n", encoding="utf-8")


if __name__ == "__main__":
    main()
