"""Group and run variants of cases, which have most of their queries in common."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from kestrel_qtt.cases.model import Case, Outcome
from kestrel_qtt.drivers.driver import Driver, RunOptions
from kestrel_qtt.runner import run_group


def run_variants(
    cases: Sequence[Case], driver: Driver, group_size: int | None = None
) -> Iterator[tuple[Case, Outcome, float]]:
    """Run the variants fused, `group_size` at a time (by default all), and yield each with its outcome and its seconds.

    A query that several of them run over the same records runs once.
    """
    return run_group(cases, driver, RunOptions(group_size=group_size or max(len(cases), 1), reuse=True))


def one_variant(cases: Sequence[Case]) -> list[Case]:
    """Return the first variant of each case that expects records; an expected refusal tells nothing about mutants."""
    first: dict[tuple[Path, int], Case] = {}
    for case in cases:
        if case.expected_exception is None and case.outputs is not None:
            first.setdefault((case.file, case.line), case)
    return list(first.values())


def same_statements(cases: Sequence[Case]) -> list[list[Case]]:
    """Group cases that run the same statements: any of them can kill a mutant."""
    groups: dict[object, list[Case]] = {}
    for case in cases:
        groups.setdefault((case.statements, tuple(sorted(case.variables.items()))), []).append(case)
    return list(groups.values())
