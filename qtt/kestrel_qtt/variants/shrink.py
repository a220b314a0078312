"""Make a failing case small while it fails for the same reason."""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable, Iterator, Sequence
from typing import Any

import msgspec
from msgspec.structs import replace

from kestrel_qtt.cases.decode import output_of
from kestrel_qtt.cases.model import (
    ActualRecord,
    Case,
    Crashed,
    Failed,
    InputRecord,
    Outcome,
    OutputRecord,
    Produced,
    Rejected,
)
from kestrel_qtt.cases.read_json import parse_json
from kestrel_qtt.drivers.driver import Driver
from kestrel_qtt.judge.diff import Comparison, RecordDifference, topic_differences
from kestrel_qtt.judge.json_text import record_json
from kestrel_qtt.variants.reductions import (
    Draft,
    Reduction,
    reductions,
    smaller_statements,
    smaller_values,
    without_columns,
    without_inputs,
    without_queries,
)
from kestrel_qtt.variants.running import run_variants
from kestrel_sql.errors import EngineError

ROUND_SIZE = 240
"""How many candidates a round runs at most."""


class ShrinkError(Exception):
    """A case cannot be shrunk; the message says why."""


class Reason(msgspec.Struct, frozen=True):
    """Why a case fails; `holds` says of another outcome whether it fails in the same way.

    `outputs` returns the records to expect of a smaller case, so that it fails for this reason only. `needs` says of an
    input that it must stay, with the values that it has: without it, a missing record would prove nothing.
    """

    text: str
    holds: Callable[[Outcome], bool]
    outputs: Callable[[Outcome], tuple[OutputRecord, ...] | None]
    needs: Callable[[InputRecord], bool] = lambda _: False


def shrink(case: Case, driver: Driver, tell: Callable[[str], None]) -> tuple[Case, Reason]:
    """Return the smallest case that the reductions find, and the reason for which both fail.

    Statements go before records, records before columns, columns before expressions and values; at the end all are
    tried until none works. Each round runs its candidates fused, then combines those that still fail.

    Raises:
        ShrinkError: the case passes, or fails in a way that no smaller case can be compared with.
    """
    try:
        draft = Draft.of(case)
    except EngineError as error:
        raise ShrinkError(f"a statement does not parse: {error.message}") from error
    tell(f"running {case.id}")
    outcome = _run([draft], driver)[0]
    reason = reason_of(case, outcome)
    tell(f"fails because {reason.text}")
    search = _Search(driver, reason, tell, draft, outcome)
    for kind in (without_queries, without_inputs, without_columns, smaller_statements, smaller_values):
        search.reduce(kind, until_none=False)
    search.reduce(reductions, until_none=True)
    return replace(search.draft.to_case(case.id), outputs=reason.outputs(search.outcome), post=None, log=None), reason


class _Search(msgspec.Struct):
    """The smallest draft so far that fails for the reason, its outcome, and the contents that do not fail so."""

    driver: Driver
    reason: Reason
    tell: Callable[[str], None]
    draft: Draft
    outcome: Outcome
    number: int = 0
    tried: set[Hashable] = set()

    def reduce(self, kind: Callable[[Draft], Iterator[Reduction]], *, until_none: bool) -> None:
        """Apply reductions of a kind: until none works, or until those that work are all combined."""
        while working := self._working(kind):
            if self._combine(working) and not until_none:
                return

    def _working(self, kind: Callable[[Draft], Iterator[Reduction]]) -> list[Reduction]:
        """Return the reductions with which the draft still fails, the largest first; the first that do of a round."""
        candidates = self._smaller(kind)
        for start in range(0, len(candidates), ROUND_SIZE):
            chosen = candidates[start : start + ROUND_SIZE]
            self.number += 1
            self.tell(f"round {self.number}: {_sizes(self.draft)}, {len(chosen)} smaller ones to try")
            outcomes = _run([smaller for _, smaller in chosen], self.driver)
            holds = [self.reason.holds(found) for found in outcomes]
            self.tried |= {each.content for (_, each), works in zip(chosen, holds, strict=True) if not works}
            if any(holds):
                return [reduce for (reduce, _), works in zip(chosen, holds, strict=True) if works]
        return []

    def _smaller(self, kind: Callable[[Draft], Iterator[Reduction]]) -> list[tuple[Reduction, Draft]]:
        """Apply each reduction by itself; keep those that make a new, smaller draft, the largest steps first."""
        found: dict[Hashable, tuple[Reduction, Draft]] = {}
        for reduce in kind(self.draft):
            smaller = reduce(self.draft)
            if smaller.size < self.draft.size and _has_needed(self.draft, smaller, self.reason):
                found.setdefault(smaller.content, (reduce, smaller))
        new = [pair for content, pair in found.items() if content not in self.tried]
        return sorted(new, key=lambda pair: pair[1].size)

    def _combine(self, working: Sequence[Reduction]) -> bool:
        """Apply as many of the working reductions, the largest first, as still fail together.

        Returns:
            Whether all are applied.
        """
        combined = [working[0](self.draft)]
        for reduce in working[1:]:
            smaller = reduce(combined[-1])
            if smaller.size < combined[-1].size and _has_needed(self.draft, smaller, self.reason):
                combined.append(smaller)
        # Those whose statement another one changed do not combine with it.
        drafts = [combined[count - 1] for count in _halves(len(combined))]
        outcomes = _run(drafts, self.driver)
        self.draft, self.outcome = next(
            ((each, found) for each, found in zip(drafts, outcomes, strict=True) if self.reason.holds(found)),
            (drafts[-1], outcomes[-1]),
        )
        return self.draft is drafts[0]


