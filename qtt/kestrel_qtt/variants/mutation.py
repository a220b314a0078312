"""Run cases against the mutants of their statements, and find the mutants that no case notices."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import accumulate
from pathlib import Path

import msgspec
from msgspec.structs import replace

from kestrel_qtt.cases.model import Case, Rejected, Status
from kestrel_qtt.drivers.driver import PlanningDriver, PlanningError, RunOptions
from kestrel_qtt.drivers.functions import functions_from
from kestrel_qtt.judge.judge import judge
from kestrel_qtt.plan_commands.text import plan_meaning
from kestrel_qtt.runner import run_group
from kestrel_qtt.variants.changes import changes
from kestrel_qtt.variants.nodes import nodes
from kestrel_qtt.variants.pruning import unreached
from kestrel_qtt.variants.running import one_variant, run_variants, same_statements
from kestrel_sql.errors import EngineError, Span
from kestrel_sql.functions.registry import Registry
from kestrel_sql.sql.format.statements import format_statement
from kestrel_sql.sql.nodes import statements as s
from kestrel_sql.sql.parse.parser import ParsedStatement, parse_script


class Mutant(msgspec.Struct, frozen=True):
    """A changed statement, the one at `piece` of its text.

    `span` is the position of the change in the original, `diff` shows it in SQL.
    """

    piece: int
    text: str
    span: Span
    diff: str


def mutants_of(pieces: Sequence[ParsedStatement], functions: Registry) -> Iterator[Mutant]:
    """Yield the mutants of the queries in a text of several statements."""
    seen: set[str] = set()
    for index, piece in enumerate(pieces):
        if not isinstance(piece.statement, s.CreateAs | s.InsertInto):
            continue
        original = format_statement(piece.statement)
        for statement, span in _changed(piece.statement, functions):
            changed = format_statement(statement)
            if changed != original and changed not in seen:
                seen.add(changed)
                text = changed.rstrip(";") + ";"
                yield Mutant(index, text, span or piece.span, _difference(original, changed))


def _changed(
    statement: s.CreateAs | s.InsertInto, functions: Registry
) -> Iterator[tuple[s.CreateAs | s.InsertInto, Span | None]]:
    """Yield the statement with each change of each of its nodes, and the position of the node."""
    for node, rebuild in nodes(statement):
        for changed in changes(node, functions):
            yield rebuild(changed), node.span


def _difference(original: str, changed: str) -> str:
    """Return the lines that differ, with `-` for the original and `+` for the mutant."""
    lines = difflib.ndiff(original.splitlines(), changed.splitlines())
    return "\n".join(f"{line[0]} {line[2:].strip()}" for line in lines if line[0] in "-+")


Changed = Callable[[Path, str], bool]
"""Says of a statement in a file whether its mutants are wanted."""


class Tried(msgspec.Struct):
    """A mutant, the cases that can notice it, and the id of the case that killed it.

    `statements` are those of the cases with the mutant, without the queries that it cannot reach. `gone` are the topics
    that only those write. `refused` says why the mutant could not be planned; it counts as killed.
    """

    mutant: Mutant
    file: Path
    place: str
    cases: Sequence[Case]
    statements: tuple[str, ...]
    gone: frozenset[str]
    killed_by: str = ""
    refused: str = ""

    @property
    def is_killed(self) -> bool:
        """Whether a case noticed the mutant, or the planner refused it."""
        return bool(self.killed_by or self.refused)

    def variant(self, case: Case, number: int) -> Case:
        """Return the case with the statements of the mutant, under an id of its own."""
        outputs = tuple(record for record in case.outputs or () if record.topic not in self.gone)
        return replace(
            case, id=f"{case.id}#{number}", statements=self.statements, outputs=outputs, serdes=None, plan=None
        )


class Mutation(msgspec.Struct):
    """The result: mutants tried, mutants with the plan of the original, and cases that fail without a mutant."""

    tried: list[Tried] = []
    equal: int = 0
    failing: list[tuple[Case, str]] = []

    @property
    def survivors(self) -> list[Tried]:
        """The mutants that no case noticed, in the order of their statements."""
        return [each for each in self.tried if not each.is_killed]

    @property
    def score(self) -> float:
        """The share of mutants that were killed; 1 if there are none."""
        return 1.0 if not self.tried else 1 - len(self.survivors) / len(self.tried)


def mutate(cases: Sequence[Case], driver: PlanningDriver, wanted: Changed, tell: Callable[[str], None]) -> Mutation:
    """Run the mutants of all statements of `cases`, and say which cases killed which.

    Of a case with several formats the first one runs. All mutants run fused, some cases of each at a time; a killed
    mutant runs no further case. `tell` gets a line of progress at each round.
    """
    result = Mutation()
    groups = same_statements(_passing(one_variant(cases), driver, result, tell))
    for group in groups:
        _make(group, driver, wanted, result)
    tell(f"{len(result.tried)} mutants, {result.equal} more have the plan of the original")
    _rounds(result.tried, driver, tell)
    return result


def _passing(
    cases: Sequence[Case], driver: PlanningDriver, result: Mutation, tell: Callable[[str], None]
) -> list[Case]:
    tell(f"running the cases without mutants: {len(cases)}")
    passing = []
    for case, outcome, seconds in run_group(cases, driver, RunOptions()):
        judged = judge(case, outcome, seconds)
        if judged.status is Status.PASSED:
            passing.append(case)
        else:
            result.failing.append((case, judged.reason))
    order = {case.id: number for number, case in enumerate(cases)}
    return sorted(passing, key=lambda case: order[case.id])


def _make(group: Sequence[Case], driver: PlanningDriver, wanted: Changed, result: Mutation) -> None:
    """Make the mutants of the statements of a group, without those that have the plan of the original."""
    case, file = group[0], group[0].script or group[0].file
    functions: Registry = functions_from(case.functions)
    try:
        texts = [parse_script(text, case.variables or None) for text in case.statements]
    except EngineError:
        # Statements of other kinds, such as those of SQL scripts with ASSERT.
        return
    starts = list(accumulate(map(len, texts), initial=0))
    pieces = [piece for text in texts for piece in text]
    plans: dict[int, list[object]] = {}
    for index, text in enumerate(texts):
        if not wanted(file, case.statements[index]):
            continue
        for mutant in mutants_of(text, functions):
            changed = starts[index] + mutant.piece
            gone, topics = _unreached(group, pieces, changed)
            kept = [None if number in gone else piece.text for number, piece in enumerate(pieces)]
            if changed not in plans:
                original = replace(case, statements=tuple(each for each in kept if each is not None))
                plans[changed] = [plan_meaning(driver.plan_documents(original), case.id)]
            kept[changed] = mutant.text
            place = case.place_of(index, mutant.span.line, mutant.span.column)
            tried = Tried(mutant, file, place, group, tuple(each for each in kept if each is not None), topics)
            try:
                plan = plan_meaning(driver.plan_documents(tried.variant(case, 0)), case.id)
            except PlanningError as error:
                tried.refused = str(error)
                result.tried.append(tried)
                continue
            if plan in plans[changed]:
                result.equal += 1
            else:
                plans[changed].append(plan)
                result.tried.append(tried)


def _unreached(
    group: Sequence[Case], pieces: Sequence[ParsedStatement], changed: int
) -> tuple[frozenset[int], frozenset[str]]:
    """What a change cannot reach; expectations of the catalog or of the log need all queries."""
    if any(case.post is not None or case.log is not None for case in group):
        return frozenset(), frozenset()
    return unreached(pieces, changed)


def _rounds(tried: Iterable[Tried], driver: PlanningDriver, tell: Callable[[str], None]) -> None:
    """Run the next cases of every mutant that lives, twice as many in each round: starting a round takes time."""
    living = [each for each in tried if not each.is_killed]
    turn, width = 0, 1
    while living:
        tell(f"running {len(living)} mutants" + f" that {turn} of their cases did not notice" * bool(turn))
        variants = {
            variant.id: (each, case, variant)
            for number, each in enumerate(living)
            for case in each.cases[turn : turn + width]
            for variant in [each.variant(case, number)]
        }
        for ran, outcome, seconds in run_variants([variant for _, _, variant in variants.values()], driver):
            each, case, variant = variants[ran.id]
            if isinstance(outcome, Rejected):
                each.refused = outcome.message
            elif not each.killed_by and judge(variant, outcome, seconds).status is not Status.PASSED:
                each.killed_by = case.id
        turn, width = turn + width, 2 * width
        living = [each for each in living if not each.is_killed and turn < len(each.cases)]
