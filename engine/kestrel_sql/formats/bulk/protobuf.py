"""PROTOBUF in bulk: messages with plain fields in the order of their numbers, as serializers write them."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from google.protobuf.descriptor import FieldDescriptor as Fd

from kestrel_sql.formats.bulk import varints as n
from kestrel_sql.formats.bulk.codec import Bytes, Numbers, require, text_of, valid_of, values_of
from kestrel_sql.formats.bulk.writer_schemas import Reader, as_columns, find_fields, framed_decoder
from kestrel_sql.formats.connect.schema import Kind
from kestrel_sql.formats.protobuf import generate as proto_text
from kestrel_sql.formats.protobuf import schema as proto_schema
from kestrel_sql.formats.registered.framing import GENERATED_ID, frame, sink_schema
from kestrel_sql.formats.registered.languages import LANGUAGES, Selector, write_varint
from kestrel_sql.formats.registry.memory import RegisteredSchema, SchemaFormat
from kestrel_sql.formats.serde import BulkDecoder, BulkEncoder, SerdeSpec
from kestrel_sql.types.sql_types import BIGINT, BOOLEAN, BYTES, DOUBLE, INTEGER, STRING, TIMESTAMP, SqlType

_VARINT, _FIXED64, _CONTENT, _FIXED32 = 0, 1, 2, 5
_SECONDS, _NANOS = b"\x08", b"\x10"
"""The tags of the fields of a Timestamp: seconds and nanoseconds."""

_MAX_SECONDS = 2**50


def decoder(spec: SerdeSpec, types: Sequence[pa.DataType]) -> BulkDecoder | None:
    """Return a decoder of framed records that hold the same message of one schema."""
    return framed_decoder(spec, "PROTOBUF", lambda schema, selector: _reader(spec, schema, selector, types))


def bare_decoder(spec: SerdeSpec, types: Sequence[pa.DataType]) -> BulkDecoder | None:
    """Return a decoder of PROTOBUF_NOSR: messages of the schema generated from the columns."""
    reader = None if spec.unwrapped else _reader(spec, _generated_schema(spec), (0,), types)
    return None if reader is None else lambda data: reader(data, b"")


def _generated_schema(spec: SerdeSpec) -> RegisteredSchema:
    text = proto_text.schema_text(
        spec.columns, spec.format.property("fullSchemaName"), spec.format.property("nullableRepresentation")
    )
    return RegisteredSchema(GENERATED_ID, SchemaFormat.PROTOBUF, text)


def _reader(
    spec: SerdeSpec, schema: RegisteredSchema, selector: Selector, types: Sequence[pa.DataType]
) -> Reader | None:
    loaded = proto_schema.load(schema.text, spec.schemas.imports_of(schema))
    message = loaded.at(selector)
    connect = proto_schema.to_connect(message, loaded)
    if connect.kind is not Kind.STRUCT or not all(_is_plain(field) for field in message.fields):
        return None
    positions = find_fields(spec.columns, connect.fields)
    if positions is None:
        return None
    sent = sorted(message.fields, key=lambda field: field.number)
    index_of = {field.name: at for at, field in enumerate(sent)}
    found = {at: index_of[connect.fields[position].name] for at, position in positions.items()}

    def read(data: pa.BinaryArray, header: bytes) -> list[pa.Array]:
        cursor = n.open_records(data)
        n.skip_header(cursor, header)
        arrays = [_field(cursor, field) for field in sent]
        require((cursor.at == cursor.end).all())
        return as_columns(len(data), types, arrays, found, _cast_array)

    return read


def _is_plain(field: Fd) -> bool:
    """Whether a field is a single number or string, or a Timestamp, and not part of a real oneof."""
    if field.is_repeated or proto_schema.is_oneof([field]):
        return False
    if field.message_type is not None:
        return bool(proto_schema.WELL_KNOWN.get(field.message_type.full_name) is Kind.TIMESTAMP)
    return field.type in _READERS


def _cast_array(array: pa.Array, kind: pa.DataType) -> pa.Array:
    return array if kind == array.type else pc.cast(array, kind)


def _tag(number: int, wire: int) -> bytes:
    """Return the tag of a field, the bytes before its value."""
    return write_varint(number << 3 | wire)


def _field(cursor: n.Cursor, field: Fd) -> pa.Array:
    """Read a field that comes next in some records and is missing in the others."""
    wire, read = (_CONTENT, _read_timestamp) if field.message_type is not None else _READERS[field.type]
    follows = _follows(cursor, _tag(field.number, wire))
    array = read(cursor) if follows.all() else n.read_some(cursor, follows, read)
    if field.type == Fd.TYPE_STRING:
        array = text_of(array)
    return array if field.has_presence or not array.null_count else array.fill_null(_default(array.type))


def _default(kind: pa.DataType) -> str | bytes | int:
    return "" if kind == pa.string() else b"" if kind == pa.binary() else False if kind == pa.bool_() else 0


def _follows(cursor: n.Cursor, tag: bytes) -> Numbers:
    """Return a mask of the records in which a tag comes next, and advance the cursor past it there."""
    follows = cursor.at + len(tag) <= cursor.end
    for offset, byte in enumerate(tag):
        # Padding follows the end of the content, and is longer than any tag.
        follows &= cursor.content[cursor.at + offset] == byte
    cursor.at[follows] += len(tag)
    return follows


def _read_timestamp(cursor: n.Cursor) -> pa.Array:
    lengths = n.read_varints(cursor).astype(np.int64)
    require((lengths >= 0).all() and (lengths <= cursor.end - cursor.at).all())
    inner = n.Cursor(cursor.content, cursor.at.copy(), cursor.at + lengths)
    seconds, nanos = _part(inner, _SECONDS), _part(inner, _NANOS)
    require(
        (inner.at == inner.end).all()
        # Not np.abs, which leaves the smallest number negative.
        and ((seconds > -_MAX_SECONDS) & (seconds < _MAX_SECONDS)).all()
        and ((nanos >= 0) & (nanos < 10**9)).all()
    )
    cursor.at += lengths
    return pa.array(seconds * 1000 + nanos // 1_000_000)


def _part(cursor: n.Cursor, tag: bytes) -> Numbers:
    (rows,) = np.nonzero(_follows(cursor, tag))
    part = cursor.of(rows)
    values = np.zeros(len(cursor.at), dtype=np.int64)
    values[rows] = n.read_varints(part).astype(np.int64)
    cursor.at[rows] = part.at
    return values


def _read_long(cursor: n.Cursor) -> pa.Array:
    return pa.array(n.read_varints(cursor).view(np.int64))


def _read_int(cursor: n.Cursor) -> pa.Array:
    return pa.array(n.read_varints(cursor).astype(np.uint32).view(np.int32))


def _read_content(cursor: n.Cursor) -> pa.Array:
    return n.read_content(cursor, n.read_varints(cursor).view(np.int64))


_READERS: dict[int, tuple[int, Callable[[n.Cursor], pa.Array]]] = {
    Fd.TYPE_BOOL: (_VARINT, lambda cursor: pa.array(n.read_varints(cursor) != 0)),
    Fd.TYPE_INT32: (_VARINT, _read_int),
    Fd.TYPE_INT64: (_VARINT, _read_long),
    Fd.TYPE_SINT64: (_VARINT, lambda cursor: pa.array(n.unzigzag(n.read_varints(cursor)))),
    Fd.TYPE_DOUBLE: (_FIXED64, lambda cursor: pa.array(n.read_fixed(cursor, "<f8"))),
    Fd.TYPE_SFIXED64: (_FIXED64, lambda cursor: pa.array(n.read_fixed(cursor, "<i8"))),
    Fd.TYPE_FLOAT: (_FIXED32, lambda cursor: pa.array(n.read_fixed(cursor, "<f4").astype(np.float64))),
    Fd.TYPE_SFIXED32: (_FIXED32, lambda cursor: pa.array(n.read_fixed(cursor, "<i4"))),
    Fd.TYPE_STRING: (_CONTENT, _read_content),
    Fd.TYPE_BYTES: (_CONTENT, _read_content),
}


_WRITABLE: dict[SqlType, int] = {
    BOOLEAN: Fd.TYPE_BOOL,
    INTEGER: Fd.TYPE_INT32,
    BIGINT: Fd.TYPE_INT64,
    DOUBLE: Fd.TYPE_DOUBLE,
    STRING: Fd.TYPE_STRING,
    BYTES: Fd.TYPE_BYTES,
    TIMESTAMP: Fd.TYPE_MESSAGE,
}


def encoder(spec: SerdeSpec, types: Sequence[pa.DataType]) -> BulkEncoder | None:
    """Return an encoder of plain columns for a framed message with the same fields."""
    language = LANGUAGES["PROTOBUF"]
    schema = sink_schema(spec)
    imports = spec.schemas.imports_of(schema)
    name = language.find_definition(schema.text, imports, spec.format.property("fullSchemaName"))
    return _encoder(spec, schema, name, frame(schema.id, language.write_selector(schema.text, imports, name)))


def bare_encoder(spec: SerdeSpec, types: Sequence[pa.DataType]) -> BulkEncoder | None:
    """Return an encoder of PROTOBUF_NOSR."""
    return None if spec.unwrapped else _encoder(spec, _generated_schema(spec), None, b"")


def _encoder(spec: SerdeSpec, schema: RegisteredSchema, name: str | None, before: bytes) -> BulkEncoder | None:
    fields = list(proto_schema.load(schema.text, spec.schemas.imports_of(schema)).message(name).fields)
    if [field.name for field in fields] != [column.name for column in spec.columns] or not all(map(_is_plain, fields)):
        return None
    if any(_WRITABLE.get(column.type) != field.type for column, field in zip(spec.columns, fields, strict=True)):
        return None
    header = pa.scalar(before, type=pa.binary())
    order = sorted(range(len(fields)), key=lambda at: fields[at].number)

    def encode(arrays: Sequence[pa.Array]) -> pa.BinaryArray:
        pieces = [piece for at in order for piece in _pieces(fields[at], arrays[at])]
        return pc.binary_join_element_wise(header, *pieces, pa.scalar(b"", type=pa.binary()))

    return encode


def _pieces(field: Fd, array: pa.Array) -> list[pa.Array]:
    present = valid_of(array)
    valid: Numbers = np.ones(len(array), dtype=bool) if present is None else present
    if field.message_type is not None:
        return _timestamp_pieces(field.number, values_of(array), valid)
    wire, _ = _READERS[field.type]
    tag = np.frombuffer(_tag(field.number, wire), dtype=np.uint8)
    if wire == _CONTENT:
        lengths = n.content_lengths(array)
        content = pc.cast(array, pa.binary())
        wanted = valid if field.has_presence else lengths > 0
        return [
            n.varint_pieces(lengths.view(np.uint64), tag, wanted, 0),
            content.fill_null(b"") if array.null_count else content,
        ]
    values = values_of(array)
    if wire == _FIXED64:
        require(not (np.signbit(values) & (values == 0)).any())
        return [n.fixed_pieces(values, "<f8", tag, valid if field.has_presence else valid & (values != 0), 0)]
    return _numbers(values, tag, valid if field.has_presence else valid & (values != 0))


def _numbers(values: Numbers, tag: Bytes, wanted: Numbers) -> list[pa.Array]:
    return [n.varint_pieces(values.astype(np.int64).view(np.uint64), tag, wanted, 0)]


def _timestamp_pieces(number: int, values: Numbers, valid: Numbers) -> list[pa.Array]:
    seconds, millis = np.divmod(values, 1000)
    (first,) = _numbers(seconds, np.frombuffer(_SECONDS, dtype=np.uint8), valid & (seconds != 0))
    (second,) = _numbers(millis * 1_000_000, np.frombuffer(_NANOS, dtype=np.uint8), valid & (millis != 0))
    lengths = n.content_lengths(first) + n.content_lengths(second)
    tag = np.frombuffer(_tag(number, _CONTENT), dtype=np.uint8)
    return [*_numbers(lengths, tag, valid), first, second]