def _halves(count: int) -> Iterator[int]:
    while count > 1:
        yield count
        count = (count + 1) // 2 if count > 2 else 1
    yield 1


def _has_needed(draft: Draft, smaller: Draft, reason: Reason) -> bool:
    """Say whether the inputs that the reason needs are there, with the same values in the columns that are left."""
    return all(
        number in smaller.inputs and _is_part(smaller.inputs[number].value, record.value)
        for number, record in draft.inputs.items()
        if reason.needs(record)
    )


def _is_part(smaller: object, value: object) -> bool:
    if isinstance(smaller, dict) and isinstance(value, dict):
        return smaller.items() <= value.items()
    return bool(smaller == value)


def _run(drafts: Sequence[Draft], driver: Driver) -> list[Outcome]:
    cases = [draft.to_case(f"{draft.case.id}#{number}") for number, draft in enumerate(drafts)]
    found = {case.id: outcome for case, outcome, _ in run_variants(cases, driver)}
    return [found[case.id] for case in cases]


def _sizes(draft: Draft) -> str:
    return f"{len(draft.statements)} statements, {len(draft.inputs)} records, {draft.size} characters"


def reason_of(case: Case, outcome: Outcome) -> Reason:
    """Return why a case fails.

    Raises:
        ShrinkError: it passes, or only its post conditions or its log entries differ.
    """
    if isinstance(outcome, Produced):
        if case.expected_exception is not None:
            raise ShrinkError("the case expects an error and runs to its end: there is no failure to preserve")
        return _record_reason(_first_difference(case, outcome), Comparison.of(case))
    if case.expected_exception is not None:
        raise ShrinkError("the case expects an error; only cases that expect records can be shrunk")
    shape = _shape(outcome)
    return Reason(_first_line(outcome), lambda found: _shape(found) == shape, lambda _: ())


def _shape(outcome: Outcome) -> tuple[str, ...]:
    """Return what two equal failures have in common: the message without numbers, names and quoted strings."""
    if isinstance(outcome, Rejected):
        return ("rejected", outcome.error_code, _plain(outcome.message))
    if isinstance(outcome, Failed | Crashed):
        return (type(outcome).__name__, _plain(outcome.message))
    return ("produced",)


def _plain(message: str) -> str:
    line = message.strip().splitlines()[0] if message.strip() else ""
    return re.sub(r"'[^']*'|`[^`]*`|\"[^\"]*\"|[A-Z_]*\d+", "…", line)


def _first_line(outcome: Rejected | Failed | Crashed) -> str:
    return (outcome.message.strip().splitlines() or [type(outcome).__name__])[0]


def _first_difference(case: Case, outcome: Produced) -> RecordDifference:
    expected = case.outputs_by_topic
    for topic in {**expected, **outcome.compared}:
        records = expected.get(topic, [])
        found = topic_differences(topic, records, outcome.records.get(topic, ()), Comparison.of(case))
        # An order alone says least: another difference, if there is one, is the better guide.
        for each in sorted(found, key=lambda each: each.moved_to is not None):
            return each
    raise ShrinkError("the case passes, or only its post conditions or log entries differ; there is nothing to shrink")


