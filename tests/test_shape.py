"""The shape of the code: empty `__init__.py` files, no marks of unfinished work."""

from __future__ import annotations

import ast
import re
import subprocess
from collections import Counter
from collections.abc import Iterator, Mapping
from functools import partial
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

from kestrel_sql.functions.declaration import Scalar
from kestrel_sql.functions.signature import parse_signature
from kestrel_sql.functions.table import FUNCTIONS

ROOT = Path(__file__).resolve().parents[1]
MODULES = sorted(path for room in ("engine", "qtt", "tests") for path in (ROOT / room).rglob("*.py"))
# `import kestrel_sql` is the Python interface, so that package has names of its own.
PUBLIC = ROOT / "engine" / "kestrel_sql" / "__init__.py"
PACKAGES = [path for path in MODULES if path.name == "__init__.py" and path != PUBLIC]
OPEN = re.compile(r"\b(TO" + r"DO|FIX" + r"ME|HA" + r"CK)\b")
TOP_LEVEL = {
    "CHANGELOG.md",
    "CONTRIBUTING.md",
    "LICENSE",
    "MANIFEST.in",
    "Makefile",
    "NOTICE",
    "README.md",
    "SECURITY.md",
    "constraints.txt",
    "docs",
    "engine",
    "historic-plans",
    "pyproject.toml",
    "qtt",
    "test-cases",
    "tests",
}


def name(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def test_no_module_of_the_product_is_called_as_a_test() -> None:
    product = [path for path in MODULES if not path.is_relative_to(ROOT / "tests")]
    assert [name(path) for path in product if path.name.startswith("test_")] == []


@pytest.mark.parametrize("path", PACKAGES, ids=name)
def test_an_init_module_holds_one_docstring_of_one_line(path: Path) -> None:
    body = ast.parse(path.read_text(encoding="utf-8")).body
    assert len(body) == 1
    docstring = ast.get_docstring(ast.Module(body, []))
    assert docstring is not None
    assert len(docstring.splitlines()) == 1


def test_nothing_is_left_open() -> None:
    marks = [
        f"{name(path)}:{number}: {line.strip()}"
        for path in MODULES
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1)
        if OPEN.search(line)
    ]
    assert marks == []


def test_every_module_says_what_it_is_for() -> None:
    silent = [
        name(p)
        for p in MODULES
        if p.parts[len(ROOT.parts)] != "tests" and not ast.get_docstring(ast.parse(p.read_text(encoding="utf-8")))
    ]
    assert silent == []


def test_the_top_level_holds_what_the_design_names() -> None:
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=False)
    if listed.returncode:
        pytest.skip("not a git checkout")
    top = {line.partition("/")[0] for line in listed.stdout.splitlines()}
    assert {entry for entry in top if not entry.startswith(".")} <= TOP_LEVEL


def imported(path: Path, modules: Mapping[str, Path]) -> set[str]:
    """Return our modules that a module imports, at its top or inside a function."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module is not None:
            found.update((node.module, *(f"{node.module}.{alias.name}" for alias in node.names)))
    return found & modules.keys()


def test_no_module_imports_itself_by_way_of_others() -> None:
    modules = {".".join(path.relative_to(root).with_suffix("").parts): path for path, root in located()}
    imports = {module: imported(path, modules) for module, path in modules.items()}
    assert len(modules) > 500
    assert any(imports.values())
    TopologicalSorter(imports).prepare()


def test_a_function_has_one_body_for_values_and_at_most_one_for_columns() -> None:
    declared = {id(o.function): o.function for each in FUNCTIONS.overloads.values() for o in each}
    scalars = [function for function in declared.values() if isinstance(function, Scalar)]
    accepted = [(each.name, parse_signature(text).accepted) for each in scalars for text in each.signatures]
    assert len(accepted) == len(set(accepted)) > 150
    assert len({each.body for each in scalars}) == len(scalars)
    for each in scalars:
        columns = each.columns.func if isinstance(each.columns, partial) else each.columns
        # Both bodies stand side by side, unless the second one is a kernel of Arrow.
        assert columns is None or columns.__module__ in (each.body.__module__, "kestrel_sql.arrow.late")


def test_what_evaluates_expressions_knows_no_function_by_name() -> None:
    """No third body hides where expressions are compiled, or where columns are carried."""
    rooms = [ROOT / "engine" / "kestrel_sql" / room for room in ("expressions", "arrow", "spark", "process")]
    named = {
        f"{name(path)}: {node.value}"
        for room in rooms
        for path in room.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Constant) and node.value in set(FUNCTIONS)
    }
    assert named == set()


MOST_ANY = 0.02
"""The share of functions of the product whose signatures may say `Any`; the limit only ever falls."""


def says_any(function: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    signature = [function.args, *([function.returns] if function.returns else [])]
    return any(isinstance(each, ast.Name) and each.id == "Any" for part in signature for each in ast.walk(part))


def test_few_signatures_say_any() -> None:
    functions = [
        (path, node)
        for path in MODULES
        if not path.is_relative_to(ROOT / "tests")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    ]
    found = Counter(name(path) for path, node in functions if says_any(node))
    assert found.total() <= MOST_ANY * len(functions), found.most_common(20)


def located() -> Iterator[tuple[Path, Path]]:
    """Yield every module that is not an `__init__.py`, with the root folder of its dotted name."""
    for path in MODULES:
        if path.name != "__init__.py":
            yield path, ROOT if path.is_relative_to(ROOT / "tests") else ROOT / path.relative_to(ROOT).parts[0]


def test_an_operator_has_one_form() -> None:
    classes = [
        (
            path,
            node,
            {each.name: [arg.arg for arg in each.args.args] for each in node.body if isinstance(each, ast.FunctionDef)},
        )
        for path in (ROOT / "engine").rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.ClassDef)
    ]
    operators = [
        (path, node.name) for path, node, methods in classes if methods.get("process") == ["self", "rows", "state"]
    ]
    assert len(operators) > 10
    assert len({name for _, name in operators}) == len(operators)
    assert {path.relative_to(ROOT / "engine" / "kestrel_sql").parts[0] for path, _ in operators} == {"operators"}
    run = {node.name for _, node, methods in classes if methods.get("run") == ["self", "rows", "task", "state"]}
    # A page is run by what runs all operators of a level, and by nothing that knows one of them.
    assert run == {"PageRunner"}
