"""Checks that joined topics have the same number of partitions: a join only sees rows of the same partition."""

from __future__ import annotations

from collections.abc import Mapping

from kestrel_sql.errors import StatementError
from kestrel_sql.operators.operator import Scope
from kestrel_sql.spark.stages.group import Group, SourceRead


def check_partitions(group: Group, partitions: Mapping[str, int]) -> None:
    """Check that the topics on both sides of each join have the same number of partitions, if both numbers are known.

    A change of key does not help: the repartition topic has as many partitions as its source (rules L9). Foreign-key joins
    accept any numbers.

    Raises:
        StatementError: two numbers differ.
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
        hint="copy one of them to a topic with as many partitions as the other: CREATE … WITH (PARTITIONS = …) AS SELECT",
    )
