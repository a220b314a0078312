"""Builds protobuf descriptors from text in private pools, and converts them to Connect schemas (rules F4.8 and F8)."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache, lru_cache

import msgspec
from google.protobuf import any_pb2, descriptor_pb2, duration_pb2, empty_pb2, struct_pb2, timestamp_pb2, wrappers_pb2
from google.protobuf.descriptor import Descriptor, FieldDescriptor, FileDescriptor, OneofDescriptor
from google.protobuf.descriptor_pool import DescriptorPool
from google.type import date_pb2, timeofday_pb2  # type: ignore[import-untyped]

from kestrel_sql.errors import FormatError
from kestrel_sql.formats.connect.schema import MAX_DEPTH, MAX_PARTS, ConnectSchema, Kind, simple, struct_of
from kestrel_sql.formats.protobuf.proto_file import ProtoFile, parse

MAIN_FILE = "kestrel_main.proto"

WRAPPERS = {
    "google.protobuf.BoolValue": Kind.BOOLEAN,
    "google.protobuf.Int32Value": Kind.INT32,
    "google.protobuf.UInt32Value": Kind.INT64,
    "google.protobuf.Int64Value": Kind.INT64,
    "google.protobuf.UInt64Value": Kind.INT64,
    "google.protobuf.FloatValue": Kind.FLOAT32,
    "google.protobuf.DoubleValue": Kind.FLOAT64,
    "google.protobuf.StringValue": Kind.STRING,
    "google.protobuf.BytesValue": Kind.BYTES,
}
DECIMAL = "confluent.type.Decimal"
WELL_KNOWN = {
    "google.type.Date": Kind.DATE,
    "google.type.TimeOfDay": Kind.TIME,
    "google.protobuf.Timestamp": Kind.TIMESTAMP,
}

_KINDS = {
    FieldDescriptor.TYPE_DOUBLE: Kind.FLOAT64,
    FieldDescriptor.TYPE_FLOAT: Kind.FLOAT32,
    FieldDescriptor.TYPE_INT64: Kind.INT64,
    FieldDescriptor.TYPE_UINT64: Kind.INT64,
    FieldDescriptor.TYPE_INT32: Kind.INT32,
    FieldDescriptor.TYPE_FIXED64: Kind.INT64,
    FieldDescriptor.TYPE_FIXED32: Kind.INT64,
    FieldDescriptor.TYPE_BOOL: Kind.BOOLEAN,
    FieldDescriptor.TYPE_STRING: Kind.STRING,
    FieldDescriptor.TYPE_BYTES: Kind.BYTES,
    FieldDescriptor.TYPE_UINT32: Kind.INT64,
    FieldDescriptor.TYPE_SFIXED32: Kind.INT32,
    FieldDescriptor.TYPE_SFIXED64: Kind.INT64,
    FieldDescriptor.TYPE_SINT32: Kind.INT32,
    FieldDescriptor.TYPE_SINT64: Kind.INT64,
    FieldDescriptor.TYPE_ENUM: Kind.STRING,
}


class ProtoSchema(msgspec.Struct, frozen=True):
    """A file descriptor, and (precision, scale) of its decimal fields by message name and field number."""

    file: FileDescriptor
    decimals: Mapping[tuple[str, int], tuple[int, int]]

    @property
    def names(self) -> list[str]:
        """The full names of the top-level messages, in order."""
        return [message.full_name for message in self.file.message_types_by_name.values()]

    def index_of(self, name: str | None) -> int:
        """Return the index of the top-level message with that full name; 0 for None.

        Raises:
            FormatError: there is no such message.
        """
        names = self.names
        if not names or (name is not None and name not in names):
            raise FormatError(f"Schema has no message definition {name or ''}".rstrip())
        return 0 if name is None else names.index(name)

    def message(self, name: str | None) -> Descriptor:
        """Return the top-level message with that full name; the first one for None.

        Raises:
            FormatError: there is no such message.
        """
        return self.at((self.index_of(name),))

    def at(self, indexes: tuple[int, ...]) -> Descriptor:
        """Return the message selected by the indexes of a frame.

        Raises:
            FormatError: there is no such message.
        """
        messages = list(self.file.message_types_by_name.values())
        message: Descriptor | None = None
        for index in indexes or (0,):
            if not 0 <= index < len(messages):
                raise FormatError(f"Schema has no message at {list(indexes)}")
            message = messages[index]
            messages = list(message.nested_types)
        if message is None:
            raise FormatError("Schema has no messages")
        return message


def load(text: str, imports: Mapping[str, str]) -> ProtoSchema:
    """Return the descriptors of a schema and its imports; results are cached.

    Raises:
        FormatError: the text is not a schema, or an import is unknown.
    """
    return _load(text, tuple(imports.items()))


@lru_cache(maxsize=256)
def _load(text: str, imported: tuple[tuple[str, str], ...]) -> ProtoSchema:
    imports = dict(imported)
    pool, decimals = DescriptorPool(), dict[tuple[str, int], tuple[int, int]]()
    main = parse(text, MAIN_FILE)
    try:
        _add(pool, main, imports, decimals, set())
        return ProtoSchema(pool.FindFileByName(MAIN_FILE), decimals)
    except (TypeError, KeyError, ValueError) as error:
        raise FormatError(f"Not a protobuf schema: {error}") from error


def _add(
    pool: DescriptorPool,
    parsed: ProtoFile,
    imports: Mapping[str, str],
    decimals: dict[tuple[str, int], tuple[int, int]],
    added: set[str],
) -> None:
    added.add(parsed.descriptor.name)
    decimals.update(parsed.decimals)
    for name in parsed.descriptor.dependency:
        if name in added:
            continue
        if name in imports:
            _add(pool, parse(imports[name], name), imports, decimals, added)
        elif name in _known_files():
            _add_known(pool, _known_files()[name], added)
        else:
            raise FormatError(f"Protobuf schema imports an unknown file: {name}")
    pool.AddSerializedFile(parsed.descriptor.SerializeToString())


@cache
def _known_files() -> Mapping[str, FileDescriptor]:
    """The files that a schema may import without bringing them, by name."""
    # confluent-kafka imports its registry clients together with these: a sixth of all imports of a run.
    from confluent_kafka.schema_registry.confluent import meta_pb2
    from confluent_kafka.schema_registry.confluent.type import decimal_pb2

    modules = (
        *(any_pb2, descriptor_pb2, duration_pb2, empty_pb2, struct_pb2, timestamp_pb2, wrappers_pb2),
        *(date_pb2, timeofday_pb2),
        *(decimal_pb2, meta_pb2),
    )
    return {module.DESCRIPTOR.name: module.DESCRIPTOR for module in modules}


def _add_known(pool: DescriptorPool, file: FileDescriptor, added: set[str]) -> None:
    added.add(file.name)
    for needed in file.dependencies:
        if needed.name not in added:
            _add_known(pool, needed, added)
    pool.AddSerializedFile(file.serialized_pb)


def is_map(field: FieldDescriptor) -> bool:
    """Whether a repeated field is a map: protobuf's own, or Connect's messages `…Entry` with key and value."""
    message = field.message_type
    if not field.is_repeated or message is None:
        return False
    names = [each.name for each in message.fields]
    return bool(message.GetOptions().map_entry) or (message.name.endswith("Entry") and names == ["key", "value"])


def members(message: Descriptor) -> list[tuple[str, list[FieldDescriptor]]]:
    """Return the fields of a message by Connect name, in order; a real oneof is one member with all its fields."""
    result: list[tuple[str, list[FieldDescriptor]]] = []
    seen: set[str] = set()
    real = {oneof.name: f"{oneof.name}_{oneof.index}" for oneof in message.oneofs if not _is_synthetic(oneof)}
    for field in message.fields:
        oneof = field.containing_oneof
        if oneof is None or oneof.name not in real:
            result.append((field.name, [field]))
        elif oneof.name not in seen:
            seen.add(oneof.name)
            result.append((real[oneof.name], list(oneof.fields)))
    return result


def is_oneof(fields: list[FieldDescriptor]) -> bool:
    """Whether a member is a real oneof."""
    oneof = fields[0].containing_oneof
    return oneof is not None and not _is_synthetic(oneof)


def _is_synthetic(oneof: OneofDescriptor) -> bool:
    return len(oneof.fields) == 1 and oneof.name == f"_{oneof.fields[0].name}"


def to_connect(
    message: Descriptor, schema: ProtoSchema, wrappers: Mapping[str, Kind] = WRAPPERS, depth: int = 0
) -> ConnectSchema:
    """Return the Connect form of a message; `wrappers` are the messages that stand for primitives.

    Raises:
        FormatError: the message is recursive, too deep or too large.
    """
    if depth > MAX_DEPTH:
        raise FormatError("Protobuf schema is recursive or too deeply nested")
    if depth == 0 and _parts(message, {}) > MAX_PARTS:
        raise FormatError("Protobuf schema has too many parts")
    if message.full_name in wrappers:
        return ConnectSchema(wrappers[message.full_name], optional=True)
    fields: list[tuple[str, ConnectSchema]] = []
    for name, parts in members(message):
        if is_oneof(parts):
            union = struct_of((part.name, _field(part, schema, wrappers, depth).as_optional()) for part in parts)
            fields.append((name, union.as_optional()))
        else:
            fields.append((name, _field(parts[0], schema, wrappers, depth)))
    return struct_of(fields)


def _parts(message: Descriptor, counted: dict[str, int]) -> int:
    """Return the number of parts of a message; a nested message counts for each use, and is traversed once."""
    name = message.full_name
    if name not in counted:
        # A recursive message counts itself as one part here; `to_connect` rejects it for its depth.
        counted[name] = 1
        inner = (field.message_type for field in message.fields)
        counted[name] = 1 + sum(1 if part is None else _parts(part, counted) for part in inner)
    return counted[name]


def _field(field: FieldDescriptor, schema: ProtoSchema, wrappers: Mapping[str, Kind], depth: int) -> ConnectSchema:
    message = field.message_type
    if message is not None and is_map(field):
        key, value = (_single(part, schema, wrappers, depth) for part in message.fields)
        return ConnectSchema(Kind.MAP, optional=True, key=key, item=value.as_optional())
    single = _single(field, schema, wrappers, depth)
    if field.is_repeated:
        return ConnectSchema(Kind.ARRAY, optional=True, item=single)
    # Fields without presence write null as their default, so every field accepts null.
    return single.as_optional()


def _single(field: FieldDescriptor, schema: ProtoSchema, wrappers: Mapping[str, Kind], depth: int) -> ConnectSchema:
    message = field.message_type
    if message is None:
        return simple(_KINDS[field.type])
    if message.full_name == DECIMAL:
        owner = field.containing_type
        precision, scale = schema.decimals.get((owner.full_name if owner else "", field.number), (64, 0))
        return ConnectSchema(Kind.DECIMAL, optional=True, precision=precision, scale=scale)
    if message.full_name in WELL_KNOWN:
        return ConnectSchema(WELL_KNOWN[message.full_name], optional=True)
    return to_connect(message, schema, wrappers, depth + 1).as_optional()
