"""The planner's access to functions: types of expressions, and which calls are aggregates or table functions."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import msgspec

from kestrel_sql.errors import FunctionError, StatementError, TypeMismatchError
from kestrel_sql.functions.bind.bind import bind
from kestrel_sql.functions.declaration import Aggregate
from kestrel_sql.functions.registry import Registry
from kestrel_sql.functions.resolve import Choice
from kestrel_sql.planner.config import Config
from kestrel_sql.sql.nodes.expressions import Expression, FunctionCall, InList
from kestrel_sql.sql.nodes.walk import calls, walk
from kestrel_sql.types.sql_types import SqlType


class Types(msgspec.Struct, frozen=True):
    """Types expressions with one registry of functions and one configuration."""

    functions: Registry
    config: Config

    def of(self, expression: Expression, scope: Mapping[str, SqlType]) -> SqlType | None:
        """Return the type of an expression over the columns of `scope`; None for an untyped NULL.

        Raises:
            StatementError: the expression has a type error.
        """
        try:
            return bind(expression, scope, self.functions).type
        except TypeMismatchError as error:
            raise self._in_predicate(error, expression, scope) from error

    def _in_predicate(
        self, error: TypeMismatchError, expression: Expression, scope: Mapping[str, SqlType]
    ) -> TypeMismatchError:
        """Prefix the error with "Invalid Predicate" if an IN of the expression causes it."""
        for node in walk(expression):
            if isinstance(node, InList):
                try:
                    bind(node, scope, self.functions)
                except StatementError as cause:
                    if cause.message == error.message:
                        return TypeMismatchError(
                            f"Invalid Predicate: {error.message}", span=error.span, hint=error.hint
                        )
        return error

    def is_aggregate(self, name: str) -> bool:
        """Whether `name` is an aggregate."""
        return self.functions.is_aggregate(name)

    def is_table_function(self, name: str) -> bool:
        """Whether `name` is a table function."""
        return self.functions.is_table_function(name)

    def has(self, expression: Expression, wanted: Callable[[str], bool]) -> bool:
        """Whether the expression contains a call of a function that `wanted` accepts by name."""
        return next(calls(expression, wanted), None) is not None

    def check_names(self, expression: Expression) -> None:
        """Check that all functions in an expression exist.

        Raises:
            FunctionError: one does not; names the first.
        """
        for call in calls(expression, lambda name: True):
            self.functions.get(call.name, call.span)

    def overload(self, call: FunctionCall, scope: Mapping[str, SqlType]) -> Choice:
        """Return the overload that an aggregate call selects; its `literals` are the indexes of constant arguments."""
        return self.functions.choose(call.name, [self.of(argument, scope) for argument in call.arguments], call.span)

    def state(self, call: FunctionCall, scope: Mapping[str, SqlType]) -> SqlType:
        """Return the type of the state that an aggregate keeps between rows.

        Raises:
            FunctionError: the call has no type.
        """
        function = self.overload(call, scope).function
        if isinstance(function, Aggregate) and function.intermediate is not None:
            return function.intermediate(tuple(self.of(argument, scope) for argument in call.arguments))
        result = self.of(call, scope)
        if result is None:
            raise FunctionError(f"Cannot infer the type of {call.name}.", span=call.span)
        return result
