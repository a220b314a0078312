"""Compiles projections, predicates and keys over a relation, for several builders."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from kestrel_sql.dataflow.evaluation import references
from kestrel_sql.dataflow.tables import with_old_rows
from kestrel_sql.functions.bind.nodes import Bound
from kestrel_sql.plan.schemas import scope_of
from kestrel_sql.plan.step import SelectItem
from kestrel_sql.spark.compile import sql as s
from kestrel_sql.spark.compile.context import Context, Fault
from kestrel_sql.spark.compile.expressions import compile_closed, compile_expression, typed
from kestrel_sql.spark.compile.sql import Tree
from kestrel_sql.spark.stages.group import QueryBuild
from kestrel_sql.spark.stages.handles import Handle
from kestrel_sql.spark.stages.stage import Operation
from kestrel_sql.sql.format.statements import format_expression
from kestrel_sql.sql.nodes.expressions import (
    Case,
    Cast,
    ColumnRef,
    Expression,
    FunctionCall,
    Lambda,
    Logical,
    NullLiteral,
)
from kestrel_sql.types.own_scales import at_declared_scales, has_own_scales, with_own_scales
from kestrel_sql.types.schema import Column


def present(faults: Iterable[Fault], row: Tree) -> tuple[Fault, ...]:
    """Restrict faults to rows that are not NULL."""
    return tuple(replace(fault, condition=s.all_of(s.is_not_null(row), fault.condition)) for fault in faults)


def projection(
    build: QueryBuild, handle: Handle, items: Sequence[SelectItem], part: str
) -> tuple[Tree, tuple[Fault, ...]]:
    """Return the struct of a projection over `v` or `o`, NULL for a NULL row, and its faults."""
    context = build.context(handle, part, nested=True)
    scope = scope_of(handle.schema)
    fields = []
    for index, item in enumerate(items):
        bound = build.bind(item.expression, scope)
        message = (
            f"Error computing expression {format_expression(item.expression)} for column {item.alias} with index"
            f" {index}"
        )
        tree = compile_closed(bound, context, message)
        fields.append((item.alias, typed(tree, bound)))
        for name, changed in _sorted_in_place(bound, context):
            # In ksqlDB a column is one Java object in all expressions of a row, also in those before the call.
            context.columns = {**context.columns, name: changed}
            copies = [at for at, other in enumerate(items[: index + 1]) if other.expression == ColumnRef(name)]
            fields = [(alias, changed if at in copies else field) for at, (alias, field) in enumerate(fields)]
    return s.if_(s.is_null(handle.part(part)), s.NULL, s.named_struct(fields)), present(
        context.faults, handle.part(part)
    )


def _sorted_in_place(bound: Bound, context: Context) -> Iterable[tuple[str, Tree]]:
    """The columns that an expression always sorts, with their new values: ARRAY_SORT sorts its argument in place."""
    if isinstance(bound.node, Case | Logical | Lambda):
        return
    for child in bound.children:
        yield from _sorted_in_place(child, context)
    if (
        isinstance(bound.node, FunctionCall)
        and bound.node.name == "ARRAY_SORT"
        and isinstance(bound.children[0].node, ColumnRef)
    ):
        name = bound.children[0].node.name
        silent = replace(context, faults=[])
        yield name, s.call("coalesce", compile_expression(bound, silent).value, context.columns[name])


def predicate(build: QueryBuild, handle: Handle, expression: Expression, part: str) -> tuple[Tree, tuple[Fault, ...]]:
    """Return a condition over `v` or `o`, false where it fails or the row is NULL, and its faults."""
    context = build.context(handle, part, nested=False)
    result = compile_expression(build.bind(expression, scope_of(handle.schema)), context)
    row = handle.part(part)
    holds = s.all_of(s.is_not_null(row), s.coalesce_false(result.value))
    if result.fails is None:
        return holds, ()
    message = f"Error evaluating predicate {format_expression(expression)}"
    fault = Fault(s.all_of(s.is_not_null(row), result.fails), message, context.take_cause())
    return s.all_of(holds, s.not_(result.fails)), (fault,)


def rekeyed(
    build: QueryBuild, handle: Handle, expressions: Sequence[Expression]
) -> tuple[list[Tree], tuple[Fault, ...]]:
    """Return the components of a new key and their faults; a component that fails is NULL (rules O5).

    Expressions over key columns only are computed from the key, also in NULL rows. All others, even `IS NULL`, are NULL
    there.
    """
    trees: list[Tree] = []
    faults: list[Fault] = []
    row = handle.part("v")
    for expression in expressions:
        context = build.context(handle, nested=True)
        tree = _component(build, handle, expression, context)
        faults += present(context.faults, row)
        if handle.schema.key and _uses_only(expression, {c.name for c in handle.schema.key}):
            from_key = _component(build, handle, expression, build.context(handle, "k", nested=True))
            tree = s.if_(s.is_null(row), from_key, tree)
        elif not isinstance(expression, NullLiteral):
            tree = s.if_(s.is_null(row), s.NULL, tree)
            faults.append(
                Fault(s.is_null(row), f"Error computing new key from expression {format_expression(expression)}")
            )
        trees.append(tree)
    return trees, tuple(faults)


def _component(build: QueryBuild, handle: Handle, expression: Expression, context: Context) -> Tree:
    bound = build.bind(expression, scope_of(handle.schema))
    message = f"Error computing new key from expression {format_expression(expression)}"
    return typed(compile_closed(bound, context, message), bound)


def _uses_only(expression: Expression, names: set[str]) -> bool:
    return all(reference in names for reference in references(expression))


def with_old(build: QueryBuild, source: Handle, logger: str) -> Handle:
    """Return the same table with its old rows, through a store unless it already has them."""
    return source if source.has_old else build.stateful(with_old_rows(build, source), (source,), logger)


def rescaled(build: QueryBuild, handle: Handle) -> Handle:
    """Give DECIMALs with scales of their own the scale of their type, as a serde does (rule U4.7)."""
    if not any(has_own_scales(column.type) for column in handle.schema.columns):
        return handle
    columns = {"k": handle.schema.key, "ok": handle.schema.key, "v": handle.schema.value, "o": handle.schema.value}
    fields = tuple(
        (part, _rescaled(build, handle, part, columns[part]) if part in columns else tree)
        for part, tree in handle.unchanged()
    )
    return build.apply(handle, Operation(fields=fields), replace(handle, schema=at_declared_scales(handle.schema)))


def _rescaled(build: QueryBuild, handle: Handle, part: str, columns: Sequence[Column]) -> Tree:
    trees = {column.name: handle.part(part, column.name) for column in columns}
    context = replace(build.context(handle, nested=True), columns=trees)
    for column in columns:
        if has_own_scales(column.type):
            declared, reference = with_own_scales(column.type, False), ColumnRef(column.name)
            bound = Bound(Cast(reference, declared), declared, (Bound(reference, column.type),))
            trees[column.name] = typed(compile_closed(bound, context, ""), bound)
    row = handle.part(part)
    return s.if_(s.is_null(row), s.NULL, s.named_struct(list(trees.items())))


def key_struct(columns: Sequence[Column], trees: Sequence[Tree]) -> tuple[tuple[str, Tree], ...]:
    """Return the field `k` of a struct."""
    pairs = [(column.name, tree) for column, tree in zip(columns, trees, strict=True)]
    return (("k", s.named_struct(pairs)),)


def renamed_key(handle: Handle, names: Sequence[str], kept: Sequence[str]) -> tuple[tuple[str, Tree], ...]:
    """Return the key under new names, restricted to those in `kept`; a NULL key stays NULL."""
    pairs = [
        (new, handle.part("k", old.name)) for new, old in zip(names, handle.schema.key, strict=True) if new in kept
    ]
    return (("k", s.if_(s.is_null(handle.part("k")), s.NULL, s.named_struct(pairs))),)
