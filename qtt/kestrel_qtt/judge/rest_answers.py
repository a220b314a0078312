"""Judge the answers of a REST-QTT case (rules Q13.2, Q13.3, Q13.4)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import zip_longest

from msgspec.structs import replace

from kestrel_qtt.cases.model import Actual, Json, Produced
from kestrel_qtt.judge.compare import is_same
from kestrel_qtt.judge.diff import Comparison, topic_differences, topic_report
from kestrel_qtt.judge.json_text import write_json
from kestrel_qtt.ksqldb.rest_cases import Answer, Answered, RestCase

_PREFIX = "|starts_with"


def rest_failures(case: RestCase, outcome: Produced) -> Iterator[str]:
    """Return how answers and written records differ from those that the case expects."""
    yield from _records(case, outcome)
    answers = outcome.answers if isinstance(outcome, Answered) else ()
    if not case.responses:
        return
    for number, (expected, answer) in enumerate(zip_longest(case.responses, answers)):
        where = f"response {number}"
        if expected is None or answer is None:
            yield f"{where}: {'not expected' if expected is None else 'there is none'}: {_shown(expected or answer)}"
            continue
        (kind,) = expected
        if kind != answer.kind:
            yield f"{where}: {kind} expected, not {answer.kind}"
            continue
        content = expected[kind]
        if kind == "admin":
            yield from _admin(where, content, answer)
        elif isinstance(content, list):
            yield from _query(where, content, answer, in_order=case.in_order)


def _shown(thing: Answer | Actual) -> str:
    return write_json(list(thing.elements)) if isinstance(thing, Answer) else write_json(thing)


def _records(case: RestCase, outcome: Produced) -> Iterator[str]:
    """Compare as many records of a topic as are expected, without headers."""
    for topic, records in case.outputs_by_topic.items():
        actual = outcome.records.get(topic, ())[: len(records)]
        wanted = [replace(left, headers=right.headers) for left, right in zip(records, actual, strict=False)]
        wanted += records[len(wanted) :]
        comparison = Comparison()
        found = topic_differences(topic, wanted, actual, comparison)
        if found:
            yield topic_report(topic, len(wanted), len(actual), found, case.file, comparison.matching)


def _admin(where: str, expected: Json, answer: Answer) -> Iterator[str]:
    if not _holds(expected, answer.elements[0]):
        yield f"{where}: {write_json(expected)} expected, not {write_json(answer.elements[0])}"


def _holds(expected: Json, actual: Actual) -> bool:
    """Say whether every listed member exists and is equal; a member's name may ask for a prefix."""
    if isinstance(expected, dict):
        return isinstance(actual, Mapping) and all(_member(name, value, actual) for name, value in expected.items())
    return is_same(expected, actual)


def _member(name: str, expected: Json, actual: Mapping[str, Actual]) -> bool:
    if name.endswith(_PREFIX):
        return str(actual.get(name.removesuffix(_PREFIX), "")).startswith(str(expected))
    return name in actual and _holds(expected, actual[name])


def _query(where: str, expected: Sequence[Json], answer: Answer, *, in_order: bool) -> Iterator[str]:
    if len(expected) != len(answer.elements):
        yield f"{where}: {len(expected)} elements expected, {len(answer.elements)} given\n{_both(expected, answer)}"
        return
    left = list(answer.elements)
    for element in expected:
        found = next((at for at, actual in enumerate(left[:1] if in_order else left) if _same(element, actual)), None)
        if found is None:
            yield f"{where}: {write_json(element)} is not among the elements\n{_both(expected, answer)}"
            return
        del left[found]


def _both(expected: Sequence[Json], answer: Answer) -> str:
    wanted = "\n".join(f"    expected  {write_json(element)}" for element in expected)
    return wanted + "\n" + "\n".join(f"    actual    {write_json(element)}" for element in answer.elements)


def _same(expected: Json, actual: Actual) -> bool:
    if not isinstance(expected, dict) or not isinstance(actual, Mapping) or set(expected) != set(actual):
        return False
    (kind,) = expected
    if kind == "header":
        return _holds(expected[kind], actual[kind])
    return is_same(expected[kind], actual[kind])
