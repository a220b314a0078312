"""Which branches of statements cases reach: outcomes of conditions, matches of joins, windows, tombstones, errors."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace

from kestrel_qtt.cases.model import Case, Produced
from kestrel_qtt.drivers.declared_topics import Topic, topic_of
from kestrel_qtt.drivers.driver import DEFAULT_GROUP_SIZE, PlanningDriver, PlanningError
from kestrel_qtt.variants.grouping import one_variant, same_statements
from kestrel_qtt.variants.probes import NAME, Found, branches_of
from kestrel_qtt.variants.running import run_variants
from kestrel_sql.errors import EngineError
from kestrel_sql.sql.nodes import statements as s
from kestrel_sql.sql.parse.parser import ParsedStatement, parse_script

_UNPROBED = -1
"""The number of a branch that the outcome of the statements themselves tells."""


@dataclass(slots=True)
class Branch:
    """A branch of the statement `name`; `place` says where it is, `cases` are the ids of those that reach it."""

    place: str
    name: str
    text: str
    cases: list[str] = field(default_factory=list)


@dataclass(slots=True)
class Coverage:
    """The branches in the order of their statements, and the cases whose statements did not run."""

    branches: list[Branch] = field(default_factory=list)
    failing: list[str] = field(default_factory=list)

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
