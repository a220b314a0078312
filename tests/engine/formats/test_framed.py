from __future__ import annotations

import contextlib
import json
import math
import random
from decimal import Decimal
from typing import Any

import pytest

from kestrel_sql.errors import EngineError, FormatError, SerdeError
from kestrel_sql.formats.record_json import from_json_form, to_json_form
from kestrel_sql.formats.registered.columns import columns_of, full_name_of
from kestrel_sql.formats.registry.memory import MemoryRegistry, RegistryView, SchemaFormat, SchemaReference
from kestrel_sql.formats.serde import Side
from kestrel_sql.formats.table import decoder, encoder
from kestrel_sql.types.schema import Column
from tests.engine.formats.samples import spec

LANGUAGE = {"AVRO": SchemaFormat.AVRO, "JSON_SR": SchemaFormat.JSON, "PROTOBUF": SchemaFormat.PROTOBUF}


def _registered_schema(
    format: str, schema: Any, subject: str = "topic-value", schema_id: int | None = None
) -> RegistryView:
    registry = MemoryRegistry()
    registry.register(
        subject, LANGUAGE[format], schema if isinstance(schema, str) else json.dumps(schema), schema_id=schema_id
    )
    return registry.snapshot()


def _record(*fields: dict[str, Any]) -> dict[str, Any]:
    return {"type": "record", "name": "R", "namespace": "n", "fields": list(fields)}


def _read(format: str, schema: Any, columns: str, value: Any, **options: Any) -> Any:
    made = spec(format, columns, schemas=_registered_schema(format, schema), **options)
    return decoder(made)(from_json_form(made, value))


def _column_text(columns: tuple[Column, ...] | None) -> str:
    return ", ".join(map(str, columns or ()))


def _columns(format: str, schema: Any, **options: Any) -> str:
    view = _registered_schema(format, schema)
    return _column_text(columns_of(view.by_id[1], Side.VALUE, view=view, **options))


@pytest.mark.rules("F4.6.1")
def test_writer_types_are_coerced() -> None:
    schema = _record(
        {"name": "a", "type": "long"},
        {"name": "b", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {"name": "c", "type": {"type": "enum", "name": "E", "symbols": ["X", "Y"]}},
        {"name": "d", "type": "float"},
        {"name": "unknown", "type": "int"},
    )
    value = {"A": 5, "B": 7, "C": "Y", "D": 1, "UNKNOWN": 1}
    assert _read("AVRO", schema, "A STRING, B BIGINT, C STRING, D DOUBLE, E INT", value) == ("5", 7, "Y", 1.0, None)


def test_a_type_without_a_coercion_is_rejected() -> None:
    with pytest.raises(SerdeError, match="Cannot deserialize type STRING as type INTEGER for path: ->A"):
        _read("AVRO", _record({"name": "A", "type": "string"}), "A INT", {"A": "1"})


def test_avro_unions_are_structs() -> None:
    schema = _record({"name": "U", "type": ["null", "int", "string"], "default": None})
    columns = "U STRUCT<`int` INT, `string` STRING>"
    assert _read("AVRO", schema, columns, {"U": {"int": 3}}) == ({"int": 3, "string": None},)
    assert _read("AVRO", schema, columns, {"U": {"string": "x"}}) == ({"int": None, "string": "x"},)
    assert _columns("AVRO", schema, keep_case=True) == "`U` STRUCT<`int` INTEGER, `string` STRING>"


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "record", "name": "R", "fields": [{"name": "next", "type": ["null", "R"]}]},
        {"type": "array", "items": "null"},
        {"type": "array", "items": {"type": "record", "name": "E", "fields": []}},
        "not json",
    ],
)
def test_invalid_avro_schemas(schema: Any) -> None:
    with pytest.raises(FormatError):
        _columns("AVRO", schema)


@pytest.mark.parametrize(
    "data", [b"", b"\x00", b"\x01\x00\x00\x00\x01", b"\x00\x00\x00\x00\x09", b"\x00\x00\x00\x00\x01"]
)
@pytest.mark.parametrize("format", ["AVRO", "JSON_SR", "PROTOBUF"])
def test_invalid_messages(format: str, data: bytes) -> None:
    with pytest.raises(SerdeError, match="Error deserializing message from topic: topic"):
        decoder(spec(format, "A INT"))(data)


