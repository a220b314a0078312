"""Fill in the outputs that new cases leave out; an expectation that is there is never overwritten."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec

from kestrel_qtt.cases.model import Case, CaseFileError, Outcome, Produced
from kestrel_qtt.cases.read_json import item_span, read_json
from kestrel_qtt.cases.read_yaml import parse_yaml
from kestrel_qtt.judge.json_text import record_json
from kestrel_qtt.load import load


class Proposal(msgspec.Struct, frozen=True):
    """The outputs seen for the case at `line`, one JSON text per record, or why there are none.

    `warnings` say what the outputs do not show: inputs that had no effect, or that there are no outputs at all.
    """

    case: Case
    records: tuple[str, ...] = ()
    problem: str = ""
    warnings: tuple[str, ...] = ()


def is_open(case: Case) -> bool:
    """Say whether a case of ours leaves its outputs out and expects no exception."""
    return case.outputs is None and case.expected_exception is None and not case.tolerant


def propose(outcomes: Sequence[tuple[Case, Outcome]]) -> list[Proposal]:
    """Make one proposal per case of the file, given the outcomes of all its variants, which must agree."""
    proposals: dict[int, Proposal] = {}
    for case, outcome in outcomes:
        seen = _proposal(case, outcome)
        other = proposals.get(case.line)
        if other is None or seen.problem:
            proposals[case.line] = seen
        elif not other.problem and other.records != seen.records:
            proposals[case.line] = Proposal(
                case, (), f"{case.id} gives other outputs than {other.case.id}: split the case"
            )
    return list(proposals.values())


def _proposal(case: Case, outcome: Outcome) -> Proposal:
    if not isinstance(outcome, Produced):
        return Proposal(case, (), f"{case.id} did not run to its end: {outcome.message}")
    records = tuple(record_json(topic, each) for topic, found in outcome.compared.items() for each in found)
    nothing = () if records else ("no query wrote a record: the case will assert silence",)
    return Proposal(case, records, warnings=(*nothing, *outcome.silence))


def fill_in(path: Path, proposals: Sequence[Proposal]) -> None:
    """Write the proposed outputs into the case file at `path`.

    Raises:
        CaseFileError: the file would not read back as intended; it is left as it was.
    """
    before = path.read_bytes().decode("utf-8")
    accepted = {p.case.line: p.records for p in proposals if not p.problem}
    after = _fill_json(before, accepted) if path.suffix == ".json" else _fill_yaml(before, accepted)
    # A case file cannot hold half of a surrogate pair, and refuses its escape.
    path.write_bytes(after.encode("utf-8", "backslashreplace"))
    loaded = load(path)
    open_still = [
        case
        for case in loaded.cases
        if is_open(case) and any(case.name == p.case.name for p in proposals if not p.problem)
    ]
    if loaded.errors or open_still:
        path.write_bytes(before.encode("utf-8"))
        raise (
            loaded.errors[0]
            if loaded.errors
            else CaseFileError(path, open_still[0].line, "the outputs could not be written; paste these")
        )


def _fill_json(text: str, accepted: Mapping[int, Sequence[str]]) -> str:
    items = read_json(text).items or ()
    for index in reversed(range(len(items))):
        if items[index].line in accepted:
            start, end = item_span(text, index)
            text = (
                text[:start]
                + _with_outputs(text[start:end], _indent(text, start), accepted[items[index].line])
                + text[end:]
            )
    return text


def _indent(text: str, start: int) -> str:
    line = text[text.rfind("\n", 0, start) + 1 : start]
    return line[: len(line) - len(line.lstrip())]


def _with_outputs(case: str, indent: str, records: Sequence[str]) -> str:
    """Add the member `outputs` at the end of the object `case`, which starts in a line with `indent`."""
    body = case[:-1].rstrip()
    inner = f"{indent}  "
    lines = "".join(f"\n{inner}  {record}," for record in records)[:-1]
    outputs = f"[{lines}\n{inner}]" if records else "[]"
    return f'{body},\n{inner}"outputs": {outputs}\n{indent}}}'


def _fill_yaml(text: str, accepted: Mapping[int, Sequence[str]]) -> str:
    tests = parse_yaml(text).children["tests"]
    lines = text.splitlines(keepends=True)
    for node in reversed(tests.children.values()):
        if node.children["name"].line in accepted:
            lines[node.end_line - 1] = lines[node.end_line - 1].rstrip("\n") + "\n"
            lines.insert(node.end_line, _yaml_outputs(" " * node.column, accepted[node.children["name"].line]))
    return "".join(lines)


def _yaml_outputs(indent: str, records: Sequence[str]) -> str:
    if not records:
        return f"{indent}outputs: []\n"
    return f"{indent}outputs:\n" + "".join(f"{indent}  - {record}\n" for record in records)
