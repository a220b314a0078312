"""Amend specs of stored plans: records that they expect, and why their statements mean something else today."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
from msgspec.structs import replace

from kestrel_qtt.cases.decode import output_of
from kestrel_qtt.cases.model import Case, ExpectedLog, Json, OutputRecord, Produced, Result, Status
from kestrel_qtt.cases.read_json import parse_json
from kestrel_qtt.drivers.driver import Driver, PlanningDriver, RunOptions
from kestrel_qtt.judge.json_text import record_json
from kestrel_qtt.judge.judge import judge
from kestrel_qtt.plan_commands.oracle import OracleError, ask
from kestrel_qtt.plan_commands.record import Findings
from kestrel_qtt.plans.store import PlanStoreError, StoredPlan, amend, excuse, load_stored, plan_at
from kestrel_qtt.runner import run_cases

_KSQLDB = "a plan that ksqlDB stored is never amended"
_RULE = re.compile(r"\b[A-Z]\d+(?:\.\d+)+\b")


class Amendment(msgspec.Struct, frozen=True):
    """Why expectations change: a reason that names rules of the specification, and who has to agree.

    Attributes:
        reason: the reason, for readers of the specs.
        rules: the rules that it names.
        oracle: the program of ksqlDB's engine; None if it is not asked.
    """

    reason: str
    rules: tuple[str, ...]
    oracle: Path | None

    @staticmethod
    def of(reason: str, oracle: Path | None, known: Mapping[str, object]) -> Amendment:
        """Make an amendment whose rules are `known`; without known rules at all, any name will do.

        Raises:
            PlanStoreError: the reason names no rule or an unknown one, or the program is absent.
        """
        rules = tuple(dict.fromkeys(_RULE.findall(reason)))
        if not rules:
            raise PlanStoreError(f"--reason: expected a text that names a rule, such as O9.4, got {reason!r}")
        if unknown := [rule for rule in rules if known and rule not in known]:
            raise PlanStoreError(f"--reason: unknown rule: {unknown[0]}")
        if oracle is not None and not oracle.is_file():
            raise PlanStoreError(
                f"{oracle}: ksqlDB's engine is absent: name it with --oracle FILE, "
                "or amend without its agreement by --without-oracle"
            )
        return Amendment(reason, rules, oracle)


def amend_plans(cases: Sequence[Case], driver: Driver, amendment: Amendment) -> Findings:
    """Run stored plans, and replace the expected records of those that give others.

    A plan is left alone, with a word, if more than its records differs, or if ksqlDB's engine gives other records than
    the plan does now.
    """
    found, failed = Findings(), list[Result]()
    for result in run_cases(cases, driver, RunOptions()):
        if result.status is Status.PASSED:
            found.done.append(f"unchanged {result.case.file.parent}: it gives what its spec expects")
        elif problem := _not_amendable(result):
            found.problems.append(f"{result.case.file.parent}: {problem}")
        else:
            failed.append(result)
    for result, disagreement in zip(failed, _disagreements(failed, amendment.oracle), strict=True):
        folder = result.case.file.parent
        if disagreement:
            found.problems.append(f"{folder}: {disagreement}")
            continue
        with found.of_one():
            _store(result, amendment)
            found.done.append(f"amended {folder}")
    return found


def excuse_plans(cases: Sequence[Case], driver: PlanningDriver, amendment: Amendment) -> Findings:
    """Write into the specs of stored plans why their statements mean something else today, where they do.

    A plan is left alone, with a word, if its statements are planned as they were, or give what its spec expects.
    """
    found = Findings()
    for case in cases:
        folder = case.file.parent
        with found.of_one():
            stored = _plan_of(case)
            if problem := _not_excusable(case, stored, driver, amendment.reason):
                found.problems.append(problem)
            elif load_stored(stored)[1].get("today") == amendment.reason:
                found.done.append(f"unchanged {folder}: its spec says so")
            else:
                excuse(stored, amendment.reason, {"rules": list(amendment.rules), "reason": amendment.reason})
                found.done.append(f"amended {folder}")
    return found


def _not_excusable(case: Case, stored: StoredPlan, driver: PlanningDriver, reason: str) -> str:
    from kestrel_qtt.plan_commands.prove import compare, run_today

    if case.tolerant:
        return f"{stored.folder}: {_KSQLDB}"
    found = compare(stored, case, driver, reason)
    if found.problem or run_today([replace(found, excuse="")], driver):
        return found.problem
    return f"{stored.folder}: its statements give today what its spec expects, so it needs no reason"


def _not_amendable(result: Result) -> str:
    """Say why the expected records of a stored plan that failed cannot be replaced; empty if they can."""
    case, outcome = result.case, result.outcome
    if case.tolerant:
        return _KSQLDB
    if not isinstance(outcome, Produced):
        return f"it does not run to its end: {result.reason}"
    if case.outputs is None:
        return f"its spec expects no records, but fails: {result.reason}"
    rest = judge(replace(case, outputs=_outputs(result), log=_log(result)), outcome)
    return "" if rest.status is Status.PASSED else f"more than its records differs: {rest.reason}"


def _outputs(result: Result) -> tuple[OutputRecord, ...]:
    return tuple(output_of(record, None) for record in _records(result))


def _log(result: Result) -> tuple[ExpectedLog, ...] | None:
    """The expected entries of the processing log: none, where the plan now gives a record instead of each."""
    case, outcome = result.case, result.outcome
    assert isinstance(outcome, Produced)  # noqa: S101 - `_not_amendable` checks it
    return () if case.log and not outcome.log else case.log


def _disagreements(results: Sequence[Result], oracle: Path | None) -> Iterator[str]:
    """Say for each result how the records of ksqlDB's engine differ from it; empty where they agree."""
    if oracle is None or not results:
        yield from ("" for _ in results)
        return
    try:
        answers = ask(oracle, [result.case for result in results])
    except OracleError as error:
        raise PlanStoreError(str(error)) from error
    for result, answer in zip(results, answers, strict=True):
        yield _disagreement(result, answer)


