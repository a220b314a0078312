"""A plan that is written and read again is the plan: queries run from the plans that statements gave."""

from __future__ import annotations

from pathlib import Path

import pytest

from kestrel_qtt.cases.discovery import find_files
from kestrel_qtt.drivers.records.prepare import prepared
from kestrel_qtt.load import load_all
from kestrel_sql.plan.codec.plan_file import decode_statement, encode_statement
from kestrel_sql.plan.document import StatementPlan
from kestrel_sql.session.session import Session
from kestrel_sql.sql.parse.parser import parse_script

ROOT = Path(__file__).resolve().parents[3]


def test_the_plans_of_cases(monkeypatch: pytest.MonkeyPatch) -> None:
    plans: list[StatementPlan] = []
    run = Session.execute_plan

    def noted(session: Session, plan: StatementPlan) -> None:
        plans.append(plan)
        run(session, plan)

    monkeypatch.setattr(Session, "execute_plan", noted)
    for case in load_all(find_files([ROOT / "test-cases"])).cases[::3]:
        if case.has_records:
            prepared(case)
    assert len(plans) > 500
    # What is written of a type says more than whether it equals another (rule U4.7).
    assert [plan for plan in plans if repr(decode_statement(encode_statement(plan))) != repr(plan)] == []


@pytest.mark.parametrize("time", ["1970-01-01T00:00:00.001", "1969-12-31T23:59:59", "2023-01-01", "1900"])
def test_a_time_that_is_compared_with_rowtime(time: str) -> None:
    session = Session()
    for parsed in parse_script(
        "CREATE STREAM S (A INT) WITH (KAFKA_TOPIC='s', VALUE_FORMAT='JSON');"
        f"CREATE STREAM T AS SELECT * FROM S WHERE ROWTIME > '{time}';"
    ):
        plan = session.execute(parsed).plan
        assert plan is not None
        assert decode_statement(encode_statement(plan)) == plan
