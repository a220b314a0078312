"""Joined topics must have equally many partitions: a row meets the rows of its own partition only."""

from __future__ import annotations

from collections.abc import Mapping

from kestrel_sql.errors import StatementError
from kestrel_sql.operators.operator import Scope
from kestrel_sql.spark.stages.group import Group, SourceRead


def check_partitions(group: Group, partitions: Mapping[str, int]) -> None:
    """Compare the topics below the two sides of each join, as far as their numbers of partitions are known.

    A change of key is no way around, as its internal topic has as many partitions as its source (rules L9). Foreign-key
    joins may have any numbers.

    Raises:
        StatementError: they differ.
    """
    below: dict[int, SourceRead] = {source.relation: source for source in group.sources}
    for level in group.levels:
        for stateful in level:
            sides = [below[handle.relation] for handle in stateful.inputs]
            below[stateful.output.relation] = sides[0]
            if len(sides) == 2 and stateful.operator.scope is not Scope.QUERY:
                _compare(sides[0], sides[1], partitions)


def _compare(left: SourceRead, right: SourceRead, partitions: Mapping[str, int]) -> None:
    counts = partitions.get(left.topic), partitions.get(right.topic)
    if None in counts or counts[0] == counts[1]:
        return
    raise StatementError(
        f"Can't join `{left.topic}` with `{right.topic}` since the number of partitions don't match. "
        f"`{left.topic}` partitions = {counts[0]}; `{right.topic}` partitions = {counts[1]}.",
        hint="Write one of them to a topic with as many partitions as the other: CREATE … WITH (PARTITIONS = …) AS SELECT.",
    )
