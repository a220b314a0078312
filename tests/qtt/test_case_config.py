"""Properties of a case that the engine does not take."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec.structs import replace

from kestrel_qtt.cases.model import Case, Crashed
from kestrel_qtt.drivers.records.prepare import prepare

CASE = Case(
    id="x::x",
    file=Path("x.yaml"),
    line=1,
    name="x",
    statements=("CREATE STREAM s (k STRING KEY) WITH (kafka_topic='s', value_format='JSON');",),
)


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("auto.offset.rest", "earliest", "did you mean auto.offset.reset?"),
        ("auto.offset.reset", "soon", "must be one of: earliest, latest"),
        ("ksql.lambdas.enabled", 1, "true or false"),
    ],
)
def test_a_property_that_the_engine_does_not_take_is_an_error_of_the_case(name: str, value: str, said: str) -> None:
    wrong = replace(CASE, properties={name: value}, expected_exception=None)
    outcome = prepare(wrong).outcome
    assert isinstance(outcome, Crashed)
    assert said in outcome.message
    assert prepare(replace(wrong, tolerant=True)).outcome is None


def test_properties_that_the_engine_or_the_harness_takes() -> None:
    taken = {"cache.max.bytes.buffering": 10_000_000, "use.exact.numeric.comparison": False}
    assert prepare(replace(CASE, properties=taken)).outcome is None
