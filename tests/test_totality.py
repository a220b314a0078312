"""Every table is complete: steps have builders, formats both directions, functions a manual and stable types."""

from __future__ import annotations

import inspect
import pkgutil
import re
from collections import Counter
from pathlib import Path
from typing import Any, get_type_hints

import pytest
from msgspec.structs import fields

from kestrel_qtt.plans.store import find_plans
from kestrel_sql import errors
from kestrel_sql.dataflow.build import BUILDERS
from kestrel_sql.errors import EngineError, FormatError
from kestrel_sql.formats import known
from kestrel_sql.formats.properties import SCHEMA_ID
from kestrel_sql.formats.table import FORMATS, format_of
from kestrel_sql.functions.declaration import Aggregate
from kestrel_sql.functions.table import FUNCTIONS
from kestrel_sql.plan.codec.plan_file import load_plan
from kestrel_sql.plan.commands import CreateStreamV1, CreateTableV1
from kestrel_sql.plan.step import Step
from kestrel_sql.plan.table import COMMANDS, STEPS
from kestrel_sql.planner.config import Config
from kestrel_sql.planner.expressions.types import Types
from kestrel_sql.sql.parse.parser import parse_columns
from tests.engine.formats.samples import SCHEMAS

DECLARED = sorted({(name, o.function.doc) for name, overloads in FUNCTIONS.overloads.items() for o in overloads})
PLANS = Path(__file__).parent.parent / "historic-plans"


def subclasses(cls: type[Any]) -> set[type[Any]]:
    return {found for child in cls.__subclasses__() for found in (child, *subclasses(child))}


def test_every_step_has_exactly_one_builder() -> None:
    assert set(BUILDERS) == set(STEPS.values())
    assert len(set(BUILDERS.values())) == len(BUILDERS)


def test_every_step_class_is_in_the_table() -> None:
    # Compare names, because a slotted dataclass leaves the class behind that it replaced.
    assert {cls.__name__ for cls in subclasses(Step)} == {cls.__name__ for cls in STEPS.values()}


def test_a_step_its_tag_and_its_builder_have_one_name() -> None:
    for tag, step in STEPS.items():
        assert step.__name__ == tag[0].upper() + tag[1:]
        assert BUILDERS[step].__name__ == re.sub(r"(?<!^)(?=[A-Z])", "_", step.__name__).lower()


def test_a_step_and_its_builder_live_in_modules_of_one_name() -> None:
    for step, builder in BUILDERS.items():
        assert step.__module__.rpartition(".")[2] == builder.__module__.rpartition(".")[2]


def test_a_builder_takes_as_many_inputs_as_its_step_has() -> None:
    for step, builder in BUILDERS.items():
        inputs = len(inspect.signature(builder).parameters) - 2
        assert inputs == sum(hint is Step for hint in get_type_hints(step).values()), step.__name__


def test_what_a_step_says_of_itself_fits_its_fields() -> None:
    for step in STEPS.values():
        inputs = sum(hint is Step for hint in get_type_hints(step).values())
        assert inputs == 1 or step.schema is not Step.schema, f"{step.__name__} has no rule of schemas"
        assert inputs == 1 or not (step.passive or step.row_by_row), step.__name__
        assert set(step.kept or ()) <= {each.name for each in fields(step)}, step.__name__
        assert not (step.passive and step.kept), step.__name__


def test_every_command_is_named_as_its_tag() -> None:
    for tag, command in COMMANDS.items():
        assert command.__name__ == tag[0].upper() + tag[1:]


def test_every_format_is_in_the_table() -> None:
    assert set(FORMATS) == {module.name.upper() for module in pkgutil.iter_modules(known.__path__)}


@pytest.mark.parametrize("name", FORMATS)
def test_what_a_format_says_of_itself_fits(name: str) -> None:
    found = FORMATS[name]
    assert found.name == name
    assert found.inheritable <= found.properties
    assert found.infers_columns == (SCHEMA_ID in found.properties)
    columns = parse_columns(SCHEMAS[name]) if SCHEMAS[name] else ()
    assert found.supports_many or len(columns) <= 1
    assert name == "NONE" or any(found.supports_key(column.type) for column in columns)


def test_an_unknown_format_is_an_error() -> None:
    with pytest.raises(FormatError, match="NOPE"):
        format_of("NOPE")


@pytest.mark.rules("U1.2")
@pytest.mark.parametrize(("name", "doc"), DECLARED, ids=[f"{name}-{at}" for at, (name, _) in enumerate(DECLARED)])
def test_every_function_has_a_manual_with_an_example(name: str, doc: str) -> None:
    first, _, rest = doc.partition("\n")
    assert first.strip().endswith("."), f"{name}: the first line is one sentence"
    assert "Example:" in rest, f"{name}: {first}"


CASES = Path(__file__).parent.parent / "test-cases" / "functions"
CALLED = sorted(
    name for name, overloads in FUNCTIONS.overloads.items() if not isinstance(overloads[0].function, Aggregate)
)


@pytest.mark.rules("U1.2")
@pytest.mark.parametrize("name", CALLED)
def test_every_scalar_and_table_function_has_a_file_of_cases_that_call_it(name: str) -> None:
    (file,) = (path for path in CASES.iterdir() if path.stem == name.lower())
    assert f"{name}(" in file.read_text(encoding="utf-8")


@pytest.mark.rules("U1.2")
@pytest.mark.parametrize("area", ["aggregates", "functions", "headers"])
def test_functions_give_what_they_gave_to_stored_plans(area: str) -> None:
    """A lost function or overload leaves a plan that cannot be typed, or changes the types of a sink."""
    types = Types(FUNCTIONS, Config())
    checked = 0
    for stored in find_plans(PLANS / area):
        for statement in load_plan(stored.plan_file.read_text(encoding="utf-8")).statements:
            command, query = statement.ddl_command, statement.query_plan
            if query is not None and isinstance(command, CreateStreamV1 | CreateTableV1):
                found = query.physical_plan.result_schema(types.of)
                assert sorted(map(str, found.columns)) == sorted(map(str, command.schema.columns)), stored.folder
                checked += 1
    assert checked > 20


def test_error_codes_are_unique() -> None:
    classes = [cls for _, cls in inspect.getmembers(errors, inspect.isclass) if issubclass(cls, EngineError)]
    counted = Counter(cls.code for cls in classes)
    assert [code for code, count in counted.items() if count > 1] == []
    assert all(re.fullmatch(r"[A-Z][A-Z_]*", code) for code in counted)
    assert subclasses(EngineError) <= set(classes), "errors that users see are declared in kestrel_sql.errors"
