"""Converts between protobuf messages and Connect values."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Mapping
from decimal import Decimal
from functools import lru_cache
from typing import Protocol

from google.protobuf.descriptor import Descriptor, EnumDescriptor, FieldDescriptor
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass

from kestrel_sql.errors import FormatError
from kestrel_sql.formats.connect.codec import SchemaCodec, replacing_halves
from kestrel_sql.formats.connect.schema import ConnectSchema, Kind
from kestrel_sql.formats.protobuf.schema import (
    DECIMAL,
    WELL_KNOWN,
    WRAPPERS,
    is_map,
    is_oneof,
    load,
    members,
    to_connect,
)
from kestrel_sql.java.numbers import EXACT, LONG_MAX, LONG_MIN

Convert = Callable[..., object]
Wrappers = Mapping[str, Kind]
"""The messages that stand for primitives, by full name."""

_MAX_UNSCALED = 512
_EPOCH = dt.date(1970, 1, 1).toordinal()


def open_codec(text: str, imports: Mapping[str, str], name: str | None, *, unwrap: bool = True) -> SchemaCodec:
    """Return the codec of a message of a protobuf schema, the first by default.

    `unwrap` makes google's wrapper messages primitives; else they are structs (rules F4.8.6).

    Raises:
        FormatError: the schema is invalid, or has no such message.
    """
    return _open(text, tuple(imports.items()), (load(text, imports).index_of(name),), unwrap)


def open_at(text: str, imports: Mapping[str, str], indexes: tuple[int, ...], *, unwrap: bool = True) -> SchemaCodec:
    """Return the codec of the message selected by the indexes of a frame, as `open_codec` does.

    Raises:
        FormatError: the schema is invalid, or has no such message.
    """
    return _open(text, tuple(imports.items()), indexes, unwrap)


@lru_cache(maxsize=256)
def _open(text: str, imports: tuple[tuple[str, str], ...], indexes: tuple[int, ...], unwrap: bool) -> SchemaCodec:
    wrappers = WRAPPERS if unwrap else {}
    schema = load(text, dict(imports))
    message = schema.at(indexes)
    factory = GetMessageClass(message)
    connect: ConnectSchema = to_connect(message, schema, wrappers)
    from_message, to_message = _message_reader(message, wrappers), _message_writer(message, wrappers)

    def read(body: bytes) -> object:
        return from_message(factory.FromString(body))

    def write(value: object) -> bytes:
        target = factory()
        to_message(value, target)
        data: bytes = target.SerializeToString(deterministic=True)
        return data

    return SchemaCodec(connect, read, replacing_halves(write))


def _message_reader(message: Descriptor, wrappers: Wrappers) -> Convert:
    name = message.full_name
    if name in wrappers:
        return lambda value: value.value
    if name == DECIMAL:
        return _read_decimal
    if name in WELL_KNOWN:
        return _READERS[WELL_KNOWN[name]]
    steps = [(each, _member_reader(parts, wrappers)) for each, parts in members(message)]

    def read(value: object) -> object:
        return {each: step(value) for each, step in steps}

    return read


def _member_reader(parts: list[FieldDescriptor], wrappers: Wrappers) -> Convert:
    real = parts[0].containing_oneof
    if real is not None and is_oneof(parts):
        oneof = real.name
        readers = {part.name: _field_reader(part, wrappers) for part in parts}

        def read_union(value: Message) -> dict[str, object] | None:
            chosen = value.WhichOneof(oneof)
            if chosen is None:
                return None
            return {name: read(value) if name == chosen else None for name, read in readers.items()}

        return read_union
    return _field_reader(parts[0], wrappers)


def _field_reader(field: FieldDescriptor, wrappers: Wrappers) -> Convert:
    name = field.name
    if field.message_type is not None and is_map(field):
        return _map_reader(name, field.message_type, wrappers)
    convert = _single_reader(field, wrappers)
    if field.is_repeated:
        if convert is None:
            return lambda value: list(getattr(value, name))
        return lambda value: [convert(item) for item in getattr(value, name)]
    if field.has_presence:
        if convert is None:
            return lambda value: getattr(value, name) if value.HasField(name) else None
        return lambda value: convert(getattr(value, name)) if value.HasField(name) else None
    if convert is None:
        return lambda value: getattr(value, name)
    return lambda value: convert(getattr(value, name))


def _single_reader(field: FieldDescriptor, wrappers: Wrappers) -> Convert | None:
    if field.message_type is not None:
        return _message_reader(field.message_type, wrappers)
    if field.enum_type is not None:
        names = {number: value.name for number, value in field.enum_type.values_by_number.items()}
        return lambda number: names.get(number, str(number))
    if field.type in (field.TYPE_UINT64, field.TYPE_FIXED64):
        # Java has no unsigned long; numbers from 2^63 are negative there.
        return lambda number: number - (1 << 64) if number > LONG_MAX else number
    return None


def _map_reader(name: str, entry: Descriptor, wrappers: Wrappers) -> Convert:
    key, value = entry.fields
    convert = _single_reader(value, wrappers)
    if entry.GetOptions().map_entry:
        return lambda owner: {k: v if convert is None else convert(v) for k, v in getattr(owner, name).items()}
    read_key, read_value = _field_reader(key, wrappers), _field_reader(value, wrappers)
    return lambda owner: {read_key(entry): read_value(entry) for entry in getattr(owner, name)}


class _Part(Protocol):
    def SetInParent(self) -> None: ...  # noqa: N802 - protobuf's name


class _Wrapper(_Part, Protocol):
    value: object


class _Decimal(Protocol):
    value: bytes
    precision: int
    scale: int


class _Date(Protocol):
    year: int
    month: int
    day: int


class _Time(_Part, Protocol):
    hours: int
    minutes: int
    seconds: int
    nanos: int


class _Timestamp(_Part, Protocol):
    seconds: int
    nanos: int


def _read_decimal(value: _Decimal) -> Decimal:
    if len(value.value) > _MAX_UNSCALED:
        raise ValueError(f"Decimal of {len(value.value)} bytes")
    return Decimal(int.from_bytes(value.value, "big", signed=True)).scaleb(-value.scale, EXACT)


def _read_date(value: _Date) -> int:
    return dt.date(value.year, value.month, value.day).toordinal() - _EPOCH


def _read_time(value: _Time) -> int:
    if not (0 <= value.hours < 24 and 0 <= value.minutes < 60 and 0 <= value.seconds < 60 and 0 <= value.nanos < 10**9):
        raise ValueError("Invalid time of day")
    return ((value.hours * 60 + value.minutes) * 60 + value.seconds) * 1000 + value.nanos // 1_000_000


def _read_timestamp(value: _Timestamp) -> int:
    millis = value.seconds * 1000 + value.nanos // 1_000_000
    if not LONG_MIN <= millis <= LONG_MAX:
        raise ValueError("Timestamp out of range")
    return millis


_READERS: dict[Kind, Convert] = {Kind.DATE: _read_date, Kind.TIME: _read_time, Kind.TIMESTAMP: _read_timestamp}

Fill = Callable[..., None]
"""Copies a Connect value, not None, into a message."""


def _message_writer(message: Descriptor, wrappers: Wrappers) -> Fill:
    name = message.full_name
    if name in wrappers:
        return _fill_wrapper
    if name == DECIMAL:
        return _fill_decimal
    if name in WELL_KNOWN:
        return _FILLS[WELL_KNOWN[name]]
    steps = [(each, _member_writer(parts, wrappers)) for each, parts in members(message)]

    def fill(value: dict[str, object], target: Message) -> None:
        target.SetInParent()
        for each, step in steps:
            member = value.get(each)
            if member is not None:
                step(member, target)

    return fill


def _member_writer(parts: list[FieldDescriptor], wrappers: Wrappers) -> Fill:
    if not is_oneof(parts):
        return _field_writer(parts[0], wrappers)
    writers = [(part.name, _field_writer(part, wrappers)) for part in parts]

    def fill_union(value: dict[str, object], target: object) -> None:
        for name, write in writers:
            if value.get(name) is not None:
                write(value[name], target)

    return fill_union


def _field_writer(field: FieldDescriptor, wrappers: Wrappers) -> Fill:
    name = field.name
    if field.message_type is not None and is_map(field):
        return _map_writer(name, field.message_type, wrappers)
    if field.message_type is not None:
        fill = _message_writer(field.message_type, wrappers)
        return (
            _repeated_messages(name, fill)
            if field.is_repeated
            else lambda value, target: fill(value, getattr(target, name))
        )
    convert = _enum_number(field.enum_type) if field.enum_type is not None else _scalar(field)
    if field.is_repeated:
        return lambda value, target: getattr(target, name).extend([convert(item) for item in value])
    return lambda value, target: setattr(target, name, convert(value))


def _enum_number(enum: EnumDescriptor) -> Convert:
    numbers = {name: value.number for name, value in enum.values_by_name.items()}

    def number_of(name: str) -> int:
        if name not in numbers:
            raise ValueError(f"{name} is not a value of {enum.name}")
        return numbers[name]

    return number_of


def _scalar(field: FieldDescriptor) -> Convert:
    if field.type in (field.TYPE_UINT64, field.TYPE_FIXED64):
        return lambda value: value & ((1 << 64) - 1)
    default = field.default_value
    # Protobuf has no null items in arrays; Connect writes the default of the type.
    return lambda value: default if value is None else value


def _repeated_messages(name: str, fill: Fill) -> Fill:
    # An empty message is the time 0, but no date.
    missing = 0 if fill is _fill_date else None

    def fill_all(value: list[object], target: object) -> None:
        items = getattr(target, name)
        for item in value:
            added, given = items.add(), missing if item is None else item
            if given is not None:
                fill(given, added)

    return fill_all


def _entries_writer(name: str, key: FieldDescriptor, value: FieldDescriptor, wrappers: Wrappers) -> Fill:
    write_key, write_value = _field_writer(key, wrappers), _field_writer(value, wrappers)

    def fill_entries(members_: dict[object, object], target: object) -> None:
        entries = getattr(target, name)
        for each, item in members_.items():
            entry = entries.add()
            if each is not None:
                write_key(each, entry)
            if item is not None:
                write_value(item, entry)

    return fill_entries


def _map_writer(name: str, entry: Descriptor, wrappers: Wrappers) -> Fill:
    key, value = entry.fields
    if not entry.GetOptions().map_entry:
        return _entries_writer(name, key, value, wrappers)
    if value.message_type is not None:
        fill = _message_writer(value.message_type, wrappers)

        def fill_messages(members_: dict[object, object], target: object) -> None:
            entries = getattr(target, name)
            for each, item in members_.items():
                if item is None:
                    raise FormatError("A protobuf map cannot hold a null message")
                fill(item, entries[each])

        return fill_messages
    convert = _enum_number(value.enum_type) if value.enum_type is not None else _scalar(value)

    def fill_scalars(members_: dict[object, object], target: object) -> None:
        entries = getattr(target, name)
        for each, item in members_.items():
            entries[each] = convert(item)

    return fill_scalars


def _fill_wrapper(value: object, target: _Wrapper) -> None:
    target.SetInParent()
    target.value = value


def _fill_decimal(value: Decimal, target: _Decimal) -> None:
    _, digits, exponent = value.as_tuple()
    scale = -int(exponent)
    unscaled = int(value.scaleb(scale, EXACT))
    target.value = unscaled.to_bytes((unscaled + (unscaled < 0)).bit_length() // 8 + 1, "big", signed=True)
    target.precision = len(digits)
    target.scale = scale


def _fill_date(value: int, target: _Date) -> None:
    date = dt.date.fromordinal(value + _EPOCH)
    target.year, target.month, target.day = date.year, date.month, date.day


def _fill_time(value: int, target: _Time) -> None:
    target.SetInParent()
    seconds, millis = divmod(value, 1000)
    target.hours, target.minutes, target.seconds, target.nanos = (
        seconds // 3600,
        seconds // 60 % 60,
        seconds % 60,
        millis * 1_000_000,
    )


def _fill_timestamp(value: int, target: _Timestamp) -> None:
    target.SetInParent()
    target.seconds, millis = divmod(value, 1000)
    target.nanos = millis * 1_000_000


_FILLS: dict[Kind, Fill] = {Kind.DATE: _fill_date, Kind.TIME: _fill_time, Kind.TIMESTAMP: _fill_timestamp}
