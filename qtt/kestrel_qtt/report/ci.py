"""Write reports for CI systems: JUnit XML, and GitHub annotations at file and line."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from xml.etree import ElementTree as ET

from kestrel_qtt.cases.model import Result, Status
from kestrel_qtt.report.text import Summary

_CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\ufffe\uffff]")
_ELEMENTS = {Status.FAILED: "failure", Status.ERROR: "error", Status.SKIPPED: "skipped"}


def write_junit(path: Path, results: Sequence[Result], summary: Summary) -> None:
    """Write the results as JUnit XML, with the seconds of each case."""
    counts = {"tests": len(results), "failures": summary.failed, "errors": summary.errors, "skipped": summary.skipped}
    suite = ET.Element("testsuite", {"name": "qtt", **{name: str(n) for name, n in counts.items()}})
    suite.set("time", f"{summary.seconds:.3f}")
    for result in results:
        file, _, name = result.case.id.rpartition("::")
        case = ET.SubElement(suite, "testcase", {"classname": file, "name": name, "time": f"{result.seconds:.4f}"})
        case.set("file", result.case.file.as_posix())
        case.set("line", str(result.case.line))
        if result.carrier:
            ET.SubElement(ET.SubElement(case, "properties"), "property", {"name": "carrier", "value": result.carrier})
        if result.status in _ELEMENTS:
            reason = _CONTROL.sub("\ufffd", result.reason)
            told = ET.SubElement(case, _ELEMENTS[result.status], {"message": reason.partition("\n")[0]})
            told.text = reason
    suites = ET.Element("testsuites")
    suites.append(suite)
    path.parent.mkdir(parents=True, exist_ok=True)
    ET.indent(suites)
    ET.ElementTree(suites).write(path, encoding="utf-8", xml_declaration=True)


def github_annotations(results: Iterable[Result]) -> list[str]:
    """One workflow command for each case that did not pass, at the line that shows what is wrong."""
    return [_annotation(result) for result in results if result.status in (Status.FAILED, Status.ERROR)]


def _annotation(result: Result) -> str:
    file, line = place_of(result)
    title = _property(result.case.name)
    return f"::error file={_property(file.as_posix())},line={line},title={title}::{_data(result.reason)}"


def place_of(result: Result) -> tuple[Path, int]:
    """The line that shows what is wrong: of the script, of the expected record, else of the case."""
    case = result.case
    if case.script is not None:
        found = re.search(rf"at {re.escape(str(case.script))}:(\d+):\d+$", result.reason, re.MULTILINE)
        if found:
            return case.script, int(found[1])
    found = re.search(rf"\({re.escape(str(case.file))}:(\d+)\)", result.reason)
    return case.file, int(found[1]) if found else case.line


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")
