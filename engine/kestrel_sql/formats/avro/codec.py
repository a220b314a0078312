"""Converts between Avro bodies and Connect values; it uses fastavro without its logical types."""

from __future__ import annotations

import io
from collections.abc import Callable, Mapping
from decimal import Decimal
from functools import lru_cache

import fastavro

from kestrel_sql.errors import FormatError
from kestrel_sql.formats.avro.schema import parse_text, to_connect
from kestrel_sql.formats.avro.unions import AvroBranch, AvroObject, AvroSchema, branch_name, branches_of, is_map_entry
from kestrel_sql.formats.connect.codec import SchemaCodec, replacing_halves
from kestrel_sql.formats.connect.schema import ConnectSchema
from kestrel_sql.formats.serde import ConversionError, of_items, of_members
from kestrel_sql.java.numbers import EXACT, INT_MAX, INT_MIN

Convert = Callable[..., object]
"""Converts a value, not None, between fastavro's form and Connect's; None in its place means no conversion."""

_Bare = str | list[object] | dict[str, object]
_MAX_UNSCALED = 512
_PYTHON_TYPES = {
    "boolean": bool,
    "int": int,
    "long": int,
    "float": float,
    "double": float,
    "string": str,
    "enum": str,
    "bytes": bytes,
    "fixed": bytes,
    "record": dict,
    "map": dict,
    "array": list,
}


def open_codec(text: str, imports: Mapping[str, str], name: str | None) -> SchemaCodec:
    """Return the codec of an Avro schema; codecs are cached.

    Raises:
        FormatError: the schema is invalid or recursive, or has an array whose items take no bytes.
    """
    return _open(text, tuple(imports.items()))


@lru_cache(maxsize=256)
def _open(text: str, imports: tuple[tuple[str, str], ...]) -> SchemaCodec:
    resolved = parse_text(text, dict(imports))
    connect, parsed = _checked(resolved)
    read_raw = fastavro.schemaless_reader
    write_raw = fastavro.schemaless_writer
    from_raw, to_raw = _reader(resolved), _writer(resolved)

    def read(body: bytes) -> object:
        try:
            value = read_raw(io.BytesIO(body), parsed, None, handle_unicode_errors="replace")
        except (EOFError, IndexError):
            # fastavro's messages contain memory addresses, so equal errors would have different log entries.
            raise ValueError("The message ends too early, or selects a branch that its schema does not have") from None
        return value if value is None or from_raw is None else from_raw(value)

    def write(value: object) -> bytes:
        out = io.BytesIO()
        write_raw(out, parsed, value if value is None or to_raw is None else to_raw(value))
        return out.getvalue()

    return SchemaCodec(connect, read, replacing_halves(write))


def _checked(resolved: AvroSchema) -> tuple[ConnectSchema, _Bare]:
    """Return the Connect and fastavro forms of a schema. Schemas come from users, so any failure is a FormatError."""
    try:
        _refuse_empty_items(resolved)
        return to_connect(resolved), fastavro.parse_schema(_bare(resolved, set()))
    except FormatError:
        raise
    except Exception as error:
        raise FormatError(f"Not an Avro schema: {error}") from error


def _bare(schema: AvroSchema, seen: set[str]) -> _Bare:
    """Drop logical types, defaults and metadata from a schema; repeated definitions become names."""
    if isinstance(schema, list):
        return [_bare(branch, seen) for branch in schema]
    if isinstance(schema, str):
        return schema
    kind = schema["type"]
    if kind == "array":
        return {"type": kind, "items": _bare(schema["items"], seen)}
    if kind == "map":
        return {"type": kind, "values": _bare(schema["values"], seen)}
    if kind not in ("record", "enum", "fixed"):
        return kind
    name = schema["name"]
    if name in seen:
        return name
    seen.add(name)
    if kind == "record":
        return {
            "type": kind,
            "name": name,
            "fields": [{"name": f["name"], "type": _bare(f["type"], seen)} for f in schema["fields"]],
        }
    return {key: value for key, value in schema.items() if key in ("type", "name", "symbols", "size")}


def _is_empty(schema: AvroSchema) -> bool:
    if isinstance(schema, (str, list)):
        return schema == "null"
    kind = schema["type"]
    if kind == "record":
        return all(_is_empty(field["type"]) for field in schema["fields"])
    return bool(kind == "null" or (kind == "fixed" and schema["size"] == 0))


def _refuse_empty_items(schema: AvroSchema | None) -> None:
    """Reject arrays whose items take no bytes: a few bytes could declare an endless number of items."""
    if isinstance(schema, list):
        for branch in schema:
            _refuse_empty_items(branch)
    elif isinstance(schema, dict):
        if schema["type"] == "array" and _is_empty(schema["items"]):
            raise FormatError("Avro arrays of items that take no bytes are not supported")
        for part in (schema.get("items"), schema.get("values"), *(field["type"] for field in schema.get("fields", ()))):
            _refuse_empty_items(part)


