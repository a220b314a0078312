"""Kestrel gives what ksqlDB's engine gave for every overload and operator over edge values, its failures included."""

from __future__ import annotations

from contextlib import closing

from kestrel_qtt.cases.model import Produced
from kestrel_qtt.drivers.open import open_driver
from kestrel_qtt.variants.running import run_variants
from tests.fuzz.agreement import differing_records
from tests.fuzz.stored_expressions import cases, stored


def test_expressions_give_what_ksqldb_gave() -> None:
    rows, lines = stored()
    expected = {case.id: (case, theirs) for case, theirs in cases(rows, lines)}
    wrong = []
    with closing(open_driver("process")) as driver:
        for case, ours, _ in run_variants([case for case, _ in expected.values()], driver):
            assert isinstance(ours, Produced), ours
            wrong += [
                f"{each.columns[0].column} at {each.expected.key if each.expected else None}: {each.columns}"
                f" of {case.statements[1]}"
                for each in differing_records("O", expected[case.id][1], ours)
            ]
    assert wrong == []
