"""Shows the stages of a graph to people: what runs between two shuffles, and the operators between two stages."""

from __future__ import annotations

from collections.abc import Iterator

from kestrel_sql.dataflow.graph import Graph, Stateful


def stages_text(graph: Graph) -> str:
    """Return the stages of a graph; each operator is behind a shuffle of the rows that it reads."""
    return "\n\n".join(_lines(graph))


def _lines(graph: Graph) -> Iterator[str]:
    ids = ", ".join(plan.query_id for plan in graph.plans.values())
    for number, stage in enumerate(graph.stages):
        lines = [f"-- {ids}, stage {number}"]
        if number:
            lines += [f"r{each.output.number}: {_operator(each)}" for each in graph.levels[number - 1]]
        else:
            lines += [f"r{each.relation.number}: read {each.topic}" for each in graph.sources]
        for relation, chain in sorted(stage.items()):
            lines += [f"r{relation}: {text}" for text in chain.texts]
        if number == len(graph.stages) - 1:
            lines += [f"r{each.relation.number}: write {each.topic}" for each in graph.sinks]
        yield "\n".join(lines)


def _operator(stateful: Stateful) -> str:
    inputs = ", ".join(f"r{each.number}" for each in stateful.inputs)
    return f"shuffle {inputs} by {stateful.operator.scope.value}, {type(stateful.operator).__name__}"