def _reader(schema: AvroSchema) -> Convert | None:
    if isinstance(schema, list):
        branches, _ = branches_of(schema)
        return _reader(branches[0]) if len(branches) == 1 else _union_reader(branches)
    if isinstance(schema, str):
        return _read_int if schema == "int" else None
    match schema["type"]:
        case "int":
            return _read_int
        case "array" if is_map_entry(schema["items"]):
            return _entries_reader(_reader(schema["items"]["fields"][1]["type"]))
        case "array":
            return of_items(_reader(schema["items"]))
        case "map":
            return of_members(_reader(schema["values"]))
        case "record":
            return _record([(field["name"], _reader(field["type"])) for field in schema["fields"]])
        case "bytes" | "fixed" if schema.get("logicalType") == "decimal":
            return _decimal_reader(int(schema.get("scale", 0)))
        case _:
            return None


def _writer(schema: AvroSchema) -> Convert | None:
    if isinstance(schema, list):
        branches, _ = branches_of(schema)
        return _writer(branches[0]) if len(branches) == 1 else _union_writer(branches)
    if isinstance(schema, str):
        return None
    match schema["type"]:
        case "array" if is_map_entry(schema["items"]):
            return _entries_writer(_writer(schema["items"]["fields"][1]["type"]))
        case "array":
            return of_items(_writer(schema["items"]))
        case "map":
            return of_members(_writer(schema["values"]))
        case "record":
            return _record([(field["name"], _writer(field["type"])) for field in schema["fields"]])
        case "bytes" if schema.get("logicalType") == "decimal":
            return _decimal_writer(schema, None)
        case "fixed" if schema.get("logicalType") == "decimal":
            return _decimal_writer(schema, int(schema["size"]))
        case _:
            return None


def _record(fields: list[tuple[str, Convert | None]]) -> Convert | None:
    steps = [(name, convert) for name, convert in fields if convert is not None]
    if not steps:
        return None

    def change(record: dict[str, object]) -> dict[str, object]:
        changed = dict(record)
        for name, convert in steps:
            value = changed.get(name)
            if value is not None:
                changed[name] = convert(value)
        return changed

    return change


def _entries_reader(convert: Convert | None) -> Convert:
    def read(entries: list[dict[str, object]]) -> dict[object, object]:
        if convert is None:
            return {entry["key"]: entry["value"] for entry in entries}
        return {entry["key"]: None if entry["value"] is None else convert(entry["value"]) for entry in entries}

    return read


def _entries_writer(convert: Convert | None) -> Convert:
    def write(members: dict[object, object]) -> list[dict[str, object]]:
        if convert is None:
            return [{"key": key, "value": value} for key, value in members.items()]
        return [{"key": key, "value": None if value is None else convert(value)} for key, value in members.items()]

    return write


def _read_int(value: int) -> int:
    if INT_MIN <= value <= INT_MAX:
        return value
    raise ValueError("Invalid int encoding")


def _decimal_reader(scale: int) -> Convert:
    def read(data: bytes) -> Decimal:
        if len(data) > _MAX_UNSCALED:
            raise ValueError(f"Decimal of {len(data)} bytes")
        return Decimal(int.from_bytes(data, "big", signed=True)).scaleb(-scale, EXACT)

    return read


def _decimal_writer(schema: AvroObject, size: int | None) -> Convert:
    scale, most = int(schema.get("scale", 0)), int(schema.get("precision", 64))

    def write(value: Decimal) -> bytes:
        unscaled = int(value.scaleb(scale, EXACT).to_integral_exact(context=EXACT))
        if abs(unscaled) >= 10**most:
            raise ConversionError(
                f"Cannot encode decimal with precision {len(str(abs(unscaled)))} as max precision {most}"
            )
        width = size if size is not None else (unscaled + (unscaled < 0)).bit_length() // 8 + 1
        return unscaled.to_bytes(width, "big", signed=True)

    return write


def _union_reader(branches: list[AvroBranch]) -> Convert:
    names = [branch_name(branch) for branch in branches]
    plan = [(_python_type(branch), name, _reader(branch)) for branch, name in zip(branches, names, strict=True)]

    def read(value: object) -> dict[str, object]:
        members: dict[str, object] = dict.fromkeys(names)
        for kind, name, convert in plan:
            if type(value) is kind:
                members[name] = value if convert is None else convert(value)
                return members
        raise ConversionError(f"No branch of the union fits {type(value).__name__}")

    return read


def _union_writer(branches: list[AvroBranch]) -> Convert:
    plan = [(branch_name(branch), _writer(branch)) for branch in branches]

    def write(value: dict[str, object]) -> object:
        for name, convert in plan:
            member = value.get(name)
            if member is not None:
                return member if convert is None else convert(member)
        return None

    return write


def _python_type(branch: AvroBranch) -> type:
    kind = branch if isinstance(branch, str) else branch["type"]
    return _PYTHON_TYPES[kind]
