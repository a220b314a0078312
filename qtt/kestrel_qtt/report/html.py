"""Write a run, and what is found in it, as one self-contained HTML file.

Search, statements, records on a time line, differences, plans.
"""

from __future__ import annotations

import base64
import gzip
import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from html import escape
from importlib.resources import files
from pathlib import Path
from typing import Any

import msgspec
from msgspec.structs import asdict

from kestrel_qtt.cases.model import Actual, ActualRecord, Case, InputRecord, OutputRecord, Produced, Result
from kestrel_qtt.judge.diff import (
    Comparison,
    RecordDifference,
    cause_text,
    contents,
    difference_texts,
    topic_differences,
)
from kestrel_qtt.judge.json_text import show, write_json
from kestrel_qtt.report.plan_graph import plan_graph
from kestrel_qtt.report.text import Summary

FILE = "index.html"
Explain = Callable[[Case], str]
"""Gives the plan of a case as JSON, followed by the stages of each query; any error means that there is none."""

_STAGE = re.compile(r"\n\n-- (\S+), stage (\d+)\n")


def write_html(folder: Path, results: Sequence[Result], summary: Summary, explain: Explain | None = None) -> Path:
    """Write the report to `folder`/index.html and return its path."""
    data = {
        "summary": {**asdict(summary), "text": str(summary)},
        "cases": [_case(result, explain) for result in results],
    }
    packed = gzip.compress(_json(data).encode(errors="backslashreplace"), mtime=0)
    page = files("kestrel_qtt.report").joinpath("page")
    text = page.joinpath("index.html").read_text(encoding="utf-8")
    for name in ("style.css", "app.js"):
        text = text.replace(f"/* {name} */", page.joinpath(name).read_text(encoding="utf-8"))
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / FILE
    file.write_text(text.replace("DATA", base64.b64encode(packed).decode("ascii")), encoding="utf-8")
    return file


def _json(data: Mapping[str, object]) -> str:
    return json.dumps(data, ensure_ascii=False, separators=(",", ":"))


def _case(result: Result, explain: Explain | None) -> dict[str, object]:
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
                "carrier": result.carrier,
                "compared": str(case.matching),
                "script": None if case.script is None else case.script.as_posix(),
                "inputs": list(_inputs(case, result.outcome)),
                **_records(result, inputs),
                **_plan(case, explain),
            }
        ),
    }


def _plan(case: Case, explain: Explain | None) -> dict[str, object]:
    if explain is None or type(case) is not Case:
        return {}
    try:
        plan, *stages = _STAGE.split(explain(case))
        graph = plan_graph(json.loads(plan))
    except Exception:  # noqa: BLE001 - a case that cannot be planned has no graph, and says why in its reason
        return {}
    sql = [{"query": q, "stage": int(s), "text": text} for q, s, text in zip(*[iter(stages)] * 3, strict=True)]
    return {"graph": {"nodes": [asdict(node) for node in graph.nodes], "edges": graph.edges}, "sql": sql}


def _records(result: Result, inputs: dict[int, int]) -> dict[str, object]:
    """What was written, how it differs, by topic, and what else is wrong."""
    case, outcome, reason = result.case, result.outcome, f"\n{result.reason}\n"
    if not isinstance(outcome, Produced):
        return {"outputs": [], "differences": [], "reason": result.reason}
    expected = case.outputs_by_topic
    outputs: list[dict[str, Any]] = []
    found: list[dict[str, Any]] = []
    for topic in {**expected, **outcome.compared}:
        written = outcome.records.get(topic, ())
        rows = {id(record): len(outputs) + number for number, record in enumerate(written)}
        outputs += [_output(topic, record, inputs) for record in written]
        if case.outputs is not None and (not case.tolerant or topic in expected):
            differences = topic_differences(topic, expected.get(topic, ()), written, Comparison.of(case))
            found += [_difference(each, case, rows.get(id(each.actual))) for each in differences]
            for text in difference_texts(topic, differences, case.file):
                reason = reason.replace(f"\n{text}\n", "\n", 1)
    return {"outputs": outputs, "differences": found, "reason": reason.strip("\n")}


