"""Arrow and NumPy for modules that mostly work without them: imported when first used, which a shell never does."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any


class _Late:
    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, name: str) -> Any:
        found = getattr(import_module(self._name), name)
        setattr(self, name, found)
        return found


def later(module: Any, name: str) -> Callable[..., Any]:
    """Return a function of one of these modules before it is imported."""
    return lambda *given: getattr(module, name)(*given)


pa: Any = _Late("pyarrow")
pc: Any = _Late("pyarrow.compute")
np: Any = _Late("numpy")
arrow_cells: Any = _Late("kestrel_sql.dataflow.arrow_cells")
columns: Any = _Late("kestrel_sql.arrow.columns")
lists: Any = _Late("kestrel_sql.arrow.lists")
numbers: Any = _Late("kestrel_sql.arrow.numbers")
texts: Any = _Late("kestrel_sql.arrow.texts")
times: Any = _Late("kestrel_sql.arrow.times")
types: Any = _Late("kestrel_sql.arrow.types")
