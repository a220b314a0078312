"""Reads and writes plan files: reads plans of every ksqlDB release from 5.5 on, writes the newest form."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from importlib.metadata import version
from typing import Any

import msgspec

from kestrel_sql.errors import NewerPlanError
from kestrel_sql.plan.codec.json_text import check_depth, read_json, too_deep, write_json
from kestrel_sql.plan.codec.objects import tagged
from kestrel_sql.plan.codec.values import STRING, array, child, mapping, only, optional, required, shorten
from kestrel_sql.plan.document import StatementPlan

STATEMENT = tagged({StatementPlan.tag: StatementPlan})
_CONFIG = optional(STRING)

WRITTEN_BY = "kestrel.version"
"""The config with the version of Kestrel that wrote the plan."""


class PlanFile(msgspec.Struct, frozen=True):
    """The plans of a script's statements in order, and the configs that they were planned under."""

    statements: tuple[StatementPlan, ...]
    configs: Mapping[str, str | None] = {}


def load_plan(text: str, written_by: str | None = None) -> PlanFile:
    """Parse the text of a `plan.json`; see `decode_plan`.

    Raises:
        PlanError: not JSON, or not a plan; names the JSON path, and for a plan of a newer release both versions.
    """
    return decode_plan(read_json(text), written_by)


def decode_plan(document: object, written_by: str | None = None) -> PlanFile:
    """Read the content of a `plan.json` (docs/spec/plan-format.md).

    Errors name `written_by` as the version that wrote the plan; by default it comes from the plan's configs.

    Raises:
        PlanError: not a plan; names the JSON path, and for a plan of a newer release both versions.
    """
    check_depth(document)
    try:
        return _plan(document)
    except RecursionError:
        raise too_deep() from None
    except NewerPlanError as error:
        raise _with_versions(error, written_by or _version_named(document)) from error


def _plan(document: object) -> PlanFile:
    top = mapping(document, "$")
    only(top, ("plan", "configs"), "$")
    statements = tuple(
        _statement(item, f"$.plan[{i}]") for i, item in enumerate(array(required(top, "plan", "$"), "$.plan"))
    )
    return PlanFile(statements, _configs(top.get("configs")))


def _version_named(document: object) -> str | None:
    configs = document.get("configs") if isinstance(document, dict) else None
    writer = configs.get(WRITTEN_BY) if isinstance(configs, dict) else None
    return shorten(writer) if isinstance(writer, str) else None


def _with_versions(error: NewerPlanError, written_by: str | None) -> NewerPlanError:
    """Add the version that wrote the plan and the version that reads it to the error."""
    writer = f"version {written_by}" if written_by else "an unknown version"
    sentence = error.message.removeprefix(f"{error.path}: ")
    message = (
        f"{sentence}; the plan was written by {writer}, "
        f"and this version, {engine_version()}, does not know {error.part}"
    )
    return NewerPlanError(
        message, path=error.path, part=error.part, hint=error.hint or "run the plan with the version that wrote it"
    )


@functools.cache
def engine_version() -> str:
    """The version of Kestrel that runs."""
    return version("kestrel-sql")


def decode_statement(document: object) -> StatementPlan:
    """Read the plan of one statement, as `encode_statement` writes it.

    Raises:
        PlanError: not a plan; names the JSON path.
    """
    check_depth(document)
    try:
        return _statement(document, "$")
    except RecursionError:
        raise too_deep() from None
    except NewerPlanError as error:
        raise _with_versions(error, None) from error


def encode_plan(plan: PlanFile) -> dict[str, object]:
    """Convert a plan file to JSON values; durations become Decimal, so that `dump_plan` writes all their digits.

    Raises:
        PlanError: steps or expressions are nested too deeply.
    """
    return {"plan": [encode_statement(statement) for statement in plan.statements], "configs": dict(plan.configs)}


def encode_statement(statement: StatementPlan) -> dict[str, Any]:
    """Convert the plan of one statement to JSON values.

    Raises:
        PlanError: steps or expressions are nested too deeply.
    """
    try:
        document: dict[str, object] = STATEMENT.encode(statement)
    except RecursionError:
        raise too_deep() from None
    return document


def check_storable(statement: StatementPlan) -> None:
    """Check that the plan of a statement can be read again where it is stored.

    Raises:
        PlanError: steps or expressions are nested too deeply.
    """
    check_depth(encode_statement(statement))


def dump_plan(plan: PlanFile) -> str:
    """Write the text of a `plan.json`, which ends in a line feed."""
    return write_json(encode_plan(plan))


def _statement(document: object, path: str) -> StatementPlan:
    statement: StatementPlan = STATEMENT.decode(document, path)
    return statement


def _configs(value: object) -> dict[str, str | None]:
    if value is None:
        return {}
    configs = mapping(value, "$.configs").items()
    return {
        STRING.decode(key, "$.configs"): _CONFIG.decode(setting, child("$.configs", key)) for key, setting in configs
    }
