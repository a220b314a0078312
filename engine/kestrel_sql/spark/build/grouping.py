"""The key of GROUP BY, for streams and for both versions of a table row."""

from __future__ import annotations

from collections.abc import Sequence

from kestrel_sql.plan.schemas import scope_of
from kestrel_sql.spark.compile import sql as s
from kestrel_sql.spark.compile.calls import java_text
from kestrel_sql.spark.compile.context import Fault
from kestrel_sql.spark.compile.expressions import compile_expression, typed
from kestrel_sql.spark.compile.sql import Tree
from kestrel_sql.spark.stages.group import QueryBuild
from kestrel_sql.spark.stages.handles import Handle
from kestrel_sql.sql.nodes.expressions import Expression
from kestrel_sql.types.schema import Schema
from kestrel_sql.types.sql_types import STRING

EXCLUDED = "The source row will be excluded from the table."


def grouped_key(
    build: QueryBuild, source: Handle, expressions: Sequence[Expression], schema: Schema, part: str, *, joined: bool
) -> tuple[Tree, Tree, tuple[Fault, ...]]:
    """Return the key struct of a row, the condition that the row has a group, and the faults of rows without a group.

    With `joined`, several components become one STRING separated by `|+|` (rules P6.4).
    """
    row = source.part(part)
    scope = scope_of(source.schema)
    components: list[Tree] = []
    texts: list[Tree] = []
    usable: list[Tree] = [s.is_not_null(row)]
    faults: list[Fault] = []
    for index, expression in enumerate(expressions):
        context = build.context(source, part, nested=False)
        bound = build.bind(expression, scope)
        result = compile_expression(bound, context)
        empty = s.is_null(result.value)
        if result.fails is not None:
            usable.append(s.not_(result.fails))
            message = f"Error calculating group-by column with index {index}. {EXCLUDED}"
            faults.append(Fault(s.all_of(s.is_not_null(row), result.fails), message))
            empty = s.all_of(s.not_(result.fails), empty)
        usable.append(s.is_not_null(result.value))
        faults.append(
            Fault(
                s.all_of(s.is_not_null(row), empty), f"Group-by column with index {index} resolved to null. {EXCLUDED}"
            )
        )
        components.append(typed(result.value, bound))
        if joined:
            texts.append(java_text(result.value, bound.type or STRING, context))
    if len(texts) > 1:
        text = s.call("concat_ws", s.text("|+|"), *texts)
        return s.named_struct([(schema.key[0].name, text)]), s.all_of(*usable), tuple(faults)
    key = s.named_struct([(column.name, tree) for column, tree in zip(schema.key, components, strict=True)])
    return key, s.all_of(*usable), tuple(faults)
