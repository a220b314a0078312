"""Run variants of cases, which have most of their queries in common."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

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
