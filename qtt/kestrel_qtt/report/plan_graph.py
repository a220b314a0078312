"""Read the graph of a plan from its JSON: topics, steps, and which feeds which; write it as Mermaid text."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

_SOURCES = ("source", "leftSource", "rightSource")
_DETAILS = (
    "filterExpression",
    "selectExpressions",
    "groupByExpressions",
    "keyExpression",
    "joinType",
    "windowExpression",
    "windowInfo",
    "tableFunctions",
    "aggregationFunctions",
)
_VERSION = re.compile(r"V\d+$")
_LONGEST = 200


class Node(msgspec.Struct, frozen=True):
    """A topic, or a step of a query; `layer` counts from the sources, `row` within the layer."""

    id: str
    label: str
    detail: str
    is_topic: bool
    layer: int
    row: int


class Graph(msgspec.Struct, frozen=True):
    """The nodes of a plan, and its edges as pairs of ids."""

    nodes: tuple[Node, ...]
    edges: tuple[tuple[str, str], ...]


def plan_graph(plan: Mapping[str, Any]) -> Graph:
    """Read the graph of the content of a plan.json."""
    labels: dict[str, tuple[str, str, bool]] = {}
    edges: dict[tuple[str, str], None] = {}
    for statement in plan.get("plan", []):
        query = statement.get("queryPlan")
        if query is not None:
            for id_, shown, edge in _steps(query["physicalPlan"], str(query["queryId"])):
                labels.setdefault(id_, shown)
                edges.update(dict.fromkeys(edge))
    layers = _layers(list(labels), list(edges))
    rows: dict[int, int] = {}
    nodes = []
    for id_, (label, detail, is_topic) in labels.items():
        row = rows.get(layers[id_], 0)
        rows[layers[id_]] = row + 1
        nodes.append(Node(id_, label, detail, is_topic, layers[id_], row))
    return Graph(tuple(nodes), tuple(edges))


def _steps(step: Mapping[str, Any], query: str) -> Iterator[tuple[str, tuple[str, str, bool], list[tuple[str, str]]]]:
    """The nodes of a step and of those below it, each with its edges."""
    context = step.get("properties", {}).get("queryContext", "")
    name, tag = f"{query}/{context}", _VERSION.sub("", str(step["@type"]))
    edges = [(f"{query}/{step[s].get('properties', {}).get('queryContext', '')}", name) for s in _SOURCES if s in step]
    topic = step.get("topicName")
    if topic is not None:
        own = f"topic {topic}"
        edges.append((name, own) if edges else (own, name))
        yield own, (str(topic), "", True), []
    for source in _SOURCES:
        if source in step:
            yield from _steps(step[source], query)
    yield name, (tag, _detail(step), False), edges


def _detail(step: Mapping[str, Any]) -> str:
    text = next(filter(None, (_text(step.get(field)) for field in _DETAILS)), "")
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"


def _text(value: object) -> str:
    """The parts of a value that are set, without the names of its members."""
    match value:
        case None:
            return ""
        case {"value": number, "timeUnit": unit}:
            return f"{number} {unit}"
        case Mapping():
            return " ".join(filter(None, map(_text, value.values())))
        case list():
            return ", ".join(map(_text, value))
        case _:
            return str(value)


def _layers(nodes: list[str], edges: list[tuple[str, str]]) -> dict[str, int]:
    """The length of the longest way to each node; a circle over a topic ends where it began."""
    layers = dict.fromkeys(nodes, 0)
    for _ in range(len(nodes)):
        deeper = {end: layers[start] + 1 for start, end in edges if layers[start] + 1 > layers[end]}
        if not deeper or max(deeper.values()) > len(nodes):
            break
        layers.update(deeper)
    return layers


def mermaid_text(plan: str) -> str:
    """Write the graph of the text of a plan.json as a Mermaid flowchart."""
    return mermaid(plan_graph(json.loads(plan)))


def mermaid(graph: Graph) -> str:
    """Write the graph as a Mermaid flowchart."""
    numbers = {node.id: f"n{number}" for number, node in enumerate(graph.nodes)}
    lines = ["flowchart LR"]
    for node in graph.nodes:
        text = _escaped(node.label) + (f"<br>{_escaped(node.detail)}" if node.detail else "")
        lines.append(f'  {numbers[node.id]}[("{text}")]' if node.is_topic else f'  {numbers[node.id]}["{text}"]')
    return "\n".join([*lines, *(f"  {numbers[start]} --> {numbers[end]}" for start, end in graph.edges)])


def _escaped(text: str) -> str:
    for character, entity in (("&", "&amp;"), ('"', "&quot;"), ("<", "&lt;"), (">", "&gt;"), ("`", "&#96;")):
        text = text.replace(character, entity)
    return text
