"""Checks that joined topics have the same number of partitions: a join only sees rows of the same partition."""

from __future__ import annotations

from collections.abc import Mapping

from kestrel_sql.errors import StatementError
from kestrel_sql.plan.step import Step
from kestrel_sql.plan.steps.joins import StreamStreamJoinV1, StreamTableJoinV1, TableTableJoinV1


def check_partitions(step: Step, partitions: Mapping[str, int]) -> None:
    """Check that the topics on both sides of each join of a plan have as many partitions, if both numbers are known.

    A change of key does not help: the repartition topic has as many partitions as its source (rules L9). Foreign-key
    joins accept any numbers.

    Args:
        step: the last step of the plan.
        partitions: the number of partitions by topic.

    Raises:
        StatementError: two numbers differ.
    """
    _leftmost(step, partitions)


def _leftmost(step: Step, partitions: Mapping[str, int]) -> str:
    """The topic whose partitions the rows of a step keep."""
    topics = [_leftmost(source, partitions) for source in step.upstream]
    if isinstance(step, StreamStreamJoinV1 | StreamTableJoinV1 | TableTableJoinV1):
        _compare(topics[0], topics[1], partitions)
    return topics[0] if topics else str(getattr(step, "topic_name", ""))


def _compare(left: str, right: str, partitions: Mapping[str, int]) -> None:
    counts = partitions.get(left), partitions.get(right)
    if None in counts or counts[0] == counts[1]:
        return
    raise StatementError(
        f"Can't join `{left}` with `{right}` since the number of partitions don't match. "
        f"`{left}` partitions = {counts[0]}; `{right}` partitions = {counts[1]}.",
        hint=(
            "copy one of them to a topic with as many partitions as the other: CREATE … WITH (PARTITIONS = …) AS SELECT"
        ),
    )