def test_columns_of_avro() -> None:
    schema = _record(
        {"name": "a", "type": "float"},
        {"name": "b", "type": {"type": "map", "values": "long"}},
        {"name": "c", "type": {"type": "fixed", "name": "F", "size": 4}},
        {"name": "d", "type": {"type": "bytes", "logicalType": "decimal", "precision": 4, "scale": 2}},
        {"name": "e", "type": {"type": "record", "name": "In", "fields": [{"name": "x", "type": "int"}]}},
        {"name": "f", "type": {"type": "array", "items": "In"}},
    )
    assert _columns("AVRO", schema) == (
        "`A` DOUBLE, `B` MAP<STRING, BIGINT>, `C` BYTES, `D` DECIMAL(4, 2), `E` STRUCT<`X` INTEGER>, `F` "
        "ARRAY<STRUCT<`X` INTEGER>>"
    )
    assert _columns("AVRO", '"int"', unwrapped=True) == "`ROWVAL` INTEGER"
    view = _registered_schema("AVRO", schema)
    assert full_name_of(view.by_id[1]) == "n.R"


def test_columns_of_json_schema_follow_their_index() -> None:
    schema = {
        "type": "object",
        "properties": {
            "b": {"connect.index": 1, "oneOf": [{"type": "null"}, {"$ref": "#/definitions/T"}]},
            "a": {"connect.index": 0, "type": "integer", "connect.type": "int32"},
        },
        "definitions": {"T": {"type": "object", "properties": {"x": {"type": "number"}}}},
    }
    assert _columns("JSON_SR", schema) == "`A` INTEGER, `B` STRUCT<`X` DOUBLE>"


def test_json_properties_without_index_have_the_order_of_a_hash_map() -> None:
    schema = {
        "type": "object",
        "properties": {"ID": {"type": "string"}, "NAME": {"type": "string"}, "VALUE": {"type": "boolean"}},
    }
    assert _columns("JSON_SR", schema) == "`ID` STRING, `VALUE` BOOLEAN, `NAME` STRING"


def test_the_entries_of_a_json_map_are_found_by_name() -> None:
    entry = {"type": "object", "properties": {"key": {"type": "integer"}, "value": {"type": "string"}}}
    schema = {"type": "object", "properties": {"m": {"type": "array", "connect.type": "map", "items": entry}}}
    assert _columns("JSON_SR", schema) == "`M` MAP<STRING, STRING>"


@pytest.mark.parametrize(
    ("named", "columns"),
    [
        ({"name": "MapEntry", "namespace": "io.confluent.connect.avro"}, "`M` MAP<STRING, INTEGER>"),
        ({"name": "e", "connect.internal.type": "MapEntry"}, "`M` MAP<STRING, INTEGER>"),
        ({"name": "MapEntry"}, "`M` ARRAY<STRUCT<`KEY` STRING, `VALUE` INTEGER>>"),
    ],
)
def test_avro_entries_of_maps(named: dict[str, str], columns: str) -> None:
    entry = {"type": "record", **named, "fields": [{"name": "key", "type": "string"}, {"name": "value", "type": "int"}]}
    schema = {"type": "record", "name": "r", "fields": [{"name": "m", "type": {"type": "array", "items": entry}}]}
    assert _columns("AVRO", schema) == columns


PROTO = """
syntax = "proto3"; // comment
package p.q;
import "google/protobuf/wrappers.proto";
message First {
  enum Suit { SPADES = 0; CLUBS = 4; }
  Suit suit = 1; uint32 u = 2; float f = 3; google.protobuf.StringValue w = 4; map<string, int64> m = 5;
  repeated Inner items = 6; oneof pick { int32 one = 7; string two = 8; } optional int32 o = 9; uint64 big = 10;
  message Inner { bool flag = 1; }
  reserved 11, 12;
}
message Second { int32 only = 1; }
"""


def test_columns_of_protobuf() -> None:
    assert _columns("PROTOBUF", PROTO, full_name="p.q.First") == (
        "`SUIT` STRING, `U` BIGINT, `F` DOUBLE, `W` STRING, `M` MAP<STRING, BIGINT>, "
        "`ITEMS` ARRAY<STRUCT<`FLAG` BOOLEAN>>, `PICK_0` STRUCT<`ONE` INTEGER, `TWO` STRING>, `O` INTEGER, `BIG` BIGINT"
    )
    assert _columns("PROTOBUF", PROTO, full_name="p.q.Second") == "`ONLY` INTEGER"
    assert _columns("PROTOBUF", PROTO, full_name="p.q.Third") == ""


