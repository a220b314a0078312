"""Ask ksqlDB's own engine what a case gives.

The engine is a program beside the project. With the argument `serve` it reads one job as JSON from each line, and
writes one answer a line.
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from kestrel_qtt.cases.decode import DecodeError, output_of
from kestrel_qtt.cases.model import Case, Json, OutputRecord
from kestrel_qtt.cases.raw import TextError
from kestrel_qtt.cases.read_json import parse_json
from kestrel_qtt.plans.spec import case_document, write_json

WITH_CACHE: Mapping[str, Json] = {"ksql.streams.cache.max.bytes.buffering": "10000000"}
"""What a server of ksqlDB has and its engine in tests has not; the name without the prefix wins.

Only EMIT FINAL needs it (rule O9.4): elsewhere it merges updates, which Kestrel never does (rule L8.7).
"""

_FINAL = re.compile(r"\bEMIT\s+FINAL\b", re.IGNORECASE)

_ASKED = ("statements", "inputs", "topics")


class OracleError(Exception):
    """ksqlDB's engine gives no records for a case, or no answer at all; the message says why."""


def ask(program: Path, cases: Sequence[Case]) -> list[tuple[OutputRecord, ...] | OracleError]:
    """Return the records that ksqlDB's engine writes for each case, or why there are none.

    Raises:
        OracleError: the program does not answer.
    """
    lines = "".join(_line(number, case) for number, case in enumerate(cases))
    try:
        done = subprocess.run([program, "serve"], input=lines.encode(), stdout=subprocess.PIPE, check=False)
    except OSError as error:
        raise OracleError(f"{program}: cannot be started: {error.strerror}") from error
    answers = {answer["id"]: answer for line in done.stdout.decode().splitlines() if (answer := _answer(line))}
    if missing := [case for number, case in enumerate(cases) if number not in answers]:
        raise OracleError(f"{program}: no answer for {missing[0].id} (exit code {done.returncode})")
    return [_records(answers[number]) for number in range(len(cases))]


def _line(number: int, case: Case) -> str:
    members = case_document(case)
    job = {name: members[name] for name in _ASKED if name in members}
    defined = [f"DEFINE {name} = '{value.replace(chr(39), chr(39) * 2)}';" for name, value in case.variables.items()]
    job = {**job, "id": number, "statements": [*defined, *case.statements]}
    cache = WITH_CACHE if any(map(_FINAL.search, case.statements)) else {}
    job["properties"] = {**cache, **case.properties}
    # Line feeds inside of texts are escapes already.
    return " ".join(write_json(job).split("\n")) + "\n"


def _answer(line: str) -> dict[str, Json] | None:
    try:
        answer = parse_json(line)
    except TextError:
        return None
    return answer if isinstance(answer, dict) and "id" in answer else None


def _records(answer: Mapping[str, Any]) -> tuple[OutputRecord, ...] | OracleError:
    if "error" in answer:
        return OracleError(f"{answer['error']}: {answer.get('message', '')}")
    try:
        return tuple(
            output_of({"value": None, **record, "topic": topic}, None)
            for topic, found in answer["topics"].items()
            for record in found["records"]
        )
    except (DecodeError, KeyError, TypeError, AttributeError) as error:
        return OracleError(f"the answer cannot be read: {error}")
