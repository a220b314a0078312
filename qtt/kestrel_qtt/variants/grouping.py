"""Which cases run the same statements, and which of their variants runs."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from kestrel_qtt.cases.model import Case


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
