"""Classes of reasons why the spec of a stored ksqlDB plan holds only in part (rules Q16.4).

A class follows from the plan and its spec, never from a name. It drops only the expectations that it explains. The case
is judged again with the others, which must still hold.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from decimal import Decimal

import msgspec
from msgspec.structs import replace

from kestrel_qtt.cases.model import Actual, ActualRecord, Case, ExpectedTopic, Json, OutputRecord, Produced, Topic
from kestrel_qtt.cases.read_json import parse_json
from kestrel_qtt.judge.diff import Comparison
from kestrel_qtt.plans.store import fields_used

INTERNAL_PREFIX = "_confluent-ksql-"

_EXACT_DOUBLES = 2**53

Relax = Callable[[Case, Produced], Case]


class PlanClass(msgspec.Struct, frozen=True):
    """A reason why a spec holds only in part. If `tags` is not empty, the plan must have one of these steps."""

    name: str
    relax: Relax
    tags: frozenset[str] = frozenset()


def classify(case: Case, produced: Produced, holds: Callable[[Case], bool]) -> tuple[str, ...]:
    """Return the classes that together explain why the spec of the case fails; none if they do not explain all of it.

    `holds` judges a case with a part of its expectations dropped.
    """
    if case.plan is None:
        return ()
    used = fields_used(parse_json(case.plan.read_text(encoding="utf-8")))
    chosen = [each for each in CLASSES if not each.tags or each.tags & used]
    chosen = [each for each in chosen if each.relax(case, produced) is not case]
    if not holds(_relaxed(case, produced, chosen)):
        return ()
    for each in list(chosen):
        fewer = [other for other in chosen if other is not each]
        if fewer and holds(_relaxed(case, produced, fewer)):
            chosen = fewer
    return tuple(each.name for each in chosen)


def _relaxed(case: Case, produced: Produced, classes: Iterable[PlanClass]) -> Case:
    for each in classes:
        case = each.relax(case, produced)
    return case


def _without_internal_records(case: Case, _: Produced) -> Case:
    """Drop records and partitions of repartition and changelog topics, which Kestrel does not have."""
    outputs = tuple(record for record in case.outputs or () if not record.topic.startswith(INTERNAL_PREFIX))
    case = case if outputs == (case.outputs or ()) else replace(case, outputs=outputs)
    return _with_topics(
        case, lambda topic: replace(topic, partitions=None) if topic.name.startswith(INTERNAL_PREFIX) else topic
    )


def _as_declared(case: Case, _: Produced) -> Case:
    """Take topics as the case declares them. Specs repeat them as the old harness registered them again."""
    declared = {topic.name: topic for topic in case.topics}
    return _with_topics(case, lambda topic: _declared(topic, declared[topic.name]) if topic.name in declared else topic)


def _declared(expected: ExpectedTopic, declared: Topic) -> ExpectedTopic:
    return replace(
        expected,
        partitions=None if expected.partitions is None else declared.partitions,
        key_schema_id=declared.key_schema_id,
        value_schema_id=declared.value_schema_id,
        key_schema=expected.key_schema if declared.key_schema is None else None,
        value_schema=expected.value_schema if declared.value_schema is None else None,
    )


def _with_topics(case: Case, change: Callable[[ExpectedTopic], ExpectedTopic]) -> Case:
    if case.post is None:
        return case
    topics = tuple(map(change, case.post.topics))
    return case if topics == case.post.topics else replace(case, post=replace(case.post, topics=topics))


def _single_emission(case: Case, produced: Produced) -> Case:
    """Drop the first of two emissions.

    Kafka before 3.5 emitted a group after it removed the old row and again after it added the new one.
    """
    kept: list[OutputRecord] = []
    for topic, expected in case.outputs_by_topic.items():
        kept += _last_emissions(expected, produced.records.get(topic, ()), case.is_exact)
    return _with_outputs(case, kept)


def _last_emissions(
    expected: Sequence[OutputRecord], actual: Sequence[ActualRecord], exact: bool
) -> list[OutputRecord]:
    """Return the expected records that were written, from the end.

    A record may be missing if the next one has the same key and time.
    """
    kept: list[OutputRecord] = []
    at = len(actual) - 1
    for index in range(len(expected) - 1, -1, -1):
        record = expected[index]
        if at >= 0 and Comparison(exact).is_same(record, actual[at]):
            kept.append(record)
            at -= 1
        elif index + 1 == len(expected) or not _same_place(record, expected[index + 1]):
            return list(expected)
    return kept[::-1] if at < 0 else list(expected)


def _same_place(left: OutputRecord, right: OutputRecord) -> bool:
    return (left.key, left.window, left.timestamp) == (right.key, right.window, right.timestamp)


def _respelled(case: Case, produced: Produced) -> Case:
    """Accept equal numbers in another spelling, such as `1` and `1.0`, and null columns instead of absent ones."""
    written: list[OutputRecord] = []
    for topic, expected in case.outputs_by_topic.items():
        actual = produced.records.get(topic, ())
        if len(actual) != len(expected):
            return case
        for left, right in zip(expected, actual, strict=True):
            written.append(replace(left, key=_spelled(left.key, right.key), value=_spelled(left.value, right.value)))
    return _with_outputs(case, written)


def _spelled(expected: Json, actual: Actual) -> Json:
    """Return the expected value with its numbers spelled as in the actual one."""
    match expected, actual:
        case bool(), _:
            return expected
        case (int() | Decimal()) as wanted, Decimal() if wanted == actual or _same_double(wanted, actual):
            return actual
        case dict(), Mapping():
            filled: dict[str, Json] = {
                name: None for name, value in actual.items() if value is None and name not in expected
            }
            kept = {name: value for name, value in expected.items() if value is not None or name in actual}
            return {name: _spelled(value, actual.get(name)) for name, value in (kept | filled).items()}
        case list(), list() | tuple() if len(expected) == len(actual):
            return [_spelled(left, right) for left, right in zip(expected, actual, strict=True)]
        case _:
            return expected


def _same_double(left: int | Decimal, right: Decimal) -> bool:
    """Say whether two numbers beyond the exact integers of a double are the same double."""
    return abs(Decimal(left)) > _EXACT_DOUBLES and float(left) == float(right)


def _with_outputs(case: Case, outputs: Sequence[OutputRecord]) -> Case:
    """Return the case with other outputs, or the case itself if they are equal topic by topic."""
    changed = replace(case, outputs=tuple(outputs))
    return case if repr(case.outputs_by_topic) == repr(changed.outputs_by_topic) else changed


CLASSES: tuple[PlanClass, ...] = (
    PlanClass("internal-records", _without_internal_records),
    PlanClass("topic-as-declared", _as_declared),
    PlanClass("double-emission", _single_emission, frozenset({"tableAggregateV1"})),
    PlanClass("number-spelling", _respelled),
)
"""In the order in which they are tried; the plan must use a step of `tags`, if there are any."""
