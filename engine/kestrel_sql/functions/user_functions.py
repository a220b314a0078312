"""Loads user-defined functions: Python modules whose functions carry the same decorators as the built-in ones.

Only the code that starts a session names such a module; no statement and no case file can.
"""

from __future__ import annotations

import hashlib
import importlib
import importlib.util
import re
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from importlib.machinery import PathFinder
from pathlib import Path
from types import ModuleType

from kestrel_sql.errors import EngineError, FunctionError
from kestrel_sql.functions.declaration import Aggregate, Function, Scalar, Tabular
from kestrel_sql.functions.registry import Registry
from kestrel_sql.functions.signature import parse_signature
from kestrel_sql.functions.table import FUNCTIONS

_NAME = re.compile(r"[A-Z_][A-Z0-9_]*")
_KEPT = frozenset({*sys.stdlib_module_names, "__main__", "kestrel_sql", "kestrel_qtt"})


def functions_with(sources: Iterable[str | Path]) -> Registry:
    """Return the built-in functions and those that `sources` declare (see `load_functions`).

    Raises:
        FunctionError: a source cannot be loaded, or clashes with an existing function (`Registry.with_functions`).
    """
    registry = FUNCTIONS
    for source in sources:
        try:
            registry = registry.with_functions(*load_functions(source))
        except ValueError as error:
            raise FunctionError(f"functions of {source}: {error}") from error
    return registry


def load_functions(source: str | Path | ModuleType) -> tuple[Function, ...]:
    """Load the functions of a module, given as the module, its name, or the path of a `.py` file.

    The module is executed. `Registry.with_functions` takes the result.

    Raises:
        FunctionError: the module cannot be loaded or declares no function, or a declaration is malformed.
    """
    module = source if isinstance(source, ModuleType) else _load(source)
    declared = [value for value in vars(module).values() if isinstance(value, Scalar | Tabular | Aggregate)]
    functions = tuple({id(function): function for function in declared}.values())
    if not functions:
        raise FunctionError(
            f"{module.__name__} declares no functions",
            hint="decorate one with scalar, tabular or aggregate",
        )
    for function in functions:
        _check(function, module)
    return functions


def _load(source: str | Path) -> ModuleType:
    path = Path(source)
    is_file = isinstance(source, Path) or path.suffix == ".py" or len(path.parts) > 1
    if is_file and not path.is_file():
        raise FunctionError(f"There is no file {source} with functions")
    try:
        return _load_file(path) if is_file else importlib.import_module(str(source))
    except EngineError:
        raise
    except Exception as error:
        raise FunctionError(f"Cannot load functions from {source}: {type(error).__name__}: {error}") from error


def _load_file(path: Path) -> ModuleType:
    # Each file gets a name of its own, so that it shadows no module, and is registered only while it runs: pickle sends
    # objects of unregistered modules to Spark's workers by value, and the workers could not import this module.
    name = _own_name(path, path.stem)
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise FunctionError(f"{path} is not a Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        with _modules_beside(path):
            spec.loader.exec_module(module)
    finally:
        del sys.modules[name]
    return module


def _own_name(path: Path, stem: str) -> str:
    return f"kestrel_functions_{stem}_{hashlib.sha256(str(path.resolve()).encode()).hexdigest()[:8]}"


@contextmanager
def _modules_beside(path: Path) -> Iterator[None]:
    """Let a file import what stands beside it, as a script can, in copies that only this file has.

    The copies are registered only while the file runs, so that they travel to Spark's workers with its functions.
    """
    folder = str(path.resolve().parent)
    before = {name: sys.modules.pop(name) for name in _loaded_from(folder)}
    sys.path.insert(0, folder)
    try:
        yield
    finally:
        sys.path.remove(folder)
        for name in _loaded_from(folder):
            sys.modules.pop(name).__name__ = _own_name(path, name)
        sys.modules.update(before)


def _loaded_from(folder: str) -> list[str]:
    """The names of the registered modules that a script in a folder would take from there."""
    finder = PathFinder()
    tops = {name.partition(".")[0] for name in sys.modules} - _KEPT
    beside = {top for top in tops if (spec := finder.find_spec(top, [folder])) is not None and spec.origin is not None}
    return [name for name in sys.modules if name.partition(".")[0] in beside]


def _check(function: Function, module: ModuleType) -> None:
    where = f"Function {function.name} of {module.__name__}"
    if _NAME.fullmatch(function.name) is None:
        raise FunctionError(
            f"{where} has a name that no call can use", hint="use upper-case letters, digits and _ only"
        )
    if not function.signatures:
        raise FunctionError(f"{where} has no signature", hint="declare one, such as scalar('(input STRING) -> STRING')")
    for signature in function.signatures:
        try:
            parse_signature(signature)
        except ValueError as error:
            raise FunctionError(f"{where}: {error}") from error
    if not function.doc.strip():
        raise FunctionError(f"{where} has no docstring", hint="write one: DESCRIBE FUNCTION shows it")
