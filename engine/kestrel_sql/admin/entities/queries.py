"""Queries and their plans as the API shows them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypedDict

from kestrel_sql.admin.entities.schemas import field_info
from kestrel_sql.admin.view import EngineView, PartitionOffsets
from kestrel_sql.plan.codec.json_text import write_line
from kestrel_sql.plan.codec.objects import members_of
from kestrel_sql.plan.codec.plan_file import encode_statement
from kestrel_sql.plan.document import QueryPlan, StatementPlan
from kestrel_sql.plan.step import Step, words_of
from kestrel_sql.plan.table import STEPS
from kestrel_sql.planner.expressions.types import Types
from kestrel_sql.session.session import PersistentQuery


def query_description(query: PersistentQuery, view: EngineView) -> dict[str, object]:
    """A persistent query as a `QueryDescription`."""
    state = view.state(query)
    return {
        **described_plan(query.plan, view),
        "id": query.id,
        "statementText": query.statement_text,
        "overriddenProperties": query.config.beyond(view.base),
        "ksqlHostQueryStatus": {view.host: status_of(state)},
        "queryType": "PERSISTENT",
        "queryErrors": query_errors(query, view),
        "tasksMetadata": _tasks(view.offsets(query.id)),
        "consumerGroupId": consumer_group(query, view),
        "state": shown_state(state),
    }


def status_of(state: str) -> str:
    """The status of a host that has a query in a state; clients know no other than RUNNING, ERROR and PAUSED."""
    return "RUNNING" if state == "STARTING" else state


def shown_state(state: str) -> str:
    """What clients see of a state: a query that is paused counts as PAUSED, and is RUNNING."""
    return "RUNNING" if state == "PAUSED" else state


def consumer_group(query: PersistentQuery, view: EngineView) -> str:
    """The consumer group that ksqlDB gives to a query."""
    return f"_confluent-ksql-{view.session.config['ksql.service.id']}query_{query.id}"


def query_errors(query: PersistentQuery, view: EngineView) -> list[dict[str, object]]:
    """What has stopped a query."""
    failure = view.failed.get(query.id)
    if failure is None:
        return []
    kind = "USER" if failure.is_of_user else "SYSTEM"
    return [{"timestamp": failure.time, "errorMessage": failure.message, "type": kind}]


def _tasks(offsets: Sequence[PartitionOffsets]) -> list[dict[str, object]]:
    """How far a query has read, by the partitions that are read together."""
    tasks: dict[int, list[dict[str, Any]]] = {}
    for each in offsets:
        place = {"topic": each.topic, "partition": each.partition}
        read = {"topicPartitionEntity": place, "endOffset": each.end, "committedOffset": each.committed}
        tasks.setdefault(each.partition, []).append(read)
    return [
        {"taskId": f"0_{number}", "topicOffsets": read, "timeCurrentIdlingStarted": None}
        for number, read in sorted(tasks.items())
    ]


def described_plan(plan: QueryPlan, view: EngineView) -> dict[str, object]:
    """A plan that does not run as a `QueryDescription`."""
    types = Types(view.session.functions, view.session.config)
    sink = view.session.catalog.sources.get(plan.sink or "")
    schema = sink.schema if sink is not None else plan.physical_plan.result_schema(types.of)
    steps = plan_steps(plan, view)
    return {
        "id": plan.query_id,
        "statementText": "",
        "windowType": None if sink is None or sink.window is None else sink.window.type.value,
        "fields": [field_info(column) for column in schema.columns],
        "sources": list(plan.sources),
        "sinks": [] if plan.sink is None else [plan.sink],
        "topology": "\n".join(
            f"{'  ' * each['depth']}{each['step']} {each['name']}: {each['schema']}" for each in steps
        ),
        "executionPlan": write_line(encode_statement(StatementPlan(statement_text="", query_plan=plan))),
        "overriddenProperties": {},
        "ksqlHostQueryStatus": {},
        "queryType": "PERSISTENT" if plan.sink is not None else "PUSH",
        "queryErrors": [],
        "tasksMetadata": [],
        "consumerGroupId": "",
        "state": None,
    }


class PlanStep(TypedDict):
    """A step of a plan, with the ids of its inputs."""

    id: int
    depth: int
    step: str
    name: str
    schema: str
    texts: list[str]
    inputs: list[int]


def plan_steps(plan: QueryPlan, view: EngineView) -> list[PlanStep]:
    """The steps of a plan from the last to the first, each with what it does and the ids of its inputs."""
    types = Types(view.session.functions, view.session.config)
    encoded = encode_statement(StatementPlan(statement_text="", query_plan=plan))["queryPlan"]["physicalPlan"]
    steps: list[PlanStep] = []
    for (number, depth, step), texts in zip(_numbered(plan.physical_plan, 0, 0), step_texts(encoded), strict=True):
        steps.append(
            {
                "id": number,
                "depth": depth,
                "step": step.tag,
                "name": step.query_context,
                "schema": str(step.result_schema(types.of)),
                "texts": texts,
                "inputs": [],
            }
        )
        parent = next((each for each in reversed(steps[:-1]) if each["depth"] == depth - 1), None)
        if parent is not None:
            parent["inputs"].append(number)
    return steps


def _numbered(step: Step, number: int, depth: int) -> Iterator[tuple[int, int, Step]]:
    yield number, depth, step
    number += 1
    for upstream in step.upstream:
        for found in _numbered(upstream, number, depth + 1):
            yield found
            number = found[0] + 1


_INPUTS = ("source", "leftSource", "rightSource")


def step_texts(step: Mapping[str, Any]) -> Iterator[list[str]]:
    """Describe an encoded step, then those above its inputs, each as one line a clause; the step comes first."""
    kind = STEPS[step["@type"]]
    words = {member.names[0]: words_of(kind).get(member.field) for member in members_of(kind)}
    yield [f"{word} {text}" for name, word in words.items() if word and (text := _clause(name, step.get(name)))]
    for name in _INPUTS:
        if name in step:
            yield from step_texts(step[name])


def _clause(field: str, value: object) -> str:
    text = _text(value)
    # A plan has durations in seconds with nine digits after the point.
    return f"{text.rstrip('0').rstrip('.')} s" if text and field.endswith("Millis") else text


def _text(value: object) -> str:
    """The parts of an encoded member of a step that are set, without their names."""
    match value:
        case None:
            return ""
        case {"value": number, "timeUnit": unit}:
            return f"{number} {unit}"
        case Mapping():
            return " ".join(filter(None, map(_text, value.values())))
        case [*items]:
            return ", ".join(map(_text, items))
        case _:
            return str(value)
