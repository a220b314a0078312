"""Which branches of statements cases reach: outcomes of conditions, matches of joins, windows, tombstones, errors."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

import msgspec
from msgspec.structs import replace

from kestrel_qtt.cases.model import Case, Produced
from kestrel_qtt.drivers.declared_topics import Topic, topic_of
from kestrel_qtt.drivers.driver import DEFAULT_GROUP_SIZE, PlanningDriver, PlanningError
from kestrel_qtt.variants.nodes import nodes
from kestrel_qtt.variants.running import one_variant, run_variants, same_statements
from kestrel_sql.errors import EngineError, Span
from kestrel_sql.sql.format.expressions import format_expression
from kestrel_sql.sql.format.statements import format_statement
from kestrel_sql.sql.nodes import expressions as e
from kestrel_sql.sql.nodes import statements as s
from kestrel_sql.sql.parse.parser import ParsedStatement, parse_script

NAME = "KESTREL_PROBE_"
"""The names of probes: a number follows."""

Reached = Callable[[Case, Produced], bool]
_FALLIBLE = frozenset({e.ArithmeticOp.DIVIDE, e.ArithmeticOp.MODULUS})

_FOR_EVER = s.TimeSpan(36_500, "DAYS")


class Found(msgspec.Struct, frozen=True):
    """A branch: `queries` are probes, of which the first that can be planned counts; without them `reached` tells."""

    span: Span | None
    text: str
    queries: tuple[s.Query, ...] = ()
    kind: s.SourceKind = s.SourceKind.STREAM
    reached: Reached | None = None

    def probe(self, query: s.Query, number: int) -> str:
        """Return the statement of a probe."""
        properties = (("VALUE_FORMAT", "JSON"),)
        return format_statement(s.CreateAs(self.kind, f"{NAME}{number}", query, properties)) + ";"


def branches_of(statement: e.Node, topics: dict[str, Topic]) -> Iterator[Found]:
    """Yield the branches of a statement; `topics` are those of the sources before it, by name."""
    if isinstance(statement, s.CreateSource):
        topic = topic_of(statement).name
        yield Found(
            statement.span,
            f"a record of topic {topic} that cannot be read",
            reached=lambda case, produced: any(
                entry.type == "deserialization" and entry.topic == topic for entry in produced.log
            ),
        )
    elif isinstance(statement, s.CreateAs | s.InsertInto):
        yield from _of_query(statement, topics)


def _of_query(statement: s.CreateAs | s.InsertInto, topics: dict[str, Topic]) -> Iterator[Found]:
    query = statement.query
    names = [query.source.name, *(join.source.name for join in query.joins)]
    read = [topics[name] for name in names if name in topics]
    is_table = bool(read) and all(topic.kind is s.SourceKind.TABLE for topic in read)
    kind = s.SourceKind.TABLE if is_table else s.SourceKind.STREAM
    for found in (*_joins(query), *_filters(query), *_cases(query), *_windows(query)):
        grouped = any(each.group_by is not None for each in found.queries)
        yield replace(found, kind=s.SourceKind.TABLE if grouped else kind)
    yield from _tombstones(query, read)
    if any(_is_fallible(node) for node, _ in nodes(query)):
        read_names = {topic.name for topic in read}
        yield Found(
            query.span or statement.span,
            "an expression that fails for a record",
            reached=lambda case, produced: any(
                entry.type == "processing" and (entry.topic is None or entry.topic in read_names)
                for entry in produced.log
            ),
        )


def _is_fallible(node: e.Node) -> bool:
    return isinstance(node, e.Cast) or (isinstance(node, e.Arithmetic) and node.op in _FALLIBLE)


def _rows(query: s.Query, *conditions: e.Expression | None) -> s.Query:
    """The rows that a query reads, for which all conditions are true."""
    where: e.Expression | None = None
    for condition in conditions:
        if condition is not None:
            where = condition if where is None else e.Logical(e.LogicalOp.AND, where, condition)
    return s.Query((s.SelectAll(),), query.source, query.joins, where=where)


def _groups(query: s.Query, condition: e.Expression) -> s.Query:
    """The groups that a query writes, for which the condition is true instead of its own."""
    return replace(query, having=condition, emit=None if query.emit is s.Emit.FINAL else query.emit)


def _outcomes(condition: e.Expression) -> Iterable[tuple[str, e.Expression]]:
    return (("true", condition), ("false", e.Not(condition)), ("NULL", e.IsNull(condition)))


def _filters(query: s.Query) -> Iterator[Found]:
    if query.where is not None:
        text = f"WHERE {format_expression(query.where)}"
        for outcome, condition in _outcomes(query.where):
            yield Found(query.where.span, f"{text} is {outcome}", (_rows(query, condition),))
    if query.having is not None:
        text = f"HAVING {format_expression(query.having)}"
        for outcome, condition in _outcomes(query.having):
            yield Found(query.having.span, f"{text} is {outcome}", (_groups(query, condition),))


def _cases(query: s.Query) -> Iterator[Found]:
    """The branches of each CASE; one over aggregates or window bounds is looked at in the groups."""
    for node, _ in nodes(query):
        if not isinstance(node, e.Case | e.SimpleCase):
            continue
        numbered = tuple(e.When(when.condition, e.IntegerLiteral(n)) for n, when in enumerate(node.branches, start=1))
        which = replace(node, branches=numbered, default=e.IntegerLiteral(0))
        for number in (*range(1, len(numbered) + 1), 0):
            chosen = e.Comparison(e.ComparisonOp.EQUAL, which, e.IntegerLiteral(number))
            probes = [_rows(query, query.where, chosen)]
            if query.group_by is not None:
                probes.append(_groups(query, chosen))
            when = node.branches[number - 1] if number else None
            text = "ELSE" if when is None else f"WHEN {format_expression(when.condition)}"
            yield Found((when or node).span or node.span, f"CASE … {text}", tuple(probes))


def _joins(query: s.Query) -> Iterator[Found]:
    """Whether each join found a match, and whether a side of it did not."""
    for index, join in enumerate(query.joins):
        before, name = query.joins[:index], join.source.name
        span = join.span or join.criteria.span or query.span

        def rows(kind: s.JoinType, missing: e.Expression | None = None) -> tuple[s.Query, ...]:
            joined = s.Query((s.SelectAll(),), query.source, (*before, replace(join, type=kind)))  # noqa: B023
            return (replace(joined, where=None if missing is None else e.IsNull(missing)),)

        yield Found(span, f"JOIN {name} finds a match", rows(s.JoinType.INNER))
        left, right = _sides(join)
        if right is not None:
            yield Found(span, f"JOIN {name} finds no match", rows(s.JoinType.LEFT, right))
        if left is not None and join.type in (s.JoinType.RIGHT, s.JoinType.OUTER):
            yield Found(span, f"a record of {name} finds no match", rows(s.JoinType.RIGHT, left))


def _sides(join: s.Join) -> tuple[e.Expression | None, e.Expression | None]:
    """The columns of the condition: of what stands left of the join, and of the source that it joins."""
    if not isinstance(join.criteria, e.Comparison):
        return None, None
    sides = [side for side in (join.criteria.left, join.criteria.right) if isinstance(side, e.ColumnRef)]
    mine = [side for side in sides if side.qualifier in (join.source.alias, join.source.name)]
    others = [side for side in sides if side not in mine]
    return (others[0] if others else None), (mine[0] if mine else None)


def _windows(query: s.Query) -> Iterator[Found]:
    if query.window is not None and query.group_by is not None:
        # A window that has expired when it closes is not emitted.
        window = replace(query.window, retention=_FOR_EVER)
        final = replace(query, window=window, emit=s.Emit.FINAL, having=None)
        yield Found(query.window.span or query.span, "a window that closes", (final,))


def _tombstones(query: s.Query, read: Iterable[Topic]) -> Iterator[Found]:
    for topic in (topic for topic in read if topic.kind is s.SourceKind.TABLE):
        name = topic.name
        yield Found(
            query.source.span or query.span,
            f"a tombstone in topic {name}",
            reached=lambda case, produced, name=name: _has_tombstone(case, produced, name),  # type: ignore[misc]
        )


def _has_tombstone(case: Case, produced: Produced, topic: str) -> bool:
    given = any(each.topic == topic and each.value is None and each.cells is None for each in case.inputs)
    return given or any(record.value is None for record in produced.records.get(topic, ()))


_UNPROBED = -1
"""The number of a branch that the outcome of the statements themselves tells."""


class Branch(msgspec.Struct):
    """A branch of the statement `name`; `place` says where it is, `cases` are the ids of those that reach it."""

    place: str
    name: str
    text: str
    cases: list[str] = []


class Coverage(msgspec.Struct):
    """The branches in the order of their statements, and the cases whose statements did not run."""

    branches: list[Branch] = []
    failing: list[str] = []

    @property
    def reached(self) -> int:
        """How many branches a case reaches."""
        return sum(bool(branch.cases) for branch in self.branches)


def cover(cases: Sequence[Case], driver: PlanningDriver, tell: Callable[[str], None]) -> Coverage:
    """Run each case, and each with every probe of its branches, all fused.

    Of a case with several formats the first one runs. `tell` gets a line of progress.
    """
    result = Coverage()
    variants: list[Case] = []
    probed: dict[str, tuple[str, list[tuple[Branch, Found, int]]]] = {}
    for group in same_statements(one_variant(cases)):
        found, texts = _probes(group[0], driver)
        result.branches += [branch for branch, _, _ in found]
        for case in group:
            plain = replace(case, outputs=None, serdes=None, plan=None)
            # The queries of a case run one after the other, those of variants together; what variants share runs once.
            for number, more in enumerate(((), *((text,) for text in texts)), start=_UNPROBED):
                variant = replace(plain, id=f"{case.id}#probe {number}", statements=(*case.statements, *more))
                variants.append(variant)
                probed[variant.id] = (case.id, [each for each in found if each[2] == number])
    tell(f"{len({name for name, _ in probed.values()})} cases, {len(result.branches)} branches")
    failing: dict[str, str] = {}
    for variant, outcome, _ in run_variants(variants, driver, DEFAULT_GROUP_SIZE):
        name, asked = probed[variant.id]
        if not isinstance(outcome, Produced):
            failing.setdefault(name, outcome.message)
            continue
        for branch, found_branch, number in asked:
            if _is_reached(found_branch, number, variant, outcome):
                branch.cases.append(name)
    result.failing = [f"{name}: {message}" for name, message in failing.items()]
    return result


def _is_reached(found: Found, number: int, case: Case, outcome: Produced) -> bool:
    if found.reached is not None:
        return found.reached(case, outcome)
    return any(record.value is not None for record in outcome.records.get(f"{NAME}{number}", ()))


def _probes(case: Case, driver: PlanningDriver) -> tuple[list[tuple[Branch, Found, int]], list[str]]:
    """The branches of a case's statements with the numbers of their probes, and the probes as statements.

    A branch whose probes cannot be planned is left out: it cannot be told whether it is reached.
    """
    branches: list[tuple[Branch, Found, int]] = []
    texts: list[str] = []
    topics: dict[str, Topic] = {}
    for index, piece in _statements(case):
        statement = piece.statement
        for found in branches_of(statement, topics):
            span = found.span or piece.span
            name = statement.target if isinstance(statement, s.InsertInto) else getattr(statement, "name", "")
            branch = Branch(case.place_of(index, span.line, span.column), name, found.text)
            probe = next((text for text in _planned(case, found, driver, len(texts))), "")
            if probe or found.reached is not None:
                branches.append((branch, found, len(texts) if probe else _UNPROBED))
            if probe:
                texts.append(probe)
        if isinstance(statement, s.CreateSource | s.CreateAs):
            topics[statement.name] = topic_of(statement)
    return branches, texts


def _planned(case: Case, found: Found, driver: PlanningDriver, number: int) -> Iterator[str]:
    for query in found.queries:
        text = found.probe(query, number)
        try:
            driver.plan_documents(replace(case, statements=(*case.statements, text)))
        except PlanningError:
            continue
        yield text


def _statements(case: Case) -> Iterator[tuple[int, ParsedStatement]]:
    for index, text in enumerate(case.statements):
        try:
            pieces = parse_script(text, case.variables or None)
        except EngineError:
            # A case may expect that a statement is refused.
            continue
        yield from ((index, piece) for piece in pieces)
