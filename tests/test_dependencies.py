"""pyproject.toml declares exactly the distributions that the code imports, each in the right extra."""

from __future__ import annotations

import ast
import sys
import tomllib
from collections.abc import Iterator
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from kestrel_qtt import extra

ROOT = Path(__file__).resolve().parents[1]
OURS = {"kestrel_sql", "kestrel_qtt", "tests"}
NOT_IMPORTED = {
    "pandas": "PySpark's stateful processors run in its pandas workers",
    "tzdata": "zoneinfo reads it where the system has no time zones",
}
TOOLS = {
    "build",
    "mkdocs-material",
    "import-linter",
    "kestrel-sql",
    "mypy",
    "pandas-stubs",
    "pip-licenses",
    "pre-commit",
    "py-spy",
    "ruff",
    "uv",
    "setuptools",
    "twine",
    "zizmor",
}
TOOLS |= {"types-jsonschema", "types-protobuf", "types-pyyaml"}
# What moto's server runs on, and does not ask for.
TOOLS |= {"flask", "flask-cors"}
ELSEWHERE = {"tests/bench/peers", "tests/engine/server/clients"}
"""Programs that run in environments of their own."""


@cache
def project() -> dict[str, Any]:
    content: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    return content


def declared(group: str = "") -> set[str]:
    """Return the distributions of an extra, or those of every installation."""
    lines = project()["optional-dependencies"][group] if group else project()["dependencies"]
    return {canonicalize_name(Requirement(line).name) for line in lines}


@cache
def imported(folder: str) -> frozenset[str]:
    """Return the distributions whose modules a folder imports."""
    return frozenset(map(distribution_of, sorted(foreign_modules(ROOT / folder))))


def foreign_modules(folder: Path) -> set[str]:
    files = (file for file in folder.rglob("*.py") if not any(file.is_relative_to(ROOT / part) for part in ELSEWHERE))
    found = {name for file in files for name in imports(ast.parse(file.read_text(encoding="utf-8")))}
    return {name for name in found if name.partition(".")[0] not in OURS | sys.stdlib_module_names}


def imports(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


@cache
def owners() -> dict[str, list[str]]:
    return {name: sorted(set(found)) for name, found in metadata.packages_distributions().items()}


@cache
def distribution_of(module: str) -> str:
    """Return the distribution of a module. If several share a namespace, the one that has its deepest folder."""
    found = owners().get(module.partition(".")[0], [])
    assert found, f"{module} is imported, and belongs to no distribution that is installed"
    parts = module.split(".")
    # The list of files of a distribution is long, and only a namespace needs it.
    for depth in range(2, len(parts) + 1) if len(found) > 1 else ():
        folder = "/".join(parts[:depth]) + "/"
        having = [name for name in found if any(str(file).startswith(folder) for file in metadata.files(name) or ())]
        found = having or found
    return canonicalize_name(found[0])


def test_the_engine_declares_what_it_imports() -> None:
    assert imported("engine") - declared() == declared("otel")
    assert declared() - imported("engine") - NOT_IMPORTED.keys() == set()


def test_the_harness_declares_what_only_it_imports() -> None:
    assert imported("qtt") - declared() == declared("qtt")
    assert {distribution_of(package) for package in extra.PACKAGES} == declared("qtt")


def test_the_tests_declare_what_only_they_import() -> None:
    assert imported("tests") - declared() - declared("qtt") - declared("otel") == declared("dev") - TOOLS
    assert declared("dev") >= TOOLS


@pytest.mark.parametrize("name", sorted(NOT_IMPORTED))
def test_an_exception_is_one(name: str) -> None:
    assert name in declared()
    assert name not in imported("engine")
