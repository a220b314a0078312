"""Write a run as one self-contained HTML file.

Search, statements, records on a time line, differences, plans.
"""

from __future__ import annotations

import base64
import gzip
import json
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict
from importlib.resources import files
from pathlib import Path
from typing import Any

from kestrel_qtt.cases.model import ActualRecord, Case, InputRecord, OutputRecord, Produced, Result, Window
from kestrel_qtt.judge.diff import Comparison, RecordDifference, topic_differences
from kestrel_qtt.judge.json_text import show, write_json
from kestrel_qtt.report.plan_graph import plan_graph
from kestrel_qtt.report.text import Summary

FILE = "index.html"
Explain = Callable[[Case], str]
"""Gives the plan of a case as JSON, followed by the Spark SQL of each stage; any error means that there is none."""

_STAGE = re.compile(r"\n\n-- (\S+), stage (\d+)\n")


def write_html(folder: Path, results: Sequence[Result], summary: Summary, explain: Explain | None = None) -> Path:
    """Write the report to `folder`/index.html and return its path."""
    data = {
        "summary": {**asdict(summary), "text": str(summary)},
        "cases": [_case(result, explain) for result in results],
    }
    packed = gzip.compress(_json(data).encode(), mtime=0)
    page = files("kestrel_qtt.report").joinpath("page")
    text = page.joinpath("index.html").read_text(encoding="utf-8")
    for name in ("style.css", "app.js"):
        text = text.replace(f"/* {name} */", page.joinpath(name).read_text(encoding="utf-8"))
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / FILE
    file.write_text(text.replace("DATA", base64.b64encode(packed).decode("ascii")), encoding="utf-8")
    return file


def _json(data: dict[str, Any]) -> str:
    return json.dumps(data, ensure_ascii=False, separators=(",", ":"))


def _case(result: Result, explain: Explain | None) -> dict[str, Any]:
    """What the list and the search need, and as one text of JSON the rest: the page parses that of an opened case."""
    case = result.case
    inputs = {id(record): number for number, record in enumerate(case.inputs)}
    return {
        "id": case.id,
        "name": case.name,
        "file": case.file.as_posix(),
        "line": case.line,
        "status": result.status.value,
        "seconds": round(result.seconds, 3),
        "rules": list(case.rules),
        "statements": list(case.statements),
        "details": _json(
            {
                "reason": result.reason,
                "compared": str(case.matching),
                "script": None if case.script is None else case.script.as_posix(),
                "inputs": [_input(record, case) for record in case.inputs],
                **_records(case, result.outcome, inputs),
                **_plan(case, explain),
            }
        ),
    }


def _plan(case: Case, explain: Explain | None) -> dict[str, Any]:
    if explain is None or type(case) is not Case:
        return {}
    try:
        plan, *stages = _STAGE.split(explain(case))
        graph = plan_graph(json.loads(plan))
    except Exception:  # noqa: BLE001 - a case that cannot be planned has no graph, and says why in its reason
        return {}
    sql = [{"query": q, "stage": int(s), "text": text} for q, s, text in zip(*[iter(stages)] * 3, strict=True)]
    return {"graph": {"nodes": [asdict(node) for node in graph.nodes], "edges": graph.edges}, "sql": sql}


def _records(case: Case, outcome: Any, inputs: dict[int, int]) -> dict[str, Any]:
    """What was written, and how it differs, by topic."""
    if not isinstance(outcome, Produced):
        return {"outputs": [], "differences": []}
    internal = {topic.name for topic in outcome.topics if topic.internal}
    expected = case.outputs or ()
    topics = dict.fromkeys([*(r.topic for r in expected), *(t for t in outcome.records if t not in internal)])
    outputs: list[dict[str, Any]] = []
    found: list[dict[str, Any]] = []
    for topic in topics:
        written = outcome.records.get(topic, ())
        outputs += [_output(topic, record, inputs) for record in written]
        if case.outputs is not None and (not case.tolerant or any(record.topic == topic for record in expected)):
            wanted = [record for record in expected if record.topic == topic]
            found += map(_difference, topic_differences(topic, wanted, written, Comparison.of(case)))
    return {"outputs": outputs, "differences": found}


def _input(record: InputRecord, case: Case) -> dict[str, Any]:
    value = record.value if record.cells is None else dict(record.cells)
    file = (record.file or case.file).as_posix()
    return {**_shown(record.topic, record.key, value, record), "place": f"{file}:{record.line}" if record.line else ""}


def _output(topic: str, record: ActualRecord, inputs: dict[int, int]) -> dict[str, Any]:
    cause = None if record.cause is None else inputs.get(id(record.cause))
    return {**_shown(topic, record.key, record.value, record), "cause": cause}


def _shown(topic: str, key: Any, value: Any, record: InputRecord | OutputRecord | ActualRecord) -> dict[str, Any]:
    return {
        "topic": topic,
        "key": write_json(key),
        "value": write_json(value),
        "timestamp": record.timestamp,
        "window": _window(record.window),
    }


def _window(window: Window | None) -> list[int] | None:
    return None if window is None else [window.start, window.end]


def _difference(each: RecordDifference) -> dict[str, Any]:
    kind = "order" if each.moved_to is not None else "missing" if each.actual is None else "differs"
    return {
        "topic": each.topic,
        "index": each.index,
        "line": None if each.expected is None else each.expected.line,
        "kind": "unexpected" if each.expected is None else kind,
        "columns": list(_columns(each)),
    }


def _columns(each: RecordDifference) -> Iterator[tuple[str, str, str]]:
    """Column, expected and actual; of a record that only one side has, its key and value."""
    if each.columns:
        yield from ((d.column, show(d.expected), show(d.actual)) for d in each.columns)
        return
    for name in ("key", "value", "timestamp"):
        sides: Iterable[Any] = (
            getattr(side, name) if side is not None else None for side in (each.expected, each.actual)
        )
        left, right = sides
        yield name, "" if each.expected is None else show(left), "" if each.actual is None else show(right)