def _disagreement(result: Result, answer: tuple[OutputRecord, ...] | OracleError) -> str:
    if isinstance(answer, OracleError):
        return f"ksqlDB's engine cannot judge it (--without-oracle amends it all the same): {answer}"
    assert result.outcome is not None  # noqa: S101 - `_not_amendable` checks it
    judged = judge(replace(result.case, outputs=answer, log=None), result.outcome)
    return "" if judged.status is Status.PASSED else f"ksqlDB's engine gives other records:\n{judged.reason}"


def _store(result: Result, amendment: Amendment) -> None:
    stored = _plan_of(result.case)
    note: dict[str, Json] = {
        "rules": list(amendment.rules),
        "reason": amendment.reason,
        "oracle": "not asked" if amendment.oracle is None else "agrees",
    }
    amend(stored, list(_records(result)), note, [] if _log(result) != result.case.log else None)


def _plan_of(case: Case) -> StoredPlan:
    stored = plan_at(case.file.parent)
    if stored is None:
        raise PlanStoreError(f"{case.file}: there is no plan beside it")
    return stored


def _records(result: Result) -> Iterator[dict[str, Json]]:
    """Yield the records that a plan gives, with partition and offset where its spec has them."""
    case, outcome = result.case, result.outcome
    assert isinstance(outcome, Produced)  # noqa: S101 - `_not_amendable` checks it
    before = case.outputs or ()
    placed = [name for name in ("partition", "offset") if any(getattr(each, name) is not None for each in before)]
    for topic, records in outcome.compared.items():
        for record in records:
            members: Any = parse_json(record_json(topic, record))
            yield {**members, **{name: getattr(record, name) for name in placed}}
