"""The context of compiling an expression.

The columns and settings that it reads, and the faults and functions that it adds.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from kestrel_sql.expressions.compiler import Options
from kestrel_sql.functions.declaration import CallTypes, Scalar, Tabular
from kestrel_sql.spark.compile import sql as s
from kestrel_sql.spark.compile.sql import Tree

_ADDRESS = re.compile(r" at 0x[0-9a-f]+")


@dataclass(frozen=True, slots=True)
class PythonCall:
    """A function body that Spark calls through Arrow, with the types of this use.

    `literals` are the arguments, by position, that Spark does not pass. A guarded call has the column `active` as first
    argument.
    """

    function: Scalar | Tabular
    types: CallTypes
    literals: tuple[tuple[int, Any], ...] = ()
    guarded: bool = True

    @property
    def is_of_user(self) -> bool:
        """Whether the body is a user's, and none of Kestrel's own."""
        return not str(getattr(self.function.body, "__module__", "")).startswith("kestrel_sql.")


@dataclass(slots=True)
class PythonCalls:
    """The Python functions that a pipeline uses, by their name in Spark."""

    calls: dict[str, PythonCall] = field(default_factory=dict)

    def name(self, call: PythonCall) -> str:
        """Register a use and return its name in Spark; equal uses have the same name, in every run."""
        function, types = call.function, call.types
        # A body may be an object with functions inside; their memory addresses differ between runs.
        body = f"{function.body.__module__}.{_ADDRESS.sub('', repr(function.body))}"
        settings = sorted(types.settings.items())
        identity = f"{body}|{types.arguments}|{types.returns}|{settings}|{call.literals!r}|{call.guarded}"
        spark_name = f"kestrel_{function.name.lower()}_{hashlib.sha256(identity.encode()).hexdigest()[:12]}"
        self.calls[spark_name] = call
        return spark_name


@dataclass(frozen=True, slots=True)
class Fault:
    """A processing-log entry of type 1, written for each row for which `condition` holds.

    `cause` is an ARRAY of STRING or NULL.
    """

    condition: Tree
    message: str
    cause: Tree = s.NULL


@dataclass(slots=True)
class Context:
    """The context of an expression.

    Attributes:
        columns: the columns in scope as SQL, by name.
        python: collects the Python functions that the expression uses.
        nested: whether calls, casts and constructor items inside the expression catch their own errors (SELECT and
            PARTITION BY
            with `ksql.nested.error.set.null`).
        preserve_nulls: whether a cast of NULL to STRING is NULL.
        settings: the settings of the query.
        faults: collects the errors that are caught.
        active: the condition for the rows that the expression applies to; Spark passes all rows of a batch to Python
            functions.
    """

    columns: Mapping[str, Tree]
    python: PythonCalls
    nested: bool
    preserve_nulls: bool = True
    settings: Mapping[str, str] = field(default_factory=dict)
    faults: list[Fault] = field(default_factory=list)
    errors: list[Tree] = field(default_factory=list)
    active: Tree = s.TRUE

    @property
    def options(self) -> Options:
        """How Python evaluates expressions of this context."""
        return Options(self.nested, self.preserve_nulls, dict(self.settings))

    def take_cause(self) -> Tree:
        """Return the error texts since the last call, those of a row that are not NULL, as the cause of a fault."""
        errors, self.errors = self.errors, []
        return s.call("array_compact", s.call("array", *errors)) if errors else s.NULL
