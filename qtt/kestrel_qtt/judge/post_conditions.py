"""Check the final state of a case: sources and topics by "at least one matches" (rules Q10)."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator, Sequence

from kestrel_qtt.cases.model import ExpectedSource, ExpectedTopic, FormatInfo, Json, Post, SourceState, TopicState
from kestrel_qtt.judge.column_lists import canonical_columns


def post_failures(post: Post, sources: Sequence[SourceState], topics: Sequence[TopicState]) -> list[str]:
    """Return the expectations of `post` that do not hold, one message each."""
    failures = [text for expected in post.sources if (text := _source_failure(expected, sources))]
    if post.blacklist is not None:
        hits = [topic.name for topic in topics if re.search(post.blacklist, topic.name)]
        if hits:
            failures.append(f"post: the topics {', '.join(hits)} match the blacklist {post.blacklist}")
    return failures + [text for expected in post.topics if (text := _topic_failure(expected, topics))]


def _source_failure(expected: ExpectedSource, sources: Sequence[SourceState]) -> str | None:
    named = [source for source in sources if source.name == expected.name]
    if not named:
        return _missing("source", expected.name, [s.name for s in sources])
    wrong = [list(_source_differences(expected, source)) for source in named]
    return None if [] in wrong else f"post: source {expected.name}: {'; '.join(wrong[0])}"


def _missing(what: str, name: str, known: Sequence[str]) -> str:
    close = difflib.get_close_matches(name, known, n=1)
    hint = f"did you mean {close[0]}?" if close else f"there are {', '.join(known) or 'none'}"
    return f"post: there is no {what} {name}; {hint}"


def _source_differences(expected: ExpectedSource, source: SourceState) -> Iterator[str]:
    if expected.kind != source.kind.lower():
        yield f"type is {source.kind.lower()}, expected {expected.kind}"
    yield from _schema_differences(expected.schema, source.schema)
    if expected.checks_key and expected.key_window != source.key_window:
        yield f"key window is {_window(source.key_window)}, expected {_window(expected.key_window)}"
    compared = (
        ("key format", expected.key_format, source.key_format),
        ("value format", expected.value_format, source.value_format),
        ("key features", expected.key_features, source.key_features),
        ("value features", expected.value_features, source.value_features),
        ("isSource", expected.is_source, source.is_source),
    )
    for name, wanted_value, found_value in compared:
        if wanted_value is not None and wanted_value != found_value:
            yield f"{name} is {_plain(found_value)}, expected {_plain(wanted_value)}"


def _schema_differences(expected: str | None, actual: str) -> Iterator[str]:
    if expected is None:
        return
    try:
        wanted, found = canonical_columns(expected), canonical_columns(actual)
    except ValueError as error:
        yield str(error)
        return
    if wanted != found:
        yield f"schema is\n    {found}\n  expected\n    {wanted}\n "


def _window(window: tuple[str | None, int | None]) -> str:
    kind, size = window
    return "absent" if kind is None and size is None else f"{kind} of {size} ms"


def _plain(value: object) -> str:
    return ", ".join(sorted(map(str, value))) or "none" if isinstance(value, frozenset) else str(value)


def _topic_failure(expected: ExpectedTopic, topics: Sequence[TopicState]) -> str | None:
    named = [topic for topic in topics if topic.name == expected.name]
    if not named:
        return _missing("topic", expected.name, [t.name for t in topics])
    wrong = [list(_topic_differences(expected, topic)) for topic in named]
    return None if [] in wrong else f"post: topic {expected.name}: {'; '.join(wrong[0])}"


def _topic_differences(expected: ExpectedTopic, topic: TopicState) -> Iterator[str]:
    formats = (
        ("key format", expected.key_format, topic.key_format),
        ("value format", expected.value_format, topic.value_format),
    )
    for name, wanted, found in formats:
        if _whole(wanted) != _whole(found):
            yield f"{name} is {_whole(found)}, expected {_whole(wanted)}"
    ids = (
        ("key schema id", expected.key_schema_id, topic.key_schema_id),
        ("value schema id", expected.value_schema_id, topic.value_schema_id),
    )
    for name, wanted_id, found_id in ids:
        if wanted_id != found_id:
            yield f"{name} is {found_id}, expected {wanted_id}"
    given = (
        ("partitions", expected.partitions, topic.partitions),
        ("key schema", expected.key_schema, topic.key_schema),
        ("value schema", expected.value_schema, topic.value_schema),
    )
    for name, wanted_value, found_value in given:
        if wanted_value is not None and _plain_schema(wanted_value) != _plain_schema(found_value):
            yield f"{name} is {found_value}, expected {wanted_value}"


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
