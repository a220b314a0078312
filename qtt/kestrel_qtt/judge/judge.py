"""Judge the outcome of a case (rules Q8, Q9, Q10)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import assert_never

from kestrel_qtt.cases.model import (
    CLASS_PREFIX,
    Case,
    Crashed,
    ExpectedException,
    Failed,
    FormatInfo,
    Outcome,
    Produced,
    Rejected,
    Result,
    SerdeInfo,
    Status,
)
from kestrel_qtt.judge.column_lists import canonical_columns
from kestrel_qtt.judge.diff import Comparison, record_text, topic_differences, topic_report
from kestrel_qtt.judge.log_entries import log_differences, log_notes
from kestrel_qtt.judge.post_conditions import post_differences
from kestrel_qtt.judge.rest_answers import rest_failures
from kestrel_qtt.judge.spec_classes import classify
from kestrel_qtt.ksqldb.rest_cases import RestCase


def serde_failures(expected: Mapping[str, SerdeInfo], actual: Mapping[str, SerdeInfo]) -> list[str]:
    """Return how the topics and stores of a query differ from the expected ones, one message each."""
    failures = [
        f"schemas: {name} is expected, but nothing is written there" for name in expected.keys() - actual.keys()
    ]
    failures += [f"schemas: {name} is written, but not expected" for name in actual.keys() - expected.keys()]
    both = sorted(expected.keys() & actual.keys())
    return sorted(failures) + [text for name in both for text in _differences(name, expected[name], actual[name])]


def _differences(name: str, expected: SerdeInfo, actual: SerdeInfo) -> Iterator[str]:
    wanted, found = canonical_columns(expected.schema), canonical_columns(actual.schema)
    if wanted != found:
        yield f"schemas: {name}: schema is\n    {found}\n  expected\n    {wanted}"
    sides = (("key", expected.key_format, actual.key_format), ("value", expected.value_format, actual.value_format))
    for side, left, right in sides:
        if _whole(left) != _whole(right):
            yield f"schemas: {name}: {side} format is {_whole(right)}, expected {_whole(left)}"


def _whole(info: FormatInfo | None) -> object:
    if info is None:
        return "absent"
    return info.format, dict(info.properties), sorted(info.features), info.window_type, info.window_size


_STATEMENT_EXCEPTION = "KsqlStatementException"
_SYNTAX_CODE = "SYNTAX"


def judge(case: Case, outcome: Outcome, seconds: float = 0.0, *, tolerant_errors: bool = False) -> Result:
    """Compare `outcome` with what `case` expects.

    With `tolerant_errors`, a case that expects an exception accepts any rejection of the right statement. A stored plan
    of ksqlDB whose spec does not hold passes if classes explain it; `reason` names them.
    """
    if isinstance(outcome, Crashed):
        return Result(case, Status.ERROR, seconds, outcome.message, outcome)
    reason = (
        _negative(case.expected_exception, case, outcome, tolerant_errors)
        if case.expected_exception
        else _positive(case, outcome)
    )
    if reason and case.tolerant and isinstance(outcome, Produced):
        produced = outcome
        classes = classify(case, produced, lambda relaxed: not _produced(relaxed, produced))
        if classes:
            return Result(case, Status.PASSED, seconds, f"{CLASS_PREFIX}{', '.join(classes)}", outcome)
    if reason and isinstance(outcome, Produced):
        notes = (*outcome.silence, *(log_notes(outcome.log) if case.log is None else ()))
        reason = "\n".join([reason, *(f"note: {sentence}" for sentence in notes)])
    return Result(case, Status.FAILED if reason else Status.PASSED, seconds, reason, outcome)


def _positive(case: Case, outcome: Produced | Rejected | Failed) -> str:
    match outcome:
        case Produced():
            return _produced(case, outcome)
        case Rejected(message=message):
            place = f"\n{outcome.place}" if outcome.place else ""
            return f"{_which(outcome)} was rejected: {message}{place}"
        case Failed(message=message):
            return f"the query failed: {message}"
        case _:
            assert_never(outcome)


def _which(outcome: Rejected) -> str:
    if outcome.statement_index is None:
        return "the script"
    return f"statement {outcome.statement_index + 1}{' (the last one)' if outcome.is_last else ''}"


def _negative(expected: ExpectedException, case: Case, outcome: Produced | Rejected | Failed, tolerant: bool) -> str:
    match outcome:
        case Produced():
            return "an exception was expected, but every statement and every record was accepted"
        case Rejected():
            if not (outcome.is_last or _any_statement(expected, case, outcome)):
                return f"the last statement should have been rejected, but {_which(outcome)} was: {outcome.message}"
            return (
                ""
                if tolerant
                else _message(expected, f"{outcome.message}\n{outcome.unlogged_message}", outcome.error_code)
            )
        case Failed():
            if not case.inputs:
                return f"the statement should have been rejected, but the query failed later: {outcome.message}"
            return "" if tolerant else _message(expected, outcome.message, "QUERY")
        case _:
            assert_never(outcome)


def _any_statement(expected: ExpectedException, case: Case, outcome: Rejected) -> bool:
    """Say whether the rejection may come from a statement that is not the last one."""
    if outcome.statement_index is None or outcome.error_code == _SYNTAX_CODE:
        return True
    return case.tolerant and not (expected.type or "").endswith(_STATEMENT_EXCEPTION)


def _message(expected: ExpectedException, text: str, code: str) -> str:
    if expected.code is not None and expected.code != code:
        return f"error code {expected.code} was expected, not {code}: {text.strip()}"
    # A message of Kafka Streams comes with its cause.
    wanted = [part for part in (expected.message, expected.cause_message) if part]
    if wanted and not any(part in text for part in wanted):
        return f"the message does not contain the expected text\n  expected  {wanted[0]}\n  actual    {text.strip()}"
    return ""


def _produced(case: Case, produced: Produced) -> str:
    if not case.tolerant and case.outputs is None and case.post is None and case.log is None:
        return "the case states no expectation: give outputs, or let `qtt approve` fill them in"
    if isinstance(case, RestCase):
        return "\n".join(rest_failures(case, produced))
    failures = list(_topics(case, produced))
    if case.post:
        failures += [each.text for each in post_differences(case.post, produced.sources, produced.topics)]
    if case.serdes is not None:
        failures += serde_failures(case.serdes, produced.serdes)
    if case.log is not None:
        failures += [each.text for each in log_differences(case.log, produced.log)]
    return "\n".join(failures)


def _topics(case: Case, produced: Produced) -> Iterator[str]:
    expected = case.outputs_by_topic
    for topic, records in expected.items():
        actual = produced.records.get(topic, ())
        found = topic_differences(topic, records, actual, Comparison.of(case))
        if found:
            yield topic_report(topic, len(records), len(actual), found, case.file, case.matching)
    if not case.tolerant and case.outputs is not None:
        yield from _silence(case, produced, set(expected))


def _silence(case: Case, produced: Produced, named: set[str]) -> Iterator[str]:
    """Check that a sink topic that no output names is empty."""
    for topic, records in produced.compared.items():
        if records and topic not in named:
            yield f"topic {topic}: no records expected, {len(records)} written, the first: {record_text(records[0])}"
