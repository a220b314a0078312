"""Kestrel agrees with ksqlDB's engine: a handful of jobs, and what is compared and how."""

from __future__ import annotations

import base64
import random
import sys
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from kestrel_qtt.cases.model import (
    ActualRecord,
    Case,
    Crashed,
    Failed,
    FormatInfo,
    Outcome,
    Produced,
    Rejected,
    TopicState,
)
from kestrel_qtt.drivers.open import open_driver
from tests.fuzz import agreement, oracle
from tests.fuzz.applications import Applications
from tests.fuzz.asked_expressions import Asked, accepted
from tests.fuzz.expressions import some_rows
from tests.fuzz.generator import Generator

CASE = Case(id="c", file=Path("generated"), line=1, name="c", statements=("CREATE STREAM O AS SELECT * FROM S;",))


def produced(*values: Any, format: str = "JSON", key: Any = "k", **members: Any) -> Produced:
    records = tuple(ActualRecord(key=key, value={"V": value}, **members) for value in values)
    state = TopicState(name="O", key_format=FormatInfo(format="KAFKA"), value_format=FormatInfo(format=format))
    return Produced({"O": records}, topics=(state,))


def first_line(theirs: Outcome, ours: Outcome) -> str | None:
    text = agreement.difference(CASE, theirs, ours)
    return None if text is None else text.partition("\n")[0]


@pytest.mark.parametrize(
    ("theirs", "ours", "format", "agree"),
    [
        (Decimal("1.50"), Decimal("1.50"), "JSON", True),
        (Decimal("1.5"), Decimal("1.50"), "JSON", False),
        (Decimal("1.5"), Decimal("1.50"), "AVRO", True),
        (Decimal("1.5"), 1.5, "AVRO", True),
        (Decimal("0.8414709848078965"), Decimal("0.8414709848078966"), "JSON", True),
        (Decimal("0.841470984807"), Decimal("0.841470984808"), "JSON", False),
        (Decimal("1" * 30 + ".1"), Decimal("1" * 30 + ".2"), "JSON", False),
        (Decimal("-0.0"), Decimal("0.0"), "JSON", False),
        (10**37, 10**37, "JSON", True),
        ("NaN", "NaN", "JSON", True),
        (None, 0, "JSON", False),
        ("", b"", "AVRO", True),
        (None, b"", "AVRO", False),
        ("Infinity", float("inf"), "PROTOBUF", True),
        ("-Infinity", float("inf"), "PROTOBUF", False),
        (True, 1, "JSON", False),
        ({"a": 1}, {"A": 1}, "AVRO", False),
        ({"null": None, "NULL": 1}, {"NULL": 1, "null": None}, "JSON", True),
        ({"null": 1, "NULL": 1}, {"NULL": 1, "null": None}, "JSON", False),
    ],
)
def test_values_are_compared_to_the_last_digit_but_one(theirs: Any, ours: Any, format: str, agree: bool) -> None:
    assert (first_line(produced(theirs), produced(ours, format=format)) is None) is agree


@pytest.mark.parametrize(
    ("theirs", "ours", "kind"),
    [
        (produced(1), produced(2), "the value of a record differs"),
        (produced(1), produced(1, key="x"), "the key of a record differs"),
        (produced(1), produced(1, timestamp=5), "the timestamp of a record differs"),
        (produced(1), produced(1, headers=(("h", None),)), "the headers of a record differs"),
        (produced(1, 2), produced(1), "Kestrel writes a record less"),
        (produced(1), produced(1, 2), "Kestrel writes a record more"),
        (Produced({}), produced(1), "Kestrel writes a record more"),
        (Rejected("no"), produced(1), "only ksqlDB refuses a statement: no"),
        (produced(1), Rejected("no"), "only Kestrel refuses a statement: no"),
        (Failed("no"), produced(1), "only ksqlDB ends a query: no"),
        (Rejected("a", statement_index=1), Rejected("b", statement_index=2), "only ksqlDB refuses a statement: a"),
        (Rejected("a", statement_index=2), Rejected("b", statement_index=2), None),
        (Rejected("a", statement_index=3), Rejected("b", statement_index=2), None),
        (Failed("a"), Failed("b"), None),
        (Failed("a"), Rejected("b"), None),
        (produced(1), Crashed("no"), "Kestrel breaks: no"),
        (Crashed("no"), produced(1), "ksqlDB breaks: no"),
        (Crashed(f"{oracle.UNREAD}: no"), produced(1), None),
    ],
)
def test_a_difference_begins_with_its_kind(theirs: Outcome, ours: Outcome, kind: str | None) -> None:
    assert first_line(theirs, ours) == kind


