"""Asks ksqlDB's engine what a case gives; it runs in a process of its own, `../shared/oracle/oracle.sh serve`."""

from __future__ import annotations

import base64
import json
import os
import re
import subprocess
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from decimal import Decimal
from functools import cache
from pathlib import Path
from typing import Any

from kestrel_qtt.cases import model
from kestrel_qtt.cases.decode import headers_of, window_of
from kestrel_qtt.cases.raw import TextError
from kestrel_qtt.cases.read_json import parse_json
from kestrel_qtt.drivers.declared_topics import topic_of
from kestrel_qtt.drivers.driver import RunOptions
from kestrel_qtt.judge.json_text import write_json
from kestrel_qtt.plans.spec import case_document
from kestrel_sql.errors import EngineError
from kestrel_sql.sql.nodes import statements as s
from kestrel_sql.sql.parse.parser import parse_script

COMMAND = Path(__file__).resolve().parents[3] / "shared" / "oracle" / "oracle.sh"
ABSENT = f"{COMMAND.parent} is absent: ksqlDB's engine was not asked"

MOST_JOBS = 3_000
"""After so many jobs a new process is started: the state of each stays in its memory."""

UNREAD = "ksqlDB's engine does not tell what it wrote"

_NO_MEMORY = "Java heap space"
"""The reason where a result is too large for the memory that it has here."""

_BOUND_BYTES = 8

ANSWER_WITHIN_S = 60.0
"""A job that takes longer computes with numbers of a billion digits, which R14.6 does not let Kestrel do."""

_CAUSE = re.compile(r"^\w+(?:Exception|Error|Throwable): (.*)")
_INTERNAL = re.compile(r"-(?:changelog|repartition)$|^_confluent-ksql-|-topic$|^KSTREAM-|^KTABLE-|-registration$")


def is_present() -> bool:
    """Say whether this machine has ksqlDB's engine."""
    return COMMAND.exists()


@cache
def functions() -> frozenset[str]:
    """The names of the functions that ksqlDB has."""
    lines = COMMAND.with_name("functions.jsonl").read_text(encoding="utf-8").splitlines()
    return frozenset(json.loads(line)["name"].upper() for line in lines)


@dataclass(slots=True)
class Oracle:
    """A driver whose outcomes are those of ksqlDB's engine, one job at a time; `jobs` counts them."""

    jobs: int = 0
    _process: subprocess.Popen[str] | None = field(default=None, init=False)

    def run(self, cases: Sequence[model.Case], _: RunOptions) -> Iterator[tuple[model.Case, model.Outcome, float]]:
        """Ask for each case in turn."""
        for case in cases:
            yield case, self.outcome(case), 0.0

    def outcome(self, case: model.Case) -> model.Outcome:
        """Return what ksqlDB does with a case."""
        document = case_document(case)
        members: dict[str, Any] = {
            name: document[name] for name in ("statements", "inputs", "properties") if name in document
        }
        answer = self._ask({"id": self.jobs, **members, "topics": [*document.get("topics", ()), *_other_topics(case)]})
        if answer is None:
            return model.Crashed(f"{UNREAD}: no answer within {ANSWER_WITHIN_S:.0f} s, or it ended")
        if "error" not in answer:
            return model.Produced({name: tuple(_records(topic)) for name, topic in _sinks(answer)})
        reason = _reason(answer)
        if answer.get("stage") == "statements":
            return model.Rejected(reason, statement_index=answer.get("statement"))
        if answer.get("stage") == "output" or reason == _NO_MEMORY:
            return model.Crashed(f"{UNREAD}: {reason}")
        return model.Failed(reason) if answer.get("stage") == "records" else model.Crashed(f"{answer}")

    def close(self) -> None:
        """End the process."""
        if self._process is not None:
            self._process.kill()
            self._process.communicate()
            self._process = None

    def _ask(self, job: Mapping[str, Any]) -> dict[str, Any] | None:
        if self.jobs % MOST_JOBS == 0:
            self.close()
        self.jobs += 1
        process = self._process = self._process or _started()
        assert process.stdin is not None
        assert process.stdout is not None
        watch = threading.Timer(ANSWER_WITHIN_S, process.kill)
        watch.start()
        try:
            process.stdin.write(write_json(dict(job)) + "\n")
            process.stdin.flush()
            line = process.stdout.readline()
        except BrokenPipeError:
            line = ""
        finally:
            watch.cancel()
        if not line:
            self.close()
            return None
        found: dict[str, Any] = json.loads(line, parse_float=Decimal)
        return found


def _started() -> subprocess.Popen[str]:
    # It syncs its stores for each job: on a disk that others write to, this takes most of its time.
    memory = {"TMPDIR": "/dev/shm"} if os.path.isdir("/dev/shm") else {}
    # Half a surrogate pair has no bytes in UTF-8, and is written as the escape of JSON.
    return subprocess.Popen(
        [COMMAND, "serve"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env={**os.environ, **memory},
        encoding="utf-8",
        errors="backslashreplace",
    )


def _other_topics(case: model.Case) -> Iterator[dict[str, Any]]:
    """The topics that a case with a join does not declare: without them, ksqlDB's engine cannot plan one of a sink."""
    declared = {topic.name for topic in case.topics}
    with suppress(EngineError):
        joining = case.statements if any("JOIN" in text.upper() for text in case.statements) else ()
        pieces = [piece for text in joining for piece in parse_script(text, case.variables or None)]
        sources = [each.statement for each in pieces if isinstance(each.statement, s.CreateSource | s.CreateAs)]
        for name in dict.fromkeys(topic_of(source).name for source in sources):
            if name not in declared:
                yield {"name": name, "partitions": 1}


def _reason(answer: Mapping[str, Any]) -> str:
    """The innermost cause of an error that says something, in one line."""
    causes = [found[1] for line in answer.get("chain", "").splitlines() if (found := _CAUSE.match(line))]
    causes = [cause for cause in causes if cause != "null"] or causes
    return causes[-1] if causes else str(answer.get("message") or answer["error"]).partition("\n")[0]


def _sinks(answer: Mapping[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    for name, topic in answer["topics"].items():
        if topic["records"] and not _INTERNAL.search(name):
            yield name, topic


def _records(topic: Mapping[str, Any]) -> Iterator[model.ActualRecord]:
    for record in topic["records"]:
        window = window_of(record)
        suffix = 0 if window is None else _BOUND_BYTES * (2 if window.kind == "session" else 1)
        yield model.ActualRecord(
            key=_written("key", topic.get("key_format", ""), record, suffix),
            value=_written("value", topic["value_format"], record),
            timestamp=record["timestamp"],
            window=window,
            headers=headers_of(record),
        )


def _written(name: str, format: str, record: Mapping[str, Any], suffix: int = 0) -> Any:
    """The key or value of a record; the text that was written tells more than what ksqlDB's reader makes of it.

    A windowed key ends with `suffix` bytes of bounds.
    """
    encoded = record.get(f"raw_{name}_base64")
    # In JSON_SR a map is a list of its entries, which only a reader with the schema tells.
    if format not in ("JSON", "DELIMITED") or (encoded is None and f"raw_{name}" not in record):
        return record[name]
    data = record[f"raw_{name}"].encode("utf-8", "surrogatepass") if encoded is None else base64.b64decode(encoded)
    text = data[: len(data) - suffix].decode("utf-8", "surrogatepass")
    try:
        return text if format == "DELIMITED" else parse_json(text)
    except TextError:
        return record[name]