@pytest.mark.rules("F8.9")
def test_several_definitions_need_a_name() -> None:
    with pytest.raises(Exception, match=r"Value schema has multiple schema definitions.*VALUE_SCHEMA_FULL_NAME"):
        _columns("PROTOBUF", PROTO)


def test_protobuf_messages_round_trip() -> None:
    columns = (
        "SUIT STRING, U BIGINT, F DOUBLE, W STRING, M MAP<STRING, BIGINT>, PICK_0 STRUCT<ONE INT, TWO "
        "STRING>, O INT, BIG BIGINT"
    )
    value = {"SUIT": "CLUBS", "U": 2**32 - 1, "F": "1.1234", "M": {"k": 1}, "PICK_0": {"TWO": "x"}, "BIG": -1}
    assert _read("PROTOBUF", PROTO, columns, value) == (
        "CLUBS",
        2**32 - 1,
        1.1233999729156494,
        None,
        {"k": 1},
        {"ONE": None, "TWO": "x"},
        None,
        -1,
    )


@pytest.mark.rules("F4.8.1")
def test_the_frame_selects_the_message() -> None:
    made = spec("PROTOBUF", "ONLY INT", schemas=_registered_schema("PROTOBUF", PROTO), fullSchemaName="p.q.Second")
    data = from_json_form(made, {"only": 3})
    assert data == b"\x00\x00\x00\x00\x01\x02\x02\x08\x03"
    assert decoder(made)(data) == (3,)


def test_protobuf_wrapper_at_the_top_is_the_bare_value() -> None:
    schema = 'syntax = "proto3"; package google.protobuf; message StringValue { string value = 1; }'
    assert _columns("PROTOBUF", schema) == "`ROWVAL` STRING"
    assert _read("PROTOBUF", schema, "ROWVAL STRING", "x") == ("x",)


@pytest.mark.rules("F4.8.6")
def test_protobuf_wrappers_are_structs_without_unwrap_primitives() -> None:
    schema = (
        'syntax = "proto3"; import "google/protobuf/wrappers.proto"; message Tank '
        "{ google.protobuf.Int32Value a = 1; repeated google.protobuf.StringValue b = 2; "
        "map<string, google.protobuf.BoolValue> c = 3; }"
    )
    columns = "A STRUCT<`VALUE` INT>, B ARRAY<STRUCT<`VALUE` STRING>>, C MAP<STRING, STRUCT<`VALUE` BOOLEAN>>"
    value = {"a": {"value": 7}, "b": [{"value": "x"}], "c": {"k": {"value": True}}}
    structs = _read("PROTOBUF", schema, columns, value, unwrapPrimitives="false")
    assert _columns("PROTOBUF", schema, unwrap_primitives=False) == (
        "`A` STRUCT<`VALUE` INTEGER>, `B` ARRAY<STRUCT<`VALUE` STRING>>, `C` MAP<STRING, STRUCT<`VALUE` BOOLEAN>>"
    )
    assert structs == ({"VALUE": 7}, [{"VALUE": "x"}], {"k": {"VALUE": True}})
    primitives = _read("PROTOBUF", schema, "A INT, B ARRAY<STRING>, C MAP<STRING, BOOLEAN>", {"a": 7, "b": ["x"]})
    assert primitives == (7, ["x"], {})


def test_references_are_resolved() -> None:
    registry = MemoryRegistry()
    registry.register("e.proto", SchemaFormat.PROTOBUF, 'syntax = "proto3"; message Event { int64 ts = 1; }')
    text = 'syntax = "proto3"; import "e.proto"; message L { Event event = 1; }'
    registry.register("topic-value", SchemaFormat.PROTOBUF, text, (SchemaReference("e.proto", "e.proto", 1),))
    view = registry.snapshot()
    schema = view.latest_of("topic-value")
    assert schema is not None
    assert _column_text(columns_of(schema, Side.VALUE, view=view)) == "`EVENT` STRUCT<`TS` BIGINT>"


