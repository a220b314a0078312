"""Generated expressions as cases: many of them are one statement over the rows of one topic, on both engines."""

from __future__ import annotations

import base64
import random
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from decimal import Decimal
from itertools import chain, count, groupby, islice
from pathlib import Path
from typing import Any

import msgspec

from kestrel_qtt.cases.model import Case, InputRecord, Outcome, Produced, Rejected
from kestrel_qtt.variants.nodes import nodes
from kestrel_qtt.variants.running import run_variants
from kestrel_sql.errors import EngineError
from kestrel_sql.expressions.columns import Columns, Failures
from kestrel_sql.expressions.compiler import compile_expression
from kestrel_sql.functions.bind.bind import bind
from kestrel_sql.functions.bind.nodes import Bound
from kestrel_sql.functions.resolve import Binding
from kestrel_sql.functions.values.size_limits import TooLargeError
from kestrel_sql.java.regex.time_limit import TimeLimitError
from kestrel_sql.sql.format.statements import format_expression
from kestrel_sql.sql.nodes import expressions as e
from kestrel_sql.types import sql_types as t
from kestrel_sql.types.sql_types import Array, Map, SqlType, Struct
from tests.fuzz.agreement import Compared, differing_records
from tests.fuzz.expressions import Row, changed, parts_of, some_rows, with_constants
from tests.fuzz.generator import COLUMNS, TYPES, Generator, overloads
from tests.fuzz.oracle import Oracle, functions

BATCH, EXPRESSIONS, ROWS = 240, 60, 40
"""The expressions of one run of Kestrel and of one job of ksqlDB's engine, and the rows of both."""

PLACES = 10_000
"""ksqlDB computes a power of ten to round to so many places: beyond 500 million it fails, below it may take minutes."""

CONSTANTS = 4
"""Every fourth expression is also asked as constants."""

_CHANGING = ("ARRAY_SORT", "INT_FROM_BYTES", "BIGINT_FROM_BYTES", "DOUBLE_FROM_BYTES")

MISTYPED = 5
"""One call in so many has an argument of another type; most are refused by both engines."""


@dataclass(frozen=True, slots=True)
class Asked:
    """Expressions over rows, as one case."""

    nodes: Sequence[e.Expression]
    rows: Sequence[Row]

    def case(self, name: str = "expressions") -> Case:
        """Return the case: a column for the value of each expression, and one that tells a failure from NULL."""
        used = {part.name for node in self.nodes for part, _ in nodes(node) if isinstance(part, e.ColumnRef)}
        columns = [each for each in COLUMNS if each in used]
        rows = [{each: as_json(row[each], COLUMNS[each]) for each in columns} for row in self.rows]
        return case_of(name, list(map(format_expression, self.nodes)), rows)

    def halves(self) -> Iterator[Asked]:
        """Yield both halves of the expressions."""
        half = len(self.nodes) // 2
        yield replace(self, nodes=self.nodes[:half])
        yield replace(self, nodes=self.nodes[half:])


def case_of(name: str, texts: Sequence[str], rows: Sequence[Row]) -> Case:
    """Return a case with a column for the value of each expression over rows, and one that tells a failure from NULL.

    The rows have the columns that the expressions use, as JSON has their values.
    """
    values = [f"{text} AS C{at}" for at, text in enumerate(texts)]
    # ksqlDB does not compile `IS NULL` of some expressions, whose values cannot be NULL in Java.
    failures = [f"COALESCE({text}) IS NULL AS N{at}" for at, text in enumerate(texts)]
    declared = ", ".join(["K INT KEY", *(f"`{each}` {COLUMNS[each]}" for each in (rows[0] if rows else ()))])
    return Case(
        id=name,
        file=Path("generated"),
        line=1,
        name=name,
        statements=(
            f"CREATE STREAM S ({declared}) WITH (kafka_topic='s', value_format='JSON');",
            f"CREATE STREAM O AS SELECT {', '.join(['K', *values, *failures])} FROM S;",
        ),
        inputs=tuple(InputRecord(topic="s", key=at, value=row) for at, row in enumerate(rows)),
    )


