"""What the compilation of an expression needs from around it, and what it leaves behind."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from kestrel_sql.functions.declaration import CallTypes, Scalar, Tabular
from kestrel_sql.spark.compile import sql as s
from kestrel_sql.spark.compile.sql import Tree

_ADDRESS = re.compile(r" at 0x[0-9a-f]+")


@dataclass(frozen=True, slots=True)
class PythonCall:
    """A function body that Spark calls through Arrow, with the types of this use.

    `literals` are arguments that Spark does not hand over, by position. A guarded call has the column `active` in front.
    """

    function: Scalar | Tabular
    types: CallTypes
    literals: tuple[tuple[int, Any], ...] = ()
    guarded: bool = True


@dataclass(slots=True)
class PythonCalls:
    """The Python functions that a pipeline uses, by the name they get in Spark."""

    calls: dict[str, PythonCall] = field(default_factory=dict)

    def name(self, call: PythonCall) -> str:
        """Register a use and give its Spark name; equal uses share one, in all runs."""
        function, types = call.function, call.types
        # A body may be data that holds further functions; where these lie in memory says nothing of what they do.
        body = f"{function.body.__module__}.{_ADDRESS.sub('', repr(function.body))}"
        identity = f"{body}|{types.arguments}|{types.returns}|{sorted(types.settings.items())}|{call.literals!r}|{call.guarded}"
        spark_name = f"kestrel_{function.name.lower()}_{hashlib.sha256(identity.encode()).hexdigest()[:12]}"
        self.calls[spark_name] = call
        return spark_name


@dataclass(frozen=True, slots=True)
class Fault:
    """A processing-log entry of type 1, written for each row for which `condition` holds."""

    condition: Tree
    message: str


@dataclass(slots=True)
class Context:
    """Where an expression stands.

    `columns` gives the Spark tree of each column in scope. `nested` says whether calls, casts and constructor items inside
    the expression catch their own errors (SELECT and PARTITION BY with `ksql.nested.error.set.null`); `faults`
    collects what they catch. `active` is true for the rows that the expression is meant for: Spark gives
    Python functions all rows of a batch.
    """

    columns: Mapping[str, Tree]
    python: PythonCalls
    nested: bool
    preserve_nulls: bool = True
    settings: Mapping[str, str] = field(default_factory=dict)
    faults: list[Fault] = field(default_factory=list)
    active: Tree = s.TRUE