@pytest.mark.parametrize(
    ("nullable", "columns"), [("OPTIONAL", "A INT, B STRING"), ("WRAPPER", "A INT, B STRING, C BYTES")]
)
@pytest.mark.parametrize("format", ["PROTOBUF", "PROTOBUF_NOSR"])
def test_nullable_representations_keep_nulls(format: str, nullable: str, columns: str) -> None:
    made = spec(format, columns, nullableRepresentation=nullable)
    nulls = (None,) * len(made.columns)
    assert decoder(made)(encoder(made)(nulls)) == nulls


def _with_id(format: str, schema: Any, columns: str) -> Any:
    return spec(format, columns, schemas=_registered_schema(format, schema, schema_id=42), schemaId="42")


def test_rows_are_written_with_the_schema_of_an_id() -> None:
    schema = _record(
        {"name": "extra", "type": "string", "default": "d"},
        {"name": "A", "type": "int"},
        {"name": "o", "type": ["null", "int"]},
    )
    made = _with_id("AVRO", schema, "A INT")
    data = encoder(made)((5,))
    assert data is not None
    assert data[:5] == b"\x00\x00\x00\x00\x2a"
    assert to_json_form(made, data) == {"extra": "d", "A": 5, "o": None}
    with pytest.raises(SerdeError, match="null used for required field"):
        encoder(made)((None,))


def test_avro_names_have_no_dots_at_any_depth() -> None:
    made = spec("AVRO", "`a.b` INT, S STRUCT<`x.y` INT, L ARRAY<STRUCT<`z.z` INT>>>")
    row = (1, {"x.y": 2, "L": [{"z.z": 3}]})
    data = encoder(made)(row)
    assert data is not None
    assert to_json_form(made, data) == {"a_b": 1, "S": {"x_y": 2, "L": [{"z_z": 3}]}}
    assert decoder(made)(data) == row


def test_required_fields_without_default_fail() -> None:
    made = _with_id("AVRO", _record({"name": "A", "type": "int"}, {"name": "x", "type": "string"}), "A INT")
    with pytest.raises(SerdeError, match=r"Missing default value for required Avro field: \[x\]"):
        encoder(made)((5,))


def test_fields_missing_in_the_schema_fail() -> None:
    made = _with_id("AVRO", _record({"name": "A", "type": "int"}), "A INT, B INT")
    with pytest.raises(SerdeError, match="Schema from Schema Registry misses field with name: B"):
        encoder(made)((5, 6))


def test_the_generated_schema_has_its_registered_id() -> None:
    registry = MemoryRegistry()
    registry.register("other", SchemaFormat.AVRO, '"int"')
    registry.register("topic-value", SchemaFormat.AVRO, ' { "type" : "int" } ')
    made = spec("AVRO", "A INT", unwrapped=True, schemas=registry.snapshot())
    assert encoder(made)((1,)) == b"\x00\x00\x00\x00\x01\x02"
    assert encoder(spec("AVRO", "A INT", unwrapped=True))((1,)) == b"\x00\x00\x00\x00\x00\x02"


def test_connect_types_refine_only_their_own_json_type() -> None:
    properties = {"a": {"type": "string", "connect.type": "int32"}, "b": {"type": "string", "connect.type": "bytes"}}
    schema = {"type": "object", "properties": properties}
    assert _columns("JSON_SR", schema) == "`A` STRING, `B` BYTES"


DECIMAL = {
    "type": "number",
    "title": "org.apache.kafka.connect.data.Decimal",
    "connect.type": "bytes",
    "connect.parameters": {"scale": "2", "connect.decimal.precision": "4"},
}
INT32 = {"type": "integer", "connect.type": "int32"}
BINARY = {"type": "string", "connect.type": "bytes"}


def _dated(type: str, name: str) -> dict[str, str]:
    return {"type": type, "title": f"org.apache.kafka.connect.data.{name}", "connect.type": "int32"}


def _strings_to(item: dict[str, Any]) -> dict[str, Any]:
    return {"type": "object", "connect.type": "map", "additionalProperties": item}


