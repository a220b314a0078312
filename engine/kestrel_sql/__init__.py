"""Kestrel plans ksqlDB statements and runs the plans on Spark Structured Streaming; `connect` opens an engine."""

from importlib import import_module
from typing import Any

__all__ = ["Engine", "Result", "Row", "Table", "connect"]


def __getattr__(name: str) -> Any:
    # PySpark takes half a second to import, for which `kestrel --help` need not wait.
    if name in __all__:
        return getattr(import_module("kestrel_sql.python_api"), name)
    raise AttributeError(f"module 'kestrel_sql' has no attribute {name!r}")
