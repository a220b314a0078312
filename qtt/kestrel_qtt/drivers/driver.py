"""Defines what the harness needs of an engine: run cases, and return the outcome of each."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Protocol

import msgspec

from kestrel_qtt.cases.model import Case, Outcome

DEFAULT_GROUP_SIZE = 60
"""240 take a fifth less processor time, but 480 of ksqlDB's cases in such groups filled a JVM of 850 MB."""


CARRIERS = ("spark", "process")
"""What can carry the queries of cases of records: memory streams of Spark, or this process."""


class PlanningError(Exception):
    """The statements of a case cannot be planned; the message says which one, and why."""


class DriverError(Exception):
    """An engine cannot be opened; the message says why, and what to try."""


class RunOptions(msgspec.Struct, frozen=True):
    """How to run cases.

    `cut` says how the input is cut into micro-batches: `one`, `each`, `random:SEED`, or None for the driver's choice.

    With `restart` every query is stopped and restarted from its checkpoint in the middle; `group_size` is how many
    cases share one running query at most, and `jobs` how many groups run at the same time. With `reuse` the driver
    does not run a query again over the same records.
    """

    cut: str | None = None
    restart: bool = False
    group_size: int = DEFAULT_GROUP_SIZE
    jobs: int = 1
    reuse: bool = False


class Driver(Protocol):
    """An engine under test; `run` may be called from several threads at once."""

    def run(self, cases: Sequence[Case], options: RunOptions) -> Iterator[tuple[Case, Outcome, float]]:
        """Run the cases, in any grouping and order.

        Yield each exactly once with its outcome and its share of the seconds.
        """

    def close(self) -> None:
        """Release everything that the driver holds; it is not used afterwards."""


class PlanningDriver(Driver, Protocol):
    """A driver that can show what it would run."""

    def explain(self, case: Case) -> str:
        """Return the plan of the case as readable text, with the stages of each query; raise PlanningError."""

    def plan_documents(self, case: Case) -> str:
        """Return the plan of the case as the text of a plan.json; raise PlanningError."""