def _record_reason(difference: RecordDifference, comparison: Comparison) -> Reason:
    topic, expected, actual = difference.topic, difference.expected, difference.actual
    if expected is not None and actual is not None and difference.columns:
        column = difference.columns[0]
        return Reason(
            f"{column.column} of a record of {topic} is {column.actual!r}, expected {column.expected!r}",
            lambda found: _find(found, topic, actual, column.column) is not None,
            lambda found: tuple(_expected(found, _find(found, topic, actual, column.column), column.column, expected)),
        )
    if expected is None and actual is not None:
        return Reason(
            f"{topic} has a record that no output expects",
            lambda found: _find(found, topic, actual) is not None,
            lambda found: tuple(_expected(found, _find(found, topic, actual))),
        )
    if difference.moved_to is not None:
        raise ShrinkError(f"only the order of the records of {topic} differs; there is no failure to preserve")
    if expected is None:
        raise ShrinkError(f"no record of {topic} differs")
    return Reason(
        f"a record of {topic} is missing",
        lambda found: _lacks(found, topic, expected, comparison),
        lambda found: (*_expected(found), _narrowed(expected, found)),
        lambda record: expected.timestamp in (None, record.timestamp),
    )


def _find(outcome: Outcome, topic: str, actual: ActualRecord, column: str | None = None) -> ActualRecord | None:
    """Return the record of the same time and key whose column, or whose remaining columns, are the same."""
    if not isinstance(outcome, Produced):
        return None
    for record in outcome.records.get(topic, ()):
        if (record.timestamp, record.key, record.window) != (actual.timestamp, actual.key, actual.window):
            continue
        if column is None or column in ("timestamp", "key", "window"):
            return record
        if _at(record, column) == _at(actual, column):
            return record
    return None


def _at(record: ActualRecord, column: str) -> object:
    """Return the top member of a record that holds a column such as `value.A.B`."""
    name, _, path = column.partition(".")
    value = getattr(record, name)
    first = re.split(r"[.\[]", path)[0]
    return value.get(first) if isinstance(value, dict) and first else value


def _lacks(outcome: Outcome, topic: str, expected: OutputRecord, comparison: Comparison) -> bool:
    """Say whether a topic that a statement still defines has no record of the time and key of the expected one."""
    if not isinstance(outcome, Produced) or topic not in (*outcome.records, *(each.name for each in outcome.topics)):
        return False
    return not any(
        comparison.same_key(expected, record) and expected.timestamp in (None, record.timestamp)
        for record in outcome.records.get(topic, ())
    )


def _narrowed(expected: OutputRecord, outcome: Outcome) -> OutputRecord:
    """Return an expected record without the columns that its topic has lost; repaired statements would write it."""
    sources = outcome.sources if isinstance(outcome, Produced) else ()
    columns = next((source.value_columns for source in sources if source.topic == expected.topic), None)
    if columns is None or not isinstance(expected.value, dict):
        return expected
    return replace(expected, value={name: value for name, value in expected.value.items() if name in columns})


def _expected(
    outcome: Outcome,
    focus: ActualRecord | None = None,
    column: str | None = None,
    wrong: OutputRecord | None = None,
) -> Iterator[OutputRecord]:
    """Yield the written records as expected ones: without `focus`, or with the expected value in its column."""
    if not isinstance(outcome, Produced):
        return
    for topic, records in outcome.compared.items():
        for record in records:
            written = output_of(parse_json(record_json(topic, record)), None)  # type: ignore[arg-type]
            if record is not focus:
                yield written
            elif column is not None and wrong is not None:
                yield _with_wrong(written, wrong, column)


def _with_wrong(written: OutputRecord, wrong: OutputRecord, column: str) -> OutputRecord:
    """Return the written record with the expected content of one column."""
    name, _, path = column.partition(".")
    value = getattr(wrong, name)
    first = re.split(r"[.\[]", path)[0]
    if first and isinstance(value, dict):
        value = {**getattr(written, name), first: value.get(first)}
    changed: dict[str, Any] = {name: value}
    return replace(written, **changed)