def as_json(value: Any, sql_type: SqlType) -> Any:
    """Return a value as a JSON topic has it; a number that JSON cannot write is a text, which both engines read."""
    if value is None:
        return None
    match sql_type:
        case Array(item):
            return [as_json(each, item) for each in value]
        case Map(_, item):
            return {name: as_json(each, item) for name, each in value.items()}
        case Struct(fields):
            return {field.name: as_json(value[field.name], field.type) for field in fields}
    if sql_type == t.BYTES:
        return base64.b64encode(value).decode("ascii")
    if sql_type == t.DOUBLE:
        number = Decimal(repr(value))
        return number if number.is_finite() and value != 0 else _JAVA.get(repr(value), repr(value))
    return value


_JAVA = {"inf": "Infinity", "-inf": "-Infinity", "nan": "NaN"}


def accepted(oracle: Oracle, asked: Asked) -> Iterator[tuple[Asked, Outcome]]:
    """Split expressions into statements that ksqlDB runs to their end, and single ones that it does not run so."""
    outcome = oracle.outcome(asked.case())
    if isinstance(outcome, Produced) or len(asked.nodes) == 1:
        yield asked, outcome
    else:
        for half in asked.halves():
            yield from accepted(oracle, half)


def differing(compared: Compared, questions: Sequence[Asked]) -> Iterator[Asked]:
    """Yield single expressions that seem to differ, over the first row for which they do."""
    waiting = list(questions)
    while waiting:
        parts = [part for each in waiting for part in accepted(compared.oracle, each)]
        for asked, theirs in parts:
            if not isinstance(theirs, Produced):
                yield replace(asked, rows=asked.rows[:1]) if isinstance(theirs, Rejected) else asked
        whole = {f"expressions-{at}": part for at, part in enumerate(parts) if isinstance(part[1], Produced)}
        waiting = []
        for case, ours, _ in run_variants([asked.case(name) for name, (asked, _) in whole.items()], compared.kestrel):
            asked, theirs = whole[case.id]
            if isinstance(theirs, Produced) and isinstance(ours, Produced):
                yield from _differing_columns(asked, theirs, ours)
            elif len(asked.nodes) == 1:
                yield asked
            else:
                waiting += asked.halves()


def _differing_columns(asked: Asked, theirs: Produced, ours: Produced) -> Iterator[Asked]:
    found: dict[int, int] = {}
    for record in differing_records("O", theirs, ours):
        for column in record.columns:
            number = re.match(r"value\.[CN](\d+)", column.column)
            if number is not None and record.expected is not None:
                found.setdefault(int(number[1]), int(str(record.expected.key)))
    for at, row in found.items():
        yield replace(asked, nodes=[asked.nodes[at]], rows=[asked.rows[row]])


def smallest(compared: Compared, questions: Sequence[Asked]) -> Iterator[tuple[Case, str]]:
    """Yield the smallest part of each expression that differs, as a case, and how it differs."""
    parts = {
        f"{number}-{size}": replace(asked, nodes=[part])
        for number, asked in enumerate(questions)
        for size, part in enumerate(_parts(asked.nodes[0]))
    }
    cases = [asked.case(name) for name, asked in parts.items()]
    failed = {case.id: (case, text) for case, text in compared.differing(cases)}
    by_question = groupby(parts, lambda name: name.partition("-")[0])
    for _, names in by_question:
        yield from islice((failed[name] for name in names if name in failed), 1)


def _parts(node: e.Expression) -> list[e.Expression]:
    try:
        return [part.node for part in parts_of(bind(node, COLUMNS)) if not isinstance(part.node, e.NullLiteral)]
    except EngineError:
        return [node]


def mistyped(generator: Generator, count: int) -> Iterator[e.Expression]:
    """Yield calls in which one argument has another type, and which Kestrel refuses."""
    names = list(overloads())
    while count:
        name = generator.rng.choice(names)
        call = generator.call(name, generator.rng.choice(overloads()[name]), Binding(), 0, {})
        arguments = call.arguments if isinstance(call, e.FunctionCall) else ()
        if not arguments:
            continue
        at = generator.rng.randrange(len(arguments))
        other = generator.of(generator.rng.choice(TYPES), 0, {})
        changed = msgspec.structs.replace(call, arguments=(*arguments[:at], other, *arguments[at + 1 :]))
        try:
            bind(changed, COLUMNS)
        except EngineError:
            count -= 1
            yield changed


