"""Edit a list of a case, such as its outputs, in the text of its file; every other character stays."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

import msgspec

from kestrel_qtt.cases.raw import JsonPath, TextError
from kestrel_qtt.cases.read_json import member_span, read_json
from kestrel_qtt.cases.read_yaml import YamlNode, parse_yaml

SpanOf = Callable[[int, JsonPath], tuple[int, int] | None]
"""Gives the offsets of a value, by the index of its element and its path in it."""


class Entry(msgspec.Struct, frozen=True):
    """One element of the new list.

    Either the old element `index`, with the texts of `changes` in place of the values at their paths, or the `text` of
    a new one.
    """

    index: int | None = None
    text: str = ""
    changes: tuple[tuple[JsonPath, str], ...] = ()


class _Element(msgspec.Struct, frozen=True):
    """Offsets of an element.

    Of the blanks and comments that lead to it, of its first character, of the one after it.
    """

    lead: int
    start: int
    end: int


OUTPUTS: JsonPath = ("outputs",)


def edit_list(text: str, is_json: bool, name: str, entries: Sequence[Entry], path: JsonPath = OUTPUTS) -> str:
    """Replace the list at `path` of the case `name` by `entries`.

    Raises:
        TextError: there is no such case, it has no such list, or a path of a change is not there.
    """
    return _edit_json(text, name, entries, path) if is_json else _edit_yaml(text, name, entries, path)


def _edit_json(text: str, name: str, entries: Sequence[Entry], path: JsonPath) -> str:
    items = read_json(text).items or ()
    at = next(
        (n for n, item in enumerate(items) if isinstance(item.data, dict) and item.data.get("name") == name), None
    )
    base: JsonPath = ("tests", -1 if at is None else at, *path)
    whole = member_span(text, base)
    if at is None or whole is None:
        raise _no_list(name, path)
    spans: list[tuple[int, int]] = []
    while (span := member_span(text, (*base, len(spans)))) is not None:
        spans.append(span)

    def span_of(index: int, path: JsonPath) -> tuple[int, int] | None:
        return member_span(text, (*base, index, *path))

    return text[: whole[0]] + _flow_list(text, whole, spans, entries, span_of) + text[whole[1] :]


def _no_list(name: str, path: JsonPath) -> TextError:
    return TextError(1, f"there is no case {name!r} with {'.'.join(map(str, path))}")


def _edit_yaml(text: str, name: str, entries: Sequence[Entry], path: JsonPath) -> str:
    tests = parse_yaml(text).children.get("tests")
    cases = tests.children.values() if tests is not None else ()
    case = next((node for node in cases if isinstance(node.value, dict) and node.value.get("name") == name), None)
    found = _below(case, path)
    if found is None:
        raise _no_list(name, path)
    nodes = list(found.children.values())

    def span_of(index: int, path: JsonPath) -> tuple[int, int] | None:
        node = _below(nodes[index], path)
        return None if node is None else (node.start, node.end)

    if found.flow or not nodes:
        spans = [(node.start, node.end) for node in nodes]
        whole = found.start, found.end
        return text[: whole[0]] + _flow_list(text, whole, spans, entries, span_of) + text[whole[1] :]
    return _block_list(text, nodes, entries, span_of)


def _below(node: YamlNode | None, path: JsonPath) -> YamlNode | None:
    for step in path:
        node = node.children.get(step) if node is not None else None
    return node


def _bodies(
    text: str, elements: Sequence[_Element], entries: Sequence[Entry], span_of: SpanOf
) -> list[tuple[int, str]]:
    """The text of each entry, lead included, with the index of the old record; -1 for a new one."""
    bodies: list[tuple[int, str]] = []
    for entry in entries:
        if entry.index is None:
            bodies.append((-1, entry.text))
            continue
        element = elements[entry.index]
        spans: dict[tuple[int, int], str] = {}
        for path, new in entry.changes:
            span = span_of(entry.index, path)
            if span is None:
                raise TextError(1, f"the element has no {'.'.join(map(str, path))}")
            spans[span] = new
        body = text[element.lead : element.end]
        for (start, end), new in sorted(spans.items(), reverse=True):
            body = body[: start - element.lead] + new + body[end - element.lead :]
        bodies.append((entry.index, body))
    return bodies


def _flow_list(
    text: str, whole: tuple[int, int], spans: Sequence[tuple[int, int]], entries: Sequence[Entry], span_of: SpanOf
) -> str:
    """A list in brackets; each record keeps the blanks and comments before it."""
    leads = [whole[0] + 1, *(text.index(",", _past_comments(text, end)) + 1 for _, end in spans[:-1])]
    elements = [_Element(lead, start, end) for lead, (start, end) in zip(leads, spans, strict=False)]
    tail = text[spans[-1][1] if spans else whole[0] + 1 : whole[1]]
    lead = re.sub(r"(//|#|/\*).*", "", text[leads[0] : spans[0][0]]).rstrip(" \t") if spans else ""
    indent = re.search(r"\n[ \t]*$", text[leads[0] : spans[0][0]]) if spans else None
    if indent is None and not spans:
        line = text[text.rfind("\n", 0, whole[0]) + 1 : whole[0]]
        margin = line[: len(line) - len(line.lstrip(" -"))].replace("-", " ")
        lead, tail = f"\n{margin}  ", f"\n{margin}{tail.lstrip()}" if entries else tail
    else:
        lead = indent[0] if indent is not None else ("" if not spans else " ")
    shown = [body if index >= 0 else f"{lead}{body}" for index, body in _bodies(text, elements, entries, span_of)]
    if not shown:
        return "[]"
    if indent is None and spans:
        shown = [shown[0].lstrip(), *(f" {body.lstrip()}" for body in shown[1:])]
    return f"[{','.join(shown)}{tail}"


def _past_comments(text: str, at: int) -> int:
    """The offset behind the blanks and comments at `at`."""
    found = re.compile(r"(?:\s|//[^\n]*|/\*.*?\*/|#[^\n]*)*", re.DOTALL).match(text, at)
    return found.end() if found else at


def _block_list(text: str, nodes: Sequence[YamlNode], entries: Sequence[Entry], span_of: SpanOf) -> str:
    """A list of lines that begin with hyphens; each record keeps the comment lines before it."""
    first = text.rfind("\n", 0, nodes[0].start) + 1
    margin = text[first : nodes[0].start].split("-")[0]
    elements: list[_Element] = []
    for node in nodes:
        end = text.find("\n", node.end)
        elements.append(
            _Element(elements[-1].end if elements else first, node.start, len(text) if end < 0 else end + 1)
        )
    shown = [body if index >= 0 else f"{margin}- {body}\n" for index, body in _bodies(text, elements, entries, span_of)]
    last = elements[-1].end
    if not shown:
        # The name of the field is at the end of the line above, perhaps with a comment.
        at = text.rfind(":", 0, first)
        return f"{text[: at + 1]} []{text[at + 1 : first]}{text[last:]}"
    shown = [body if body.endswith("\n") else f"{body}\n" for body in shown]
    return text[:first] + "".join(shown) + text[last:]
