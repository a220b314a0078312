"""Check the final state of a case: sources and topics by "at least one matches" (rules Q10)."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator, Sequence
from decimal import Decimal
from typing import Literal

import msgspec

from kestrel_qtt.cases.model import ExpectedSource, ExpectedTopic, FormatInfo, Json, Post, SourceState, TopicState
from kestrel_qtt.judge.column_lists import canonical_columns


class Mismatch(msgspec.Struct, frozen=True):
    """A field of an expectation that does not hold: `value` is what holds, as a case file writes it."""

    text: str
    name: str
    value: Json


class PostDifference(msgspec.Struct, frozen=True):
    """An expectation of `post` that does not hold; `text` says so.

    `index` counts the expectations of its list. `fields` are those that differ, none if there is no such source or
    topic.
    """

    section: Literal["sources", "topics", "blacklist"]
    index: int
    text: str
    fields: tuple[Mismatch, ...] = ()


def post_differences(
    post: Post, sources: Sequence[SourceState], topics: Sequence[TopicState]
) -> Iterator[PostDifference]:
    """Yield the expectations of `post` that do not hold."""
    for index, expected in enumerate(post.sources):
        states = [source for source in sources if source.name == expected.name]
        wrong = [tuple(_source_differences(expected, source)) for source in states]
        if not wrong:
            yield PostDifference("sources", index, _missing("source", expected.name, [s.name for s in sources]))
        elif () not in wrong:
            yield PostDifference("sources", index, _text("source", expected.name, wrong[0]), wrong[0])
    hits = [topic.name for topic in topics if post.blacklist is not None and re.search(post.blacklist, topic.name)]
    if hits:
        yield PostDifference("blacklist", 0, f"post: the topics {', '.join(hits)} match the blacklist {post.blacklist}")
    for index, wanted in enumerate(post.topics):
        found = [topic for topic in topics if topic.name == wanted.name]
        bad = [tuple(_topic_differences(wanted, topic)) for topic in found]
        if not bad:
            yield PostDifference("topics", index, _missing("topic", wanted.name, [t.name for t in topics]))
        elif () not in bad:
            yield PostDifference("topics", index, _text("topic", wanted.name, bad[0]), bad[0])


def _text(what: str, name: str, wrong: Sequence[Mismatch]) -> str:
    return f"post: {what} {name}: {'; '.join(each.text for each in wrong)}"


def _missing(what: str, name: str, known: Sequence[str]) -> str:
    close = difflib.get_close_matches(name, known, n=1)
    hint = f"did you mean {close[0]}?" if close else f"there are {', '.join(known) or 'none'}"
    return f"post: there is no {what} {name}; {hint}"


def _source_differences(expected: ExpectedSource, source: SourceState) -> Iterator[Mismatch]:
    if expected.kind != source.kind.lower():
        yield Mismatch(f"type is {source.kind.lower()}, expected {expected.kind}", "type", source.kind.lower())
    yield from _schema_differences(expected.schema, source.schema)
    if expected.checks_key and expected.key_window != source.key_window:
        text = f"key window is {_window(source.key_window)}, expected {_window(expected.key_window)}"
        yield Mismatch(text, "keyFormat", _key_format(source))
    compared: tuple[tuple[str, str, object, object, Json], ...] = (
        ("key format", "keyFormat", expected.key_format, source.key_format, _key_format(source)),
        ("value format", "valueFormat", expected.value_format, source.value_format, source.value_format),
        ("key features", "keyFeatures", expected.key_features, source.key_features, _names(source.key_features)),
        (
            *("value features", "valueFeatures", expected.value_features),
            *(source.value_features, _names(source.value_features)),
        ),
        ("isSource", "isSource", expected.is_source, source.is_source, source.is_source),
    )
    for name, field, wanted, found, value in compared:
        if wanted is not None and wanted != found:
            yield Mismatch(f"{name} is {_plain(found)}, expected {_plain(wanted)}", field, value)


def _names(features: frozenset[str]) -> list[Json]:
    return [*sorted(features)]


def _key_format(source: SourceState) -> dict[str, Json]:
    kind, size = source.key_window
    window: dict[str, Json] = {"windowType": kind, "windowSize": size}
    return {"format": source.key_format, **{name: value for name, value in window.items() if value is not None}}


def _schema_differences(expected: str | None, actual: str) -> Iterator[Mismatch]:
    if expected is None:
        return
    try:
        wanted, found = canonical_columns(expected), canonical_columns(actual)
    except ValueError as error:
        yield Mismatch(str(error), "schema", actual)
        return
    if wanted != found:
        yield Mismatch(f"schema is\n    {found}\n  expected\n    {wanted}\n ", "schema", actual)


def _window(window: tuple[str | None, int | None]) -> str:
    kind, size = window
    return "absent" if kind is None and size is None else f"{kind} of {size} ms"


def _plain(value: object) -> str:
    return ", ".join(sorted(map(str, value))) or "none" if isinstance(value, frozenset) else str(value)


def _topic_differences(expected: ExpectedTopic, topic: TopicState) -> Iterator[Mismatch]:
    formats = (
        ("key format", "keyFormat", expected.key_format, topic.key_format),
        ("value format", "valueFormat", expected.value_format, topic.value_format),
    )
    for name, field, wanted, found in formats:
        if _whole(wanted) != _whole(found):
            yield Mismatch(f"{name} is {_whole(found)}, expected {_whole(wanted)}", field, _topic_format(found))
    ids = (
        ("key schema id", "keySchemaId", expected.key_schema_id, topic.key_schema_id),
        ("value schema id", "valueSchemaId", expected.value_schema_id, topic.value_schema_id),
    )
    for name, field, wanted_id, found_id in ids:
        if wanted_id != found_id:
            yield Mismatch(f"{name} is {found_id}, expected {wanted_id}", field, found_id)
    given: tuple[tuple[str, str, Json, Json], ...] = (
        ("partitions", "partitions", expected.partitions, topic.partitions),
        ("key schema", "keySchema", expected.key_schema, topic.key_schema),
        ("value schema", "valueSchema", expected.value_schema, topic.value_schema),
    )
    for name, field, wanted_value, found_value in given:
        if wanted_value is not None and _plain_schema(wanted_value) != _plain_schema(found_value):
            yield Mismatch(f"{name} is {found_value}, expected {wanted_value}", field, found_value)


def _topic_format(info: FormatInfo) -> dict[str, Json]:
    """Return a format as the topics of `post` give it; the size of its window is in seconds there."""
    members: dict[str, Json] = {"format": info.format}
    if info.properties:
        members["properties"] = dict(info.properties)
    if info.features:
        members["features"] = _names(info.features)
    if info.window_type is not None:
        size = None if info.window_size is None else Decimal(info.window_size) / 1000
        members["windowInfo"] = {"type": info.window_type, **({} if size is None else {"size": size})}
    return members


def _plain_schema(schema: Json) -> Json:
    """Return a schema in one form, without the parts that Kafka Connect adds when it writes a schema again."""
    match schema:
        case dict():
            plain = {k: _plain_schema(v) for k, v in schema.items() if not _is_added(k, v)}
            return plain["type"] if plain.keys() == {"type"} else plain
        case list():
            return [_plain_schema(item) for item in schema]
        case str():
            return re.sub(r"\s+", " ", schema).strip()
        case _:
            return schema


def _is_added(name: str, value: Json) -> bool:
    return name.startswith("connect.") or name == "title" or (name == "default" and value is None)


def _whole(info: FormatInfo) -> dict[str, object]:
    return {
        "format": info.format,
        "properties": dict(info.properties),
        "features": sorted(info.features),
        "window": _window((info.window_type, info.window_size)),
    }
