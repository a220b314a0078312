"""Arrow and NumPy for modules that mostly work without them: imported when first used, which a shell never does."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any, Protocol

ArrowArray = Any
"""An array or a scalar of Arrow, which has no types for mypy; code that imports Arrow says `pa.Array`."""

ArrowType = Any
"""A type of Arrow."""


class Text(Protocol):
    """A STRING that is a scalar of Arrow."""

    def as_py(self) -> str:
        """The value."""
        ...


class Late:
    """A module that is imported when first used."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, name: str) -> Any:
        found = getattr(import_module(self._name), name)
        setattr(self, name, found)
        return found


def later(module: object, name: str) -> Callable[..., ArrowArray | None]:
    """Return a function of one of these modules before it is imported."""
    return lambda *given: getattr(module, name)(*given)


pa: Any = Late("pyarrow")
pc: Any = Late("pyarrow.compute")
np: Any = Late("numpy")
arrow_cells: Any = Late("kestrel_sql.dataflow.arrow_cells")
columns: Any = Late("kestrel_sql.arrow.columns")
lists: Any = Late("kestrel_sql.arrow.lists")
numbers: Any = Late("kestrel_sql.arrow.numbers")
texts: Any = Late("kestrel_sql.arrow.texts")
times: Any = Late("kestrel_sql.arrow.times")
types: Any = Late("kestrel_sql.arrow.types")
