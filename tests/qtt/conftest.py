"""A driver without an engine: it copies inputs to a topic, or does what the first statement of a case says."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence

import pytest

from kestrel_qtt.cases.model import ActualRecord, Case, Failed, InputRecord, LogEntry, Outcome, Produced, Rejected
from kestrel_qtt.drivers.driver import PlanningError, RunOptions


class FakeDriver:
    """`COPY` copies every input to topic OUT; `REJECT x`, `FAIL x`, `LOG x`, `CRASH` and `FORGET` do what they say."""

    def __init__(self) -> None:
        self.groups: list[list[str]] = []
        self.options: list[RunOptions] = []
        self.closed = 0

    def run(self, cases: Sequence[Case], options: RunOptions) -> Iterator[tuple[Case, Outcome, float]]:
        self.groups.append([case.id for case in cases])
        self.options.append(options)
        for case in cases:
            word, _, rest = case.statements[0].partition(" ")
            if word == "CRASH":
                raise RuntimeError("engine broke")
            if word != "FORGET":
                yield case, outcome(case, word, rest), 0.01

    def carrier_of(self, case: Case) -> str:
        return "process"

    def explain(self, case: Case) -> str:
        return f"plan of {case.name}"

    def plan_documents(self, case: Case) -> str:
        if case.statements[0].startswith("UNPLANNED"):
            raise PlanningError(f"STATEMENT: {case.statements[0]} means nothing")
        return json.dumps({"plan": [{"@type": "x", "ddlCommand": case.statements[0]}], "configs": {}})

    def close(self) -> None:
        self.closed += 1


def outcome(case: Case, word: str, rest: str) -> Outcome:
    if word == "REJECT":
        return Rejected(rest, statement_index=0, is_last=len(case.statements) == 1, error_code="STATEMENT")
    if word == "FAIL":
        return Failed(rest)
    log = (LogEntry(type="error", message=rest, topic="IN", offset=0),) if word == "LOG" else ()
    records = tuple(map(copied, case.inputs))
    return Produced({"OUT": records} if records else {}, log=log)


def copied(record: InputRecord) -> ActualRecord:
    return ActualRecord(
        key=record.key, value=record.value, timestamp=record.timestamp, window=record.window, headers=record.headers
    )


@pytest.fixture
def fake() -> FakeDriver:
    """A fresh fake driver."""
    return FakeDriver()
