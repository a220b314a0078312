"""Plans to JSON and back, strictly: every release of ksqlDB from 5.5 on is read, today's style is written."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from engine.plan.document import StatementPlan
from engine.plan.pieces import TEXT, array, child, mapping, only, optional, required
from engine.plan.pieces_json import check_depth, read_json, too_deep, write_json
from engine.plan.pieces_objects import tagged

STATEMENT = tagged({StatementPlan.tag: StatementPlan})
_CONFIG = optional(TEXT)


@dataclass(frozen=True, slots=True)
class PlanFile:
    """The plans of a case's statements in order, and the engine's configuration when they were made."""

    statements: tuple[StatementPlan, ...]
    configs: Mapping[str, str | None] = field(default_factory=dict)


def load_plan(text: str) -> PlanFile:
    """Read the text of a `plan.json`.

    Raises:
        PlanError: not JSON, or not a plan; names the JSON path.
    """
    return decode_plan(read_json(text))


def decode_plan(document: Any) -> PlanFile:
    """Read the content of a `plan.json` (`spec/plan-format.md`).

    Raises:
        PlanError: the document is no plan; names the JSON path.
    """
    check_depth(document)
    top = mapping(document, "$")
    only(top, ("plan", "configs"), "$")
    try:
        statements = tuple(_statement(item, f"$.plan[{i}]") for i, item in enumerate(array(required(top, "plan", "$"), "$.plan")))
    except RecursionError:
        raise too_deep() from None
    return PlanFile(statements, _configs(top.get("configs")))


def decode_statement(document: Any) -> StatementPlan:
    """Read the plan of one statement, as `encode_statement` writes it.

    Raises:
        PlanError: the document is no plan; names the JSON path.
    """
    check_depth(document)
    try:
        return _statement(document, "$")
    except RecursionError:
        raise too_deep() from None


def encode_plan(plan: PlanFile) -> dict[str, Any]:
    """Write a plan file as JSON values; durations are Decimal, so that `dump_plan` can write all their digits.

    Raises:
        PlanError: steps or expressions that are nested too deeply.
    """
    return {"plan": [encode_statement(statement) for statement in plan.statements], "configs": dict(plan.configs)}


def encode_statement(statement: StatementPlan) -> dict[str, Any]:
    """Write the plan of one statement as JSON values.

    Raises:
        PlanError: steps or expressions that are nested too deeply.
    """
    try:
        document: dict[str, Any] = STATEMENT.encode(statement)
    except RecursionError:
        raise too_deep() from None
    return document


def dump_plan(plan: PlanFile) -> str:
    """Write the text of a `plan.json`, ending in a line feed."""
    return write_json(encode_plan(plan))


def _statement(document: Any, path: str) -> StatementPlan:
    statement: StatementPlan = STATEMENT.decode(document, path)
    return statement


def _configs(value: Any) -> dict[str, str | None]:
    if value is None:
        return {}
    configs = mapping(value, "$.configs").items()
    return {TEXT.decode(key, "$.configs"): _CONFIG.decode(setting, child("$.configs", key)) for key, setting in configs}
