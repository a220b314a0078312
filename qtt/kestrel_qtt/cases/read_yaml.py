"""Read a YAML case file strictly: JSON values only, without the surprises of YAML."""

from __future__ import annotations

import re
from collections.abc import Iterator
from decimal import Decimal, InvalidOperation
from functools import partial
from typing import Any, Protocol

import msgspec
import yaml

from kestrel_qtt.cases.model import Json
from kestrel_qtt.cases.raw import JsonPath, RawFile, RawItem, TextError

_INTEGER = re.compile(r"-?(?:0|[1-9][0-9]*)")
_FRACTION = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?")
_WORDS: dict[str, Json] = {"null": None, "true": True, "false": False}
_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_TEXT_TAG = "tag:yaml.org,2002:str"
_RESOLVER: Any = yaml.resolver.Resolver()


class YamlNode(msgspec.Struct, frozen=True):
    """A value with its first and last line (from 1), and the nodes below it by field name or index.

    `start` and `end` are its offsets in the text; `flow` says that it is in brackets or braces.
    """

    value: Json
    line: int
    end_line: int
    column: int
    children: dict[str | int, YamlNode]
    start: int
    end: int
    flow: bool = False


def read_yaml(text: str) -> RawFile:
    """Read a case file; raise TextError for everything that JSON does not have."""
    root = parse_yaml(text)
    if not isinstance(root.value, dict):
        raise TextError(root.line, "a case file is one mapping with a list `tests`")
    head = {name: value for name, value in root.value.items() if name != "tests"}
    tests = root.children.get("tests")
    locate = partial(_locate, root)
    if tests is None or not isinstance(tests.value, list):
        return RawFile(root.value, None, locate)
    return RawFile(head, tuple(_item(node) for node in tests.children.values()), locate)


def parse_yaml(text: str) -> YamlNode:
    """Parse one YAML document into nodes.

    Raise TextError for aliases, anchors, tags, merge keys, duplicates and ambiguous words.
    """
    try:
        events = yaml.parse(text, Loader=_LOADER)
        return _document(events)
    except RecursionError as error:
        raise TextError(1, "values are nested too deeply") from error
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        # At the end of a text the mark may stand behind its last line.
        line = min(mark.line, text.count("\n")) + 1 if mark else 1
        raise TextError(line, str(error.problem or error.context)) from error
    except yaml.YAMLError as error:
        raise TextError(1, str(error)) from error


def _document(events: Iterator[yaml.Event]) -> YamlNode:
    next(events)
    first = next(events)
    if not isinstance(first, yaml.DocumentStartEvent):
        raise TextError(1, "the file is empty")
    root = _node(next(events), events)
    next(events)
    end = next(events)
    if not isinstance(end, yaml.StreamEndEvent):
        raise TextError(_marks(end)[0].line + 1, "a case file holds one YAML document")
    return root


class _Mark(Protocol):
    line: int
    column: int
    index: int


def _marks(event: yaml.Event) -> tuple[_Mark, _Mark]:
    assert event.start_mark is not None  # noqa: S101 - the parser sets both
    assert event.end_mark is not None  # noqa: S101
    return event.start_mark, event.end_mark


def _item(node: YamlNode) -> RawItem:
    locate = partial(_locate, node)
    return RawItem(node.value, locate(("name",)), locate, partial(_lines_of, node))


def _locate(node: YamlNode, path: JsonPath) -> int:
    for step in path:
        below = node.children.get(step)
        if below is None:
            break
        node = below
    return node.line


def _lines_of(node: YamlNode, member: str) -> list[int]:
    below = node.children.get(member)
    return [child.line for child in below.children.values()] if below else []


def _node(event: yaml.Event, events: Iterator[yaml.Event]) -> YamlNode:
    start, end = _marks(event)
    line = start.line + 1
    if isinstance(event, yaml.AliasEvent):
        raise TextError(line, f"aliases (*{event.anchor}) are not allowed: write the value out")
    assert isinstance(event, yaml.MappingStartEvent | yaml.SequenceStartEvent | yaml.ScalarEvent)  # noqa: S101
    if event.anchor is not None:
        raise TextError(line, f"anchors (&{event.anchor}) are not allowed: write the value out")
    if event.tag is not None and event.tag != "!":
        raise TextError(line, f"tags ({event.tag}) are not allowed")
    if isinstance(event, yaml.MappingStartEvent):
        return _mapping(event, events)
    if isinstance(event, yaml.SequenceStartEvent):
        return _sequence(event, events)
    value = event.value if event.style else _plain(event.value, line)
    return YamlNode(value, line, end.line + 1, start.column, {}, start.index, end.index)


def _mapping(start: yaml.MappingStartEvent, events: Iterator[yaml.Event]) -> YamlNode:
    children: dict[str | int, YamlNode] = {}
    while not isinstance(event := next(events), yaml.MappingEndEvent):
        name = _name(event)
        if name in children:
            raise TextError(_marks(event)[0].line + 1, f"the member {name!r} occurs twice in one mapping")
        children[name] = _node(next(events), events)
    value = {str(name): child.value for name, child in children.items()}
    return _collection(start, event, value, children)


def _name(event: yaml.Event) -> str:
    line = _marks(event)[0].line + 1
    if not isinstance(event, yaml.ScalarEvent):
        raise TextError(line, "a member name is a single word")
    if event.anchor is not None or (event.tag is not None and event.tag != "!"):
        raise TextError(line, "anchors and tags are not allowed")
    if event.value == "<<" and not event.style:
        raise TextError(line, "merge keys (<<) are not allowed: write the members out")
    return str(event.value)


def _sequence(start: yaml.SequenceStartEvent, events: Iterator[yaml.Event]) -> YamlNode:
    children: dict[str | int, YamlNode] = {}
    while not isinstance(event := next(events), yaml.SequenceEndEvent):
        children[len(children)] = _node(event, events)
    return _collection(start, event, [child.value for child in children.values()], children)


def _collection(
    start: yaml.CollectionStartEvent, end: yaml.Event, value: Json, children: dict[str | int, YamlNode]
) -> YamlNode:
    # A block collection "ends" only where the next token starts, blank lines and comments included.
    below = next(reversed(children.values())) if children and not start.flow_style else None
    mark, (_, behind) = _marks(start)[0], _marks(end)
    last = below.end_line if below else behind.line + 1
    stop = below.end if below else behind.index
    return YamlNode(value, mark.line + 1, last, mark.column, children, mark.index, stop, bool(start.flow_style))


def _plain(text: str, line: int) -> Json:
    if text in _WORDS:
        return _WORDS[text]
    try:
        if _INTEGER.fullmatch(text):
            return int(text)
        if _FRACTION.fullmatch(text):
            return Decimal(text)
    except (ValueError, InvalidOperation) as error:
        raise TextError(line, f"the number {text[:40]} is out of range") from error
    if _RESOLVER.resolve(yaml.ScalarNode, text, (True, False)) != _TEXT_TAG:
        shown = f"`{text}`" if text else "an empty value"
        raise TextError(
            line, f"{shown} does not mean the same in JSON: write null, true, false or a JSON number, or quote it"
        )
    return text
