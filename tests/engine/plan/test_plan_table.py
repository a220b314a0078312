from __future__ import annotations

import importlib
import pkgutil
from typing import get_args

import pytest

import kestrel_sql.plan.steps
from kestrel_sql.plan.commands import DdlCommand
from kestrel_sql.plan.step import Step
from kestrel_sql.plan.steps.sinks import StreamSinkV1
from kestrel_sql.plan.table import COMMANDS, STEPS, by_tag


@pytest.mark.parametrize(("tag", "cls"), [*STEPS.items(), *COMMANDS.items()])
def test_a_tag_is_the_class_name_with_a_lower_case_first_letter(tag: str, cls: type) -> None:
    assert tag == cls.__name__[0].lower() + cls.__name__[1:]


def test_every_step_of_every_module_is_in_the_table() -> None:
    modules = [
        importlib.import_module(f"kestrel_sql.plan.steps.{m.name}")
        for m in pkgutil.iter_modules(kestrel_sql.plan.steps.__path__)
    ]
    classes = {
        v
        for module in modules
        for v in vars(module).values()
        if isinstance(v, type) and issubclass(v, Step) and v is not Step
    }
    assert set(STEPS.values()) == classes


def test_every_command_is_in_the_table() -> None:
    assert set(COMMANDS.values()) == set(get_args(DdlCommand))


def test_two_classes_with_one_tag_are_refused() -> None:
    with pytest.raises(ValueError, match="streamSinkV1"):
        by_tag((StreamSinkV1, StreamSinkV1))
