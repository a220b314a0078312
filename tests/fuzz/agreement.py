"""Compares what Kestrel and ksqlDB make of a case; a difference becomes the failure of the case, which `qtt` shrinks."""

from __future__ import annotations

import base64
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from functools import cache
from math import isfinite, isnan
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from kestrel_qtt.cases.decode import input_of, output_of
from kestrel_qtt.cases.model import ActualRecord, Case, Crashed, Failed, Outcome, OutputRecord, Produced, Rejected
from kestrel_qtt.cases.read_json import parse_json
from kestrel_qtt.cases.read_yaml import parse_yaml
from kestrel_qtt.cli.case_text import case_text
from kestrel_qtt.drivers.driver import Driver, RunOptions
from kestrel_qtt.judge.compare import Difference
from kestrel_qtt.judge.diff import Comparison, RecordDifference, topic_differences, topic_report
from kestrel_qtt.judge.json_text import record_json
from kestrel_qtt.plans.spec import case_document
from kestrel_qtt.variants.running import run_variants
from kestrel_qtt.variants.shrink import ShrinkError, shrink
from tests.fuzz.oracle import UNREAD, Oracle

_ALIKE = 3
"""So many differences are shown that are alike but for values and columns."""

_VALUES = re.compile(r"`[^`]*`|'[^']*'|\b\d[\w.]*|\b[A-Z]+\d\w*")

KNOWN = Path(__file__).with_name("known-differences.yaml")

_LAST_DIGITS = Decimal("1e-13")
"""Sines and powers of the JVM that runs ksqlDB's engine are intrinsics, which may differ in the last digit."""

_DOUBLE_DIGITS = 17
_WITH_SCALE = ("JSON", "DELIMITED", "KAFKA")


class Numbers(Comparison, frozen=True):
    """Compares numbers down to the sign of zero, but for the last digit of doubles.

    ksqlDB's readers of formats other than JSON do not tell the scale of a decimal (`has_scale`).
    """

    has_scale: bool = True

    def is_same(self, expected: OutputRecord, actual: ActualRecord) -> bool:
        """Compare one record."""
        return not self.differences(expected, actual)

    def differences(self, expected: OutputRecord, actual: ActualRecord) -> list[Difference]:
        """Compare one record."""
        # A dataclass with slots is a class of its own, to which `super()` without arguments does not lead.
        found = Comparison.differences(self, expected, actual)
        left = [each for each in found if not self._is_close(each.expected, each.actual)]
        if left or self._marks(expected.value) == self._marks(actual.value):
            return left
        return [Difference("value", expected.value, actual.value)]

    def _marks(self, value: Any, path: str = "") -> frozenset[str]:
        """The paths of negative zeros, and of all members: `qtt` finds some by their names in upper case."""
        if isinstance(value, Mapping):
            inner = (self._marks(each, f"{path}.{name}") for name, each in value.items())
            return frozenset(f"{path}.{name}" for name in value).union(*inner)
        if isinstance(value, list | tuple):
            return frozenset().union(*(self._marks(each, f"{path}[{at}]") for at, each in enumerate(value)))
        is_marked = self.has_scale and isinstance(value, Decimal) and value.is_zero() and value.is_signed()
        return frozenset([f"{path} is -0"]) if is_marked else frozenset()

    def _is_close(self, expected: Any, actual: Any) -> bool:
        if isinstance(expected, bool) or isinstance(actual, bool):
            return False
        if not (isinstance(expected, int | Decimal) and isinstance(actual, int | float | Decimal)):
            return False
        if isinstance(actual, int):
            return isinstance(expected, int) and expected == actual
        one, other = Decimal(expected), Decimal(str(actual))
        if not other.is_finite() or one == other:
            return one == other and not self.has_scale
        digits = max(len(one.as_tuple().digits), len(other.as_tuple().digits))
        return digits <= _DOUBLE_DIGITS and abs(one - other) <= _LAST_DIGITS * max(abs(one), abs(other))