@pytest.mark.rules("F4.5.6")
@pytest.mark.parametrize(
    ("column", "member", "value"),
    [
        ("BYTES", {**BINARY, "default": "AAE="}, b"\0\1"),
        ("DECIMAL(4,2)", {**DECIMAL, "default": 1.25}, Decimal("1.25")),
        ("DECIMAL(4,2)", {**DECIMAL, "default": "fQ=="}, Decimal("1.25")),
        ("INT", {**INT32, "default": 3000000000}, -1294967296),
        ("INT", {**INT32, "default": "x"}, 0),
        ("BIGINT", {"type": "integer", "default": 1.9}, 1),
        ("BOOLEAN", {"type": "boolean", "default": 1}, False),
        ("STRING", {"type": "boolean", "default": "true"}, "false"),
        ("STRING", {"enum": ["a", "b"], "default": "b"}, "b"),
        ("DOUBLE", {"type": "number", "connect.type": "float64", "default": "x"}, 0.0),
        ("DOUBLE", {"type": "number", "connect.type": "float64", "default": "NaN"}, 0.0),
        ("DOUBLE", {"type": "number", "connect.type": "float32", "default": 1e300}, math.inf),
        ("DATE", {**_dated("integer", "Date"), "default": 5}, 5),
        ("ARRAY<INT>", {"type": "array", "items": INT32, "default": [1, "x"]}, [1, 0]),
        ("ARRAY<INT>", {"type": "array", "items": INT32, "default": "x"}, []),
        ("ARRAY<DECIMAL(4,2)>", {"type": "array", "items": DECIMAL, "default": [1]}, [Decimal("1.00")]),
        ("MAP<STRING, INT>", {**_strings_to(INT32), "default": {"a": "b"}}, {"a": 0}),
        ("MAP<STRING, BYTES>", {**_strings_to(BINARY), "default": {"a": "AAE="}}, {"a": b"\0\1"}),
        ("STRUCT<X INT>", {"type": "object", "properties": {"X": {**INT32, "default": "x"}}}, None),
        ("INT", {"oneOf": [{"type": "null"}, INT32], "default": 3}, None),
        ("INT", {"oneOf": [{"type": "null"}, {**INT32, "default": 4.5}]}, 4),
        ("BIGINT", {"type": ["null", "integer"], "default": 3}, None),
    ],
)
def test_json_defaults_are_read_as_values_are(column: str, member: dict[str, Any], value: Any) -> None:
    schema = {"type": "object", "properties": {"A": member, "S": {"type": "object", "properties": {"A": member}}}}
    made = spec("JSON_SR", f"A {column}, S STRUCT<A {column}>", schemas=_registered_schema("JSON_SR", schema))
    header = b"\0\0\0\0\1"
    assert decoder(made)(header + b'{"S": {}}') == (value, {"A": value})
    assert decoder(made)(header + b'{"A": null}') == (value, None)


@pytest.mark.rules("F4.5.6")
@pytest.mark.parametrize(
    "member",
    [
        {**BINARY, "default": "%"},
        {**DECIMAL, "default": [1]},
        {**DECIMAL, "default": ""},
        {"type": "string", "default": 5},
        {**INT32, "default": None},
        {**_dated("integer", "Date"), "default": 1.5},
        {**_dated("integer", "Time"), "default": 86400001},
        {**_strings_to(INT32), "default": [1]},
        {"type": "array", "items": BINARY, "default": ["%"]},
        {"type": "array", "items": INT32, "default": [None]},
        {"type": "object", "properties": {"X": INT32}, "default": {"X": 1}},
    ],
)
def test_a_json_schema_with_an_invalid_default_is_refused(member: dict[str, Any]) -> None:
    schema = {"type": "object", "properties": {"A": member, "B": INT32}}
    with pytest.raises(FormatError, match="Invalid default value"):
        _columns("JSON_SR", schema)
    with pytest.raises(SerdeError, match="Invalid default value"):
        decoder(spec("JSON_SR", "B INT", schemas=_registered_schema("JSON_SR", schema)))(b'\0\0\0\0\1{"B": 1}')


@pytest.mark.rules("F4.5.7")
@pytest.mark.parametrize(
    ("column", "member", "given", "read"),
    [
        ("ARRAY<INT>", {"type": "array", "items": INT32}, '{"a": 1, "b": "x"}', [1, 0]),
        ("ARRAY<INT>", {"type": "array", "items": INT32}, "true", []),
        ("DOUBLE", {"type": "number", "connect.type": "float64"}, '"Infinity"', 0.0),
        ("DATE", _dated("integer", "Date"), "3", 3),
        ("DATE", _dated("integer", "Date"), "1.5", SerdeError),
        ("TIME", _dated("integer", "Time"), "86400001", SerdeError),
    ],
)
def test_json_values_of_another_kind(column: str, member: dict[str, Any], given: str, read: Any) -> None:
    schema = {"type": "object", "properties": {"A": member}}
    data = b'\0\0\0\0\1{"A": ' + given.encode() + b"}"
    made = spec("JSON_SR", f"A {column}", schemas=_registered_schema("JSON_SR", schema))
    if read is SerdeError:
        with pytest.raises(SerdeError):
            decoder(made)(data)
    else:
        assert decoder(made)(data) == (read,)


