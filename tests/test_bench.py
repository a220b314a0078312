"""Benchmarks are not run by tests; what they name has to be there."""

from __future__ import annotations

import functools
import importlib
import pkgutil

import pytest

import tests.bench
from tests.bench.kafka_start import STEPS

NAMES = sorted(module.name for module in pkgutil.iter_modules(tests.bench.__path__) if module.name != "__main__")


@pytest.mark.parametrize("name", NAMES)
def test_a_benchmark_can_be_imported(name: str) -> None:
    assert importlib.import_module(f"tests.bench.{name}").__doc__


@pytest.mark.parametrize(("module", "path"), [step[:2] for step in STEPS])
def test_a_step_that_is_timed_exists(module: str, path: str) -> None:
    assert callable(functools.reduce(getattr, path.split("."), importlib.import_module(module)))