def difference(case: Case, theirs: Outcome, ours: Outcome) -> str | None:
    """Say how ksqlDB and Kestrel differ, None if they agree: the kind of difference in the first line, then where.

    The readers of ksqlDB's test engine do not read all that it writes, such as a MAP with a NULL key in AVRO.
    """
    if isinstance(theirs, Crashed) and theirs.message.startswith(UNREAD) and isinstance(ours, Produced):
        return None
    for who, outcome in (("ksqlDB", theirs), ("Kestrel", ours)):
        if isinstance(outcome, Crashed):
            return f"{who} breaks: {outcome.message}"
    if isinstance(theirs, Produced) and isinstance(ours, Produced):
        return next(_differing_topics(case, theirs, ours), None)
    return _ends(theirs, ours)


def _ends(theirs: Outcome, ours: Outcome) -> str | None:
    """Say which engine refuses a statement or ends a query; it does not matter whether it does so late."""
    if not isinstance(theirs, Produced) and not isinstance(ours, Produced):
        return _earlier(theirs, ours) if isinstance(theirs, Rejected) and isinstance(ours, Rejected) else None
    who, outcome = ("Kestrel", ours) if isinstance(theirs, Produced) else ("ksqlDB", theirs)
    what = "refuses a statement" if isinstance(outcome, Rejected) else "ends a query"
    return f"only {who} {what}: {outcome.message}"  # type: ignore[union-attr]


def _earlier(theirs: Rejected, ours: Rejected) -> str | None:
    """Say that ksqlDB refuses an earlier statement; a later one may stand for one that it planned without its topology."""
    one, other = theirs.statement_index, ours.statement_index
    is_earlier = one is not None and other is not None and one < other
    return f"only ksqlDB refuses a statement: {theirs.message}" if is_earlier else None


def _differing_topics(case: Case, theirs: Produced, ours: Produced) -> Iterator[str]:
    internal = {topic.name for topic in ours.topics if topic.internal}
    for topic in dict.fromkeys((*theirs.records, *ours.records)):
        found = [] if topic in internal else differing_records(topic, theirs, ours)
        if found:
            sizes = [len(outcome.records.get(topic, ())) for outcome in (theirs, ours)]
            yield f"{_kind(found)}\n{topic_report(topic, *sizes, found, case.file, case.matching)}"


def differing_records(topic: str, theirs: Produced, ours: Produced) -> list[RecordDifference]:
    """Return how the records of a topic differ."""
    format = next((each.value_format.format for each in ours.topics if each.name == topic), "")
    numbers = Numbers(has_scale=format in _WITH_SCALE)
    actual = [replace(each, value=_with_texts(each.value)) for each in ours.records.get(topic, ())]
    expected = _expected(topic, theirs)
    pairs = list(zip(expected, actual, strict=False))
    if len(expected) != len(actual) or not all(numbers.same_key(*pair) for pair in pairs):
        return topic_differences(topic, expected, actual, numbers)
    # Records that differ in their values only would be aligned with others of their key, which say less.
    differing = ((at, *pair, tuple(numbers.differences(*pair))) for at, pair in enumerate(pairs))
    return [RecordDifference(topic, *each, None, None) for each in differing if each[-1]]


def _with_texts(value: Any) -> Any:
    """A value with bytes and odd doubles as ksqlDB's engine tells them.

    `qtt` takes empty bytes for NULL, as ksqlDB's own cases do.
    """
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, float) and not isfinite(value):
        return "NaN" if isnan(value) else "Infinity" if value > 0 else "-Infinity"
    if isinstance(value, list):
        return list(map(_with_texts, value))
    return {name: _with_texts(each) for name, each in value.items()} if isinstance(value, Mapping) else value


def _expected(topic: str, outcome: Produced) -> list[OutputRecord]:
    records = outcome.records.get(topic, ())
    return [output_of(parse_json(record_json(topic, each)), None) for each in records]  # type: ignore[arg-type]


def _kind(found: Sequence[RecordDifference]) -> str:
    """What kind of difference it is; an order alone says least."""
    each = min(found, key=lambda each: each.moved_to is not None)
    if each.expected is None:
        return "Kestrel writes a record more"
    if each.actual is None:
        return "Kestrel writes a record less"
    if each.moved_to is not None:
        return "the order of records differs"
    return f"the {each.columns[0].column.partition('.')[0].partition('[')[0]} of a record differs"