def test_an_answer_becomes_an_outcome(monkeypatch: pytest.MonkeyPatch) -> None:
    record = {"key": "a", "value": {"V": 0.0}, "raw_value": '{"V":-0.0}', "timestamp": 5, "headers": [{"KEY": "h"}]}
    topic = {"value_format": "JSON", "records": [record]}
    answers: list[dict[str, Any] | None] = [
        {"topics": {"O": topic, "s": {"value_format": "JSON", "records": []}}},
        {"error": "E", "chain": "AnException: outer\nBException: inner\nmore", "stage": "statements", "statement": 1},
        {"error": "E", "message": "what\nmore", "stage": "records"},
        {"error": "E", "message": "what", "stage": "output"},
        None,
    ]
    monkeypatch.setattr(oracle.Oracle, "_ask", lambda self, job: answers.pop(0))
    asked = oracle.Oracle()
    written = ActualRecord(key="a", value={"V": Decimal("-0.0")}, timestamp=5, headers=(("h", None),))
    assert repr(asked.outcome(CASE)) == repr(Produced({"O": (written,)}))
    assert asked.outcome(CASE) == Rejected("inner", statement_index=1)
    assert asked.outcome(CASE) == Failed("what")
    assert asked.outcome(CASE) == Crashed(f"{oracle.UNREAD}: what")
    assert isinstance(asked.outcome(CASE), Crashed)


@pytest.mark.parametrize(
    ("format", "record", "key"),
    [
        ("DELIMITED", {"key": "", "raw_key": '""'}, '""'),
        (
            "DELIMITED",
            {"key": "", "raw_key": '""\0\0\0\0\0\0\0\0', "window": {"start": 0, "end": 1, "type": "TIME"}},
            '""',
        ),
        ("JSON", {"key": 0.0, "raw_key_base64": base64.b64encode(b"1.50").decode()}, Decimal("1.50")),
        ("JSON_SR", {"key": {"a": 1}, "raw_key": '\0\0\0\0\x01[{"key":"a","value":1}]'}, {"a": 1}),
        ("KAFKA", {"key": "a", "raw_key": "b"}, "a"),
        ("JSON", {"key": None}, None),
    ],
)
def test_texts_are_read_from_the_bytes(format: str, record: dict[str, Any], key: Any) -> None:
    topic = {"key_format": format, "value_format": "KAFKA", "records": [{**record, "value": 1, "timestamp": 0}]}
    assert [each.key for each in oracle._records(topic)] == [key]


def test_a_new_process_is_started_after_many_jobs_and_after_an_end(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    command = tmp_path / "answers"
    answers = f"import os, sys\nfor line in sys.stdin:\n    'end' in line and sys.exit()\n    {_ANSWER}\n"
    command.write_text(f"#!{sys.executable}\n{answers}")
    command.chmod(0o755)
    monkeypatch.setattr(oracle, "COMMAND", command)
    monkeypatch.setattr(oracle, "MOST_JOBS", 2)
    asked = oracle.Oracle()
    ended = replace(CASE, statements=("end",))
    messages = [getattr(asked.outcome(each), "message", "") for each in (CASE, CASE, CASE, ended, CASE)]
    asked.close()
    assert messages[0] == messages[1] != messages[2]
    assert "no answer within" in messages[3]
    assert messages[4].isdigit()


_ANSWER = 'print(\'{"error": "E", "stage": "records", "message": "\' + str(os.getpid()) + \'"}\', flush=True)'


def test_the_same_seed_makes_the_same_applications() -> None:
    one, other = (Applications(random.Random(1)).case("a") for _ in range(2))
    assert one == other
    assert Applications(random.Random(2)).case("a") != one


def test_expressions_that_ksqldb_refuses_are_asked_alone() -> None:
    class Refuses(oracle.Oracle):
        def outcome(self, case: Case) -> Outcome:
            return Rejected("no") if "LCASE" in case.statements[1] else Produced({})

    nodes = [each.node for each in Generator(random.Random(1)).bounds(6)]
    other = [each for each in nodes if "LCASE" not in repr(each)]
    guilty = oracle_call("LCASE('A')")
    found = list(accepted(Refuses(), Asked([*other[:3], guilty, *other[3:]], [])))
    assert [part.nodes for part, outcome in found if isinstance(outcome, Rejected)] == [[guilty]]
    assert sum(len(part.nodes) for part, _ in found) == len(other) + 1


def oracle_call(text: str) -> Any:
    from kestrel_sql.sql.parse.parser import parse_expression

    return parse_expression(text)


def test_each_known_difference_has_a_reason_and_an_example() -> None:
    for each in agreement.known():
        assert each.reason.strip()
        assert each.example.statements


@pytest.fixture(scope="module")
def compared() -> Iterator[agreement.Compared]:
    if not oracle.is_present():
        pytest.skip(oracle.ABSENT)
    both = agreement.Compared(open_driver("process"), oracle.Oracle())
    yield both
    both.close()


@pytest.mark.spark
def test_both_engines_agree_but_for_what_is_known(compared: agreement.Compared) -> None:
    known = [each.example for each in agreement.known()]
    cases = [Applications(random.Random(f"{SEED}-{number}")).case(f"application-{number}") for number in APPLICATIONS]
    calls = [oracle_call(text) for text in EXPRESSIONS]
    cases.append(Asked(calls, some_rows(random.Random(1), 10)).case())
    found = {case.id: text for case, text in compared.differing([*known, *cases])}
    assert [text for id, text in found.items() if id in {case.id for case in cases}] == []
    unexplained = [
        each.reason for each in agreement.known() if not each.explains(each.example, found.get(each.example.id, ""))
    ]
    assert unexplained == []


SEED, APPLICATIONS = 1, (0, 1)
EXPRESSIONS = ("UCASE(`String_A`)", "`Integer_A` + `Bigint_A`", "ABS(`Double_A`)", "SUBSTRING(`String_A`, 2)")
