"""Compares the query planner with the plans that ksqlDB stored: the same statements become the same steps.

One case in seven with every change, all of them nightly.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

from kestrel_sql.catalog.apply import source_of
from kestrel_sql.catalog.catalog import Catalog
from kestrel_sql.errors import FunctionError, RegistryError
from kestrel_sql.formats.registry.memory import MemoryRegistry
from kestrel_sql.functions.table import FUNCTIONS
from kestrel_sql.plan.codec.plan_file import encode_statement, load_plan
from kestrel_sql.plan.commands import CreateStreamV1, CreateTableV1, RegisterTypeV1
from kestrel_sql.plan.document import StatementPlan
from kestrel_sql.planner.config import Config
from kestrel_sql.planner.expressions.types import Types
from kestrel_sql.planner.query import plan_create_as, plan_insert_into
from kestrel_sql.sql.nodes.admin import Statement
from kestrel_sql.sql.nodes.statements import CreateAs, InsertInto, InsertValues
from kestrel_sql.sql.parse.parser import parse_script

CORPUS = Path(__file__).parents[4] / "shared" / "ksqldb" / "historic-plans"

pytestmark = [
    pytest.mark.conformance,
    pytest.mark.skipif(not CORPUS.is_dir(), reason=f"{CORPUS} is not there"),
]

SHARE = pytest.mark.parametrize("every", [7, pytest.param(1, marks=pytest.mark.nightly)])


def newest_plans() -> Iterator[Path]:
    """Yield the newest plan of each case that has the newest form."""
    for case in sorted(CORPUS.iterdir()):
        newest = max(case.iterdir())
        if newest.name >= "7.1":
            yield newest


@SHARE
def test_statements_become_the_stored_plans(every: int) -> None:
    compared, different = 0, []
    for folder in islice(newest_plans(), None, None, every):
        case = json.loads((folder / "spec.json").read_text())["testCase"]
        for planned, stored in _replay(case, load_plan((folder / "plan.json").read_text()).statements):
            compared += 1
            if _json(planned) != _json(stored):
                different.append(folder.parent.name)
    assert not different
    assert compared > 1000 // every


def _replay(case: dict[str, Any], stored: tuple[StatementPlan, ...]) -> Iterator[tuple[StatementPlan, StatementPlan]]:
    catalog, config = Catalog(), Config.of(case.get("properties") or {})
    script = parse_script("\n".join(case["statements"]))
    planned = (parsed.statement for parsed in script if not isinstance(parsed.statement, InsertValues))
    for statement, plan in zip(planned, stored, strict=True):
        planned = _plan(statement, catalog, config, plan)
        if planned is not None:
            yield planned, plan
        command = plan.ddl_command
        if isinstance(command, CreateStreamV1 | CreateTableV1):
            catalog = catalog.with_source(source_of(command))
        elif isinstance(command, RegisterTypeV1):
            catalog = catalog.with_type(command.type_name, command.type)


def _plan(statement: Statement, catalog: Catalog, config: Config, stored: StatementPlan) -> StatementPlan | None:
    try:
        if isinstance(statement, CreateAs):
            return plan_create_as(statement, catalog, config, "Q", "", FUNCTIONS, MemoryRegistry())
        if isinstance(statement, InsertInto):
            return plan_insert_into(statement, catalog, config, "Q", "")
    except RegistryError:
        return None
    except FunctionError as error:
        if "Can't find any functions" not in error.message:
            raise
    return None


def _json(plan: StatementPlan) -> Any:
    """Return a plan as JSON without its ids and texts, and without absent values."""
    document = _without_nulls(encode_statement(plan))
    return {**document, "statementText": "", "queryPlan": {**document["queryPlan"], "queryId": "", "sources": None}}


def _without_nulls(value: Any) -> Any:
    match value:
        case dict():
            # ksqlDB 7.2 added the property, and a few cases have older plans.
            members = {k: _without_nulls(v) for k, v in value.items() if k != "unwrapPrimitives"}
            return {k: v for k, v in members.items() if v not in (None, [], {})}
        case list():
            return [_without_nulls(item) for item in value]
        case _:
            return value


@SHARE
def test_schemas_of_stored_plans_are_those_of_their_sinks(every: int) -> None:
    types = Types(FUNCTIONS, Config())
    checked, different = 0, []
    for path in sorted(CORPUS.glob("*/*/plan.json"))[::every]:
        for plan in load_plan(path.read_text()).statements:
            command = plan.ddl_command
            if (
                plan.query_plan is None
                or plan.query_plan.sink is None
                or not isinstance(command, CreateStreamV1 | CreateTableV1)
            ):
                continue
            try:
                result = plan.query_plan.physical_plan.result_schema(types.of)
            except FunctionError as error:
                if "Can't find any functions" not in error.message:
                    raise
                continue
            checked += 1
            # Until 6.0 steps did not name key columns, and one experiment reorders them in the sink.
            same_key = sorted(str(c.type) for c in result.key) == sorted(str(c.type) for c in command.schema.key)
            if not same_key or result.value != command.schema.value:
                different.append(str(path.parent.relative_to(CORPUS)))
    assert not different
    assert checked > 1000 // every