@dataclass(slots=True)
class Compared:
    """A driver of both engines: a case fails where they differ, and produces nothing where they agree."""

    kestrel: Driver
    oracle: Oracle

    def run(self, cases: Sequence[Case], options: RunOptions) -> Iterator[tuple[Case, Outcome, float]]:
        """Run the cases, those on Kestrel fused."""
        for case, ours, seconds in self.kestrel.run(cases, options):
            differs = difference(case, self.oracle.outcome(case), ours)
            yield case, Produced({}) if differs is None else Failed(differs), seconds

    def close(self) -> None:
        """End both."""
        self.kestrel.close()
        self.oracle.close()

    def smallest(self, case: Case) -> Case:
        """Return the smallest case that differs in the same way; the case itself where only an order differs."""
        try:
            return shrink(case, self, lambda _: None)[0]
        except ShrinkError:
            return case

    def with_outputs(self, case: Case) -> Case:
        """Return the case with what ksqlDB writes."""
        theirs = self.oracle.outcome(case)
        if not isinstance(theirs, Produced):
            return replace(case, outputs=None)
        return replace(case, outputs=tuple(each for topic in theirs.records for each in _expected(topic, theirs)))

    def differing(self, cases: Sequence[Case], group_size: int | None = None) -> Iterator[tuple[Case, str]]:
        """Yield the cases that differ, and how."""
        for case, found, _ in run_variants(cases, self, group_size):
            if isinstance(found, Failed):
                yield case, found.message


@dataclass(frozen=True, slots=True)
class Known:
    """A kind of difference that has a reason: `difference` is found in its text, and `statements` in its statements.

    `example` is a case that still has it.
    """

    reason: str
    difference: re.Pattern[str]
    statements: re.Pattern[str]
    example: Case

    def explains(self, case: Case, text: str) -> bool:
        """Say whether a difference is of this kind."""
        return bool(self.difference.search(text) and self.statements.search("\n".join(case.statements)))


@cache
def known() -> tuple[Known, ...]:
    """The differences that have a reason."""
    root: Any = parse_yaml(KNOWN.read_text(encoding="utf-8")).value
    return tuple(_known(number, members) for number, members in enumerate(root["differences"]))


def _known(number: int, members: Mapping[str, Any]) -> Known:
    example = Case(
        id=f"known-{number}",
        file=KNOWN,
        line=1,
        name=members["reason"],
        statements=tuple(members["example"]),
        inputs=tuple(map(input_of, members.get("inputs", ()))),
        properties=members.get("properties", {}),
    )
    return Known(
        members["reason"],
        re.compile(members["difference"]),
        re.compile(members.get("statements", "")),
        example,
    )


def reason_of(case: Case, text: str) -> str | None:
    """Return the reason of a known difference, None for a new one."""
    return next((each.reason for each in known() if each.explains(case, text)), None)


@dataclass(slots=True)
class Finds:
    """The differences of a run: those that are known by their reason, and new ones by what they have in common."""

    known: Counter[str] = field(default_factory=Counter)
    new: Counter[str] = field(default_factory=Counter)

    def take(self, compared: Compared, case: Case, text: str) -> Iterator[str]:
        """Yield a difference as the text of a case file, unless it is known or the last of many like it."""
        reason = reason_of(case, text)
        if reason is not None:
            self.known[reason] += 1
            return
        alike = _VALUES.sub("…", f"{text.partition(chr(10))[0]} {case.statements[-1] if case.statements else ''}")
        self.new[alike] += 1
        if self.new[alike] <= _ALIKE:
            yield find_text(compared.with_outputs(case), text)

    def summary(self) -> str:
        """Say how often each known difference was met, and which new one was met too often to be shown each time."""
        lines = [f"{count:,} times, known: {reason}" for reason, count in self.known.most_common()]
        lines += [f"{count - _ALIKE:,} times more: {kind}" for kind, count in self.new.items() if count > _ALIKE]
        return "\n".join(lines)


def stale(compared: Compared) -> Iterator[str]:
    """Yield a word for each known difference whose example agrees, or differs in another way."""
    found = {case.id: text for case, text in compared.differing([each.example for each in known()])}
    for each in known():
        text = found.get(each.example.id)
        if text is None or not each.explains(each.example, text):
            actual = "both engines agree" if text is None else text
            yield f"{KNOWN.name}: the example of {each.reason!r} differs no longer so: {actual}"


def find_text(case: Case, text: str) -> str:
    """Return a difference as a case file whose comments say what differs."""
    comments = "".join(f"# {line}\n" for line in text.splitlines())
    return comments + case_text(case_document(case))
