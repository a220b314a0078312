"""What two sides wrote: read with the formats of the sink, and how two records differ."""

from __future__ import annotations

import re
from collections.abc import Hashable, Iterable, Iterator, Mapping
from enum import Enum
from hashlib import blake2b
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from kestrel_sql.catalog.catalog import Source
from kestrel_sql.errors import SerdeError
from kestrel_sql.formats.registered.framing import split_frame
from kestrel_sql.formats.registered.languages import LANGUAGES
from kestrel_sql.formats.registry.memory import SchemaRegistry, canonical
from kestrel_sql.formats.serde import SerdeSpec
from kestrel_sql.formats.windowed_key import Window
from kestrel_sql.session.source_records import SourceRecords
from kestrel_sql.sql.nodes.statements import SourceKind
from kestrel_sql.topics.records import Headers

_KNOWN_KEYS = 50_000
_INDEX = re.compile(r"\[\d+\]")


class Absent(Enum):
    """Marks a column or record that one side does not have."""

    ABSENT = "absent"


ABSENT: Final = Absent.ABSENT


class Unreadable(msgspec.Struct, frozen=True):
    """Stands for a value that the formats of the sink cannot read."""

    data: bytes
    why: str


class Written(msgspec.Struct):
    """A record of a sink. `content` is what is compared before anything is decoded: value, timestamp and headers.

    `side` is 0 for the left and 1 for the right one, `arrived` (s) is when it was read.
    """

    side: int
    content: tuple[bytes | None, int, Headers]
    key: bytes | None
    value: bytes | None
    partition: int
    offset: int
    arrived: float
    form: Hashable = None


class Column(msgspec.Struct, frozen=True):
    """What differs between two records, as `value.ADDRESS.ZIP`."""

    name: str
    left: Any
    right: Any


class Reader(msgspec.Struct, frozen=True):
    """Reads the records of one side of a sink."""

    side: int
    records: SourceRecords
    _keys: dict[bytes, bytes] = {}
    _schemas: dict[bytes, bytes] = {}

    @staticmethod
    def of(side: int, source: Source, topic: str, registry: SchemaRegistry) -> Reader:
        """Make the reader of a topic that has the formats of a source."""
        view = registry.snapshot()
        return Reader(side, SourceRecords.of(replace(source, topic=topic), lambda spec: replace(spec, schemas=view)))

    @property
    def has_plain_keys(self) -> bool:
        """Whether equal keys have equal bytes on both sides: ids of schemas may differ."""
        return not _is_framed(self.records.key)

    def written(self, message: Any, arrived: float) -> Written:
        """Take a message of a consumer in."""
        # A result of many records has the headers of one of them.
        value, given = message.value(), None if self.records.source.kind is SourceKind.TABLE else message.headers()
        headers = () if given is None else tuple((name, text) for name, text in given)
        content = (self._without_id(value), message.timestamp()[1], headers)
        return Written(self.side, content, message.key(), value, message.partition(), message.offset(), arrived)

    def identity(self, key: bytes) -> bytes:
        """What a key is known by on both sides, with its window."""
        if self.has_plain_keys:
            return key
        found = self._keys.get(key)
        if found is None:
            if len(self._keys) > _KNOWN_KEYS:
                self._keys.clear()
            self._schema(key)
            found = self._keys[key] = repr(exact(self.key(key))).encode("utf-8", "surrogatepass")
        return found

    def key(self, data: bytes | None) -> tuple[Any, Window | None]:
        """A key and its window as JSON has them."""
        try:
            return self.records.key_to_json(data)
        except SerdeError as error:
            return Unreadable(data or b"", error.message), None

    def value(self, data: bytes | None) -> Any:
        """A value as JSON has it."""
        try:
            return self.records.value_to_json(data)
        except SerdeError as error:
            return Unreadable(data or b"", error.message)

    def _without_id(self, value: bytes | None) -> bytes | None:
        """The bytes of a value with its schema in place of the schema's id, which the other side may not share."""
        if value is None or not _is_framed(self.records.value):
            return value
        return self._schema(value) + value[5:]

    def _schema(self, data: bytes) -> bytes:
        """What stands for the schema whose id is in a frame.

        Raises:
            RegistryError: the registry does not answer, so that nothing can be said about the record.
        """
        found = self._schemas.get(data[:5])
        if found is None:
            try:
                schema = self.records.value.schemas.by_id[split_frame(data)[0]]
                found = blake2b(canonical(schema.format, schema.text).encode(), digest_size=8).digest()
            except (ValueError, KeyError):
                found = data[:5]
            self._schemas[data[:5]] = found
        return found


def _is_framed(spec: SerdeSpec) -> bool:
    return spec.format.format in LANGUAGES


def exact(value: object) -> Hashable:
    """Return what two values have in common only if they are the same, types and scales included."""
    match value:
        case Mapping():
            return tuple(sorted((str(name), exact(member)) for name, member in value.items()))
        case list() | tuple():
            return tuple(map(exact, value))
        case _:
            return repr(value)


def differing(left: object, right: object, name: str) -> Iterator[Column]:
    """Name the innermost columns in which two values differ."""
    match left, right:
        case (Mapping(), Mapping()):
            for member in {**left, **right}:
                yield from differing(left.get(member, ABSENT), right.get(member, ABSENT), f"{name}.{member}")
        case (list(), list()) if len(left) == len(right):
            for at, pair in enumerate(zip(left, right, strict=True)):
                yield from differing(*pair, f"{name}[{at}]")
        case _ if exact(left) != exact(right):
            yield Column(name, left, right)


def kind_of(columns: Iterable[Column]) -> str:
    """What differences in the same columns are counted under."""
    return ", ".join(dict.fromkeys(_INDEX.sub("", column.name) for column in columns))