def _inputs(case: Case, outcome: object) -> Iterator[dict[str, object]]:
    times = outcome.event_times if isinstance(outcome, Produced) and outcome.event_times else None
    for number, record in enumerate(case.inputs):
        value = record.value if record.cells is None else dict(record.cells)
        file = (record.file or case.file).as_posix()
        place = f"{file}:{record.line}" if record.line else ""
        shown = {**_shown(record.topic, record.key, value, record), "place": place}
        yield shown if times is None else {**shown, "eventTime": times[number]}


def _output(topic: str, record: ActualRecord, inputs: dict[int, int]) -> dict[str, object]:
    cause = None if record.cause is None else inputs.get(id(record.cause))
    return {**_shown(topic, record.key, record.value, record), "cause": cause}


def _shown(
    topic: str, key: Actual, value: Actual, record: InputRecord | OutputRecord | ActualRecord
) -> dict[str, object]:
    return {
        "topic": topic,
        "key": write_json(key),
        "value": write_json(value),
        "timestamp": record.timestamp,
        "window": None if record.window is None else [record.window.start, record.window.end],
        "headers": [[name, write_json(content)] for name, content in record.headers],
        "partition": record.partition,
        "offset": record.offset,
    }


def _difference(each: RecordDifference, case: Case, row: int | None) -> dict[str, object]:
    """How a record differs; `row` is its number among the outputs, `expected` the record if none was written."""
    kind = "order" if each.moved_to is not None else "missing" if each.actual is None else "differs"
    missing = each.expected if each.actual is None else None
    cause = None if each.actual is None else each.actual.cause
    return {
        "topic": each.topic,
        "index": each.index,
        "line": None if each.expected is None else each.expected.line,
        "kind": "unexpected" if each.expected is None else kind,
        "columns": list(_columns(each)),
        "cause": "" if cause is None else cause_text(cause, case.file),
        "row": row,
        "expected": None if missing is None else _shown(each.topic, missing.key, missing.value, missing),
    }


def _columns(each: RecordDifference) -> Iterator[tuple[str, str, str]]:
    """Column, expected and actual; of a record that only one side has, all that it has."""
    if each.columns:
        yield from ((d.column, show(d.expected), show(d.actual)) for d in each.columns)
        return
    only = each.expected or each.actual
    for name, value in [] if only is None else contents(only):
        shown = show(value)
        yield name, "" if each.expected is None else shown, "" if each.actual is None else shown


class Finding(msgspec.Struct, frozen=True):
    """A mutant or branch: its position, its outcome, and for a mutant the lines that differ."""

    place: str
    text: str
    is_good: bool
    difference: str = ""


def write_findings(file: Path, title: str, open_word: str, summary: str, findings: Sequence[Finding]) -> Path:
    """Write the page to `file` and return its path; `open_word` names the findings that are not good."""
    page = files("kestrel_qtt.report").joinpath("page")
    text = page.joinpath("findings.html").read_text(encoding="utf-8")
    text = text.replace("/* style.css */", page.joinpath("style.css").read_text(encoding="utf-8"))
    for name, value in (("TITLE", title), ("OPEN", open_word), ("SUMMARY", summary)):
        text = text.replace(name, escape(value))
    file.parent.mkdir(parents=True, exist_ok=True)
    # Last, so that no text of a finding is replaced as a placeholder.
    file.write_text(text.replace("FINDINGS", "\n".join(map(_section, findings))), encoding="utf-8")
    return file


def _section(each: Finding) -> str:
    kind = "passed" if each.is_good else "failed"
    difference = f"<pre>{''.join(map(_line, each.difference.splitlines()))}</pre>" if each.difference else ""
    mark = "✓" if each.is_good else "✗"
    return (
        f'<section class="{kind}"><h2>{escape(each.place)}</h2><p>{mark} {escape(each.text)}</p>{difference}</section>'
    )


def _line(text: str) -> str:
    tag = "del" if text.startswith("-") else "ins"
    return f"<{tag}>{escape(text)}</{tag}>\n"