def questions(rng: random.Random, bounds: Sequence[Bound]) -> Iterator[Asked]:
    """Yield what is asked of expressions: many at once, over rows, and some as constants."""
    rows = some_rows(rng, ROWS)
    asked = [with_copies(bound) for bound in bounds if is_small(bound, rows)]
    for start in range(0, len(asked), EXPRESSIONS):
        yield Asked(asked[start : start + EXPRESSIONS], rows)
    constants = [with_constants(node, rng.choice(rows)) for node in asked[::CONSTANTS]]
    for start in range(0, len(constants), EXPRESSIONS):
        yield Asked(constants[start : start + EXPRESSIONS], rows[:1])


def is_small(bound: Bound, rows: Sequence[Row]) -> bool:
    """Say whether no part of an expression exceeds a limit of ours over any row: ksqlDB would fill its memory."""
    columns = Columns({name: [row[name] for row in rows] for name in COLUMNS}, len(rows))
    return not any(_exceeds(part, columns) for part in parts_of(bound))


def with_copies(bound: Bound) -> e.Expression:
    """Return an expression with copies of what ksqlDB changes for others: it sorts in place, and reads bytes to the end."""
    of_types = {id(child.node): child.type for part in _every(bound) if changes(part) for child in part.children}
    numbers = count()

    def change(given: e.Node, rebuilt: e.Node) -> e.Node:
        match of_types.get(id(given)):
            case Array():
                name = f"COPIED{next(numbers)}"
                return e.FunctionCall("TRANSFORM", (rebuilt, e.Lambda((name,), e.LambdaVariable(name))))
            case t.BYTES:
                return e.FunctionCall("TO_BYTES", (e.FunctionCall("FROM_BYTES", (rebuilt, _HEX)), _HEX))
            case _:
                return rebuilt

    return changed(bound.node, change)  # type: ignore[no-any-return]


_HEX = e.StringLiteral("hex")


def changes(bound: Bound) -> bool:
    """Say whether a part is a call that changes its arguments in ksqlDB."""
    call = bound.node
    return isinstance(call, e.FunctionCall) and (
        call.name in _CHANGING or (call.name in ("CONCAT", "CONCAT_WS") and bound.type == t.BYTES)
    )


def _every(bound: Bound) -> Iterator[Bound]:
    yield bound
    for child in bound.children:
        yield from _every(child)


def _exceeds(part: Bound, columns: Columns) -> bool:
    failures: Failures = {}
    with suppress(EngineError):
        compile_expression(part)(columns, failures)
        call = part.node
        if isinstance(call, e.FunctionCall) and call.name in ("ROUND", "TRUNC") and len(part.children) > 1:
            places = compile_expression(part.children[1])(columns, {})
            return any(each is not None and abs(each) > PLACES for each in places)
    return any(isinstance(error, TooLargeError | TimeLimitError) for error in failures.values())


def batch(compared: Compared, rng: random.Random, bounds: Sequence[Bound]) -> Iterator[tuple[Case, str]]:
    """Compare expressions, and calls with arguments of other types; yield what differs."""
    generator = Generator(rng)
    singles = [Asked([node], some_rows(rng, 2)) for node in mistyped(generator, len(bounds) // MISTYPED)]
    taken = [asked for asked in singles if not isinstance(compared.oracle.outcome(asked.case()), Rejected)]
    yield from smallest(compared, [*differing(compared, list(questions(rng, bounds))), *taken])


def batches(seed: int, tries: int) -> Iterator[tuple[random.Random, Sequence[Bound]]]:
    """Yield batches of expressions: calls of all overloads and operators first, then what is generated."""
    rng = random.Random(seed)
    generator = Generator(rng)
    first = [*generator.each_overload(), *generator.each_overload_with_nulls(), *generator.each_operator()]
    chosen = rng.sample(first, min(len(first), tries // 2))
    everything = islice(filter(_is_askable, chain(chosen, generator.bounds(sys.maxsize))), tries)
    while bounds := list(islice(everything, BATCH)):
        yield rng, bounds


def _is_askable(bound: Bound) -> bool:
    """Say whether ksqlDB has all functions of an expression: finding out which one it lacks takes many jobs."""
    calls = (part.name for part, _ in nodes(bound.node) if isinstance(part, e.FunctionCall))
    return functions().issuperset(calls)


def differences(compared: Compared, seed: int, tries: int, tell: Callable[[str], None]) -> Iterator[tuple[Case, str]]:
    """Compare `tries` expressions; yield the smallest part of each that differs, and how."""
    done = 0
    for rng, bounds in batches(seed, tries):
        yield from batch(compared, rng, bounds)
        done += len(bounds)
        tell(f"{done:,} of {tries:,} expressions")