DECIMAL_BYTES = {"type": "bytes", "logicalType": "decimal", "precision": 4, "scale": 2}
ENTRY = {
    "type": "record",
    "name": "E",
    "connect.internal.type": "MapEntry",
    "fields": [{"name": "key", "type": "string"}, {"name": "value", "type": "bytes"}],
}
INNER = {"type": "record", "name": "I", "fields": [{"name": "X", "type": DECIMAL_BYTES, "default": "\u0001"}]}


@pytest.mark.rules("F4.7.6")
@pytest.mark.parametrize(
    ("schema", "default", "written"),
    [
        ("bytes", "\u00ff\u0100", b"\xff?"),
        ("double", 1, Decimal("1.0")),
        (DECIMAL_BYTES, "\u0001", Decimal("0.01")),
        ({"type": "fixed", "name": "F", "size": 1, "logicalType": "decimal", "scale": 2}, "\u0001", Decimal("0.01")),
        ({"type": "enum", "name": "C", "symbols": ["a", "b"]}, "b", "b"),
        ({"type": "array", "items": "bytes"}, ["\u0001"], [b"\1"]),
        ({"type": "array", "items": DECIMAL_BYTES}, ["\u0001"], [Decimal("0.01")]),
        ({"type": "array", "items": ["null", "int"]}, [1], [None]),
        ({"type": "array", "items": ["int", "null"]}, [1], [1]),
        ({"type": "map", "values": DECIMAL_BYTES}, {"a": "\u0001"}, {"a": Decimal("0.01")}),
        ({"type": "array", "items": ENTRY}, [{"key": "a", "value": "\u0001"}], {"a": b"\1"}),
        (INNER, {}, {"X": Decimal("0.01")}),
        (["int", "string"], "x", {"int": None, "string": "x"}),
        (["int", "null"], 5, None),
        ({"type": "int", "connect.default": 9}, None, 9),
    ],
)
def test_avro_defaults_are_written_as_values_are(schema: Any, default: Any, written: Any) -> None:
    made = _with_id(
        "AVRO", _record({"name": "A", "type": "int"}, {"name": "D", "type": schema, "default": default}), "A INT"
    )
    data = encoder(made)((5,))
    assert data is not None
    assert to_json_form(made, data) == {"A": 5, "D": written}


@pytest.mark.rules("F4.7.6")
@pytest.mark.parametrize(
    ("schema", "default"),
    [("int", "x"), ("int", 2**31), (DECIMAL_BYTES, ""), ({"type": "fixed", "name": "F", "size": 2}, "x"), (INNER, 1)],
)
def test_an_avro_schema_with_an_invalid_default_is_refused(schema: Any, default: Any) -> None:
    with pytest.raises(FormatError, match="Invalid default"):
        _columns("AVRO", _record({"name": "A", "type": schema, "default": default}))


TEXTS = {
    "AVRO": json.dumps(
        _record({"name": "U", "type": ["null", "int", {"type": "array", "items": "string"}], "default": None})
    ),
    "JSON_SR": (
        '{"type": "object","properties": {"a": {"oneOf": [{"type": "null"}, {"$ref": "#/properties/b"}]}, '
        '"b": {"type":"number"}}}'
    ),
    "PROTOBUF": PROTO,
}


@pytest.mark.parametrize("format", TEXTS)
def test_mutated_schemas_give_columns_or_a_user_error(format: str) -> None:
    dice = random.Random(7)
    for _ in range(500):
        text = list(TEXTS[format])
        for _ in range(dice.randint(1, 3)):
            at = dice.randrange(len(text))
            text[at : at + dice.choice((0, 1, 5))] = dice.choice(
                ("", "{", '"', "1", "é", "\ud800", "null", ";", "int", text[at - 1])
            )
        view = _registered_schema(format, "".join(text))
        with contextlib.suppress(EngineError):
            columns_of(view.by_id[1], Side.VALUE, full_name=None if format != "PROTOBUF" else "p.q.First", view=view)
