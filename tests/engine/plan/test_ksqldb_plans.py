"""Stored plans of ksqlDB since 5.5.0 decode; those in the newest form are written back unchanged.

One in seven with every change, all of them nightly.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from kestrel_sql.errors import PlanError
from kestrel_sql.plan.codec.json_text import read_json
from kestrel_sql.plan.codec.plan_file import decode_plan, encode_plan

PLANS = Path(__file__).parents[3].parent / "shared" / "ksqldb" / "historic-plans"
TODAY = ("7.3", "7.4", "8.")

pytestmark = [
    pytest.mark.conformance,
    pytest.mark.skipif(not PLANS.is_dir(), reason=f"ksqlDB's plans are not there: {PLANS}"),
]


@pytest.mark.parametrize("every", [7, pytest.param(1, marks=pytest.mark.nightly)])
def test_plans_decode_and_survive_a_round_trip(every: int) -> None:
    failures = []
    files = sorted(PLANS.glob("*/*/plan.json"))[::every]
    for file in files:
        try:
            document = read_json(file.read_text(encoding="utf-8"))
            plan = decode_plan(document)
            encoded = encode_plan(plan)
            if decode_plan(encoded) != plan:
                failures.append(f"{file.parent}: another plan after a round trip")
            elif file.parent.name.startswith(TODAY) and encoded != document:
                failures.append(f"{file.parent}: written differently")
        except PlanError as error:
            failures.append(f"{file.parent}: {error.message}")
    assert files
    assert not failures, f"{len(failures)} of {len(files)}\n" + "\n".join(failures[:20])
