from __future__ import annotations

import json
from typing import Any

import pytest

from kestrel_sql.dataflow.ingestion import NO_VALUE, NULL_KEY, Message, MessageReader, message_reader
from kestrel_sql.errors import SerdeError
from kestrel_sql.formats.serde import SerdeSpec, Side
from kestrel_sql.formats.source_messages import canonical_json, message_decoder
from kestrel_sql.plan.ingestion import Envelope, IngestionSpec, MetadataColumn, MetadataItem
from kestrel_sql.plan.step import FormatInfo, Formats
from kestrel_sql.sql.parse.parser import parse_schema

TEXT = FormatInfo("TEXT")
NULL = "A header with key 'h' was not found in the message headers"


def reader(
    envelope: Envelope = Envelope.NONE,
    *metadata: MetadataColumn,
    schema: str = "K STRING KEY, V STRING",
    value: FormatInfo = TEXT,
    key_record: bool = False,
    inline_errors: bool = False,
    start_offsets: tuple[int, ...] = (),
) -> MessageReader:
    message_schema = parse_schema(schema)
    key = (
        FormatInfo("CSV")
        if len(message_schema.key) > 1
        else FormatInfo("TEXT")
        if message_schema.key
        else FormatInfo("NONE")
    )
    ingestion = IngestionSpec(
        envelope=envelope,
        formats=Formats(key, value),
        message_schema=message_schema,
        metadata=metadata,
        key_record=key_record,
        inline_errors=inline_errors,
        start_offsets=start_offsets,
    )
    return message_reader(
        ingestion,
        SerdeSpec(key, message_schema.key, side=Side.KEY, topic="t"),
        SerdeSpec(value, message_schema.value, topic="t"),
    )


def record(key: bytes | None = b"k", value: bytes | None = b"v", headers: Any = None, **more: Any) -> dict[str, Any]:
    return {"topic": "t", "part": 2, "off": 9, "ts": 77, "key": key, "value": value, "headers": headers, **more}


def header(key: str, value: bytes | None) -> dict[str, Any]:
    return {"key": key, "value": value}


def item(kind: MetadataItem, key: str | None = None) -> MetadataColumn:
    return MetadataColumn(item=kind, header_key=key)


def test_metadata_follow_the_value_in_the_order_written() -> None:
    items = (
        MetadataItem.TOPIC,
        MetadataItem.TIMESTAMP,
        MetadataItem.OFFSET,
        MetadataItem.PARTITION,
        MetadataItem.HEADERS,
    )
    made = reader(Envelope.NONE, *map(item, items)).read(record(headers=[header("a", None)]))
    assert made == Message(("k",), ("v", "t", 77, 9, 2, [{"KEY": "a", "VALUE": None}]))


@pytest.mark.parametrize(
    ("time", "expected"), [(-(10**15), None), (-1, -1), (8_210_266_876_799_999, 8_210_266_876_799_999), (2**62, None)]
)
def test_a_timestamp_out_of_range_is_null(time: int, expected: int | None) -> None:
    made = reader(Envelope.NONE, item(MetadataItem.TIMESTAMP)).read(record(ts=time))
    assert made.value == ("v", expected)


@pytest.mark.parametrize(
    ("headers", "value", "error"),
    [
        (None, None, None),
        ([], None, None),
        ([header("h", b"a"), header("h", b"b")], "b", None),
        ([header("h", None)], None, None),
        ([header("H", b"a")], None, NULL),
        ([header("h", b"\xc3\x28")], None, r"[c3, 28]"),
        ([header("h", b"")], "", None),
    ],
)
def test_one_header_as_text(headers: Any, value: str | None, error: str | None) -> None:
    made = reader(Envelope.NONE, item(MetadataItem.HEADER_TEXT, "h")).read(record(headers=headers))
    if error is None:
        assert made.value == ("v", value)
    else:
        assert error in (made.error or "")
        assert not made.is_row


def test_one_header_as_bytes_is_not_decoded() -> None:
    made = reader(Envelope.NONE, item(MetadataItem.HEADER_BYTES, "h")).read(record(headers=[header("h", b"\xc3\x28")]))
    assert made.value == ("v", b"\xc3\x28")


def test_envelope_none_accepts_null_keys_and_reports_missing_values() -> None:
    read = reader().read
    assert read(record(key=None)) == Message(None, ("v",))
    assert read(record(value=None)).error == f"value: {NO_VALUE}"
    assert read(record(key=None, value=None)) == Message(is_row=False)
    assert reader(schema="V STRING").read(record(value=None)) == Message(is_row=False)


def test_upsert_deletes_by_null_values_and_refuses_null_keys() -> None:
    read = reader(Envelope.UPSERT).read
    assert read(record()) == Message(("k",), ("v",))
    assert read(record(value=None)) == Message(("k",))
    assert read(record(key=None)) == Message(error=NULL_KEY, is_row=False)
    assert read(record(key=None, value=None)) == Message(is_row=False)


def test_upsert_deletes_the_row_of_a_value_that_cannot_be_read() -> None:
    made = reader(Envelope.UPSERT).read(record(value=b"\xff"))
    assert (made.key, made.value, made.is_row) == (("k",), None, True)
    assert "[ff]" in (made.error or "")


def test_inline_errors_come_with_null_columns_and_metadata() -> None:
    read = reader(Envelope.UPSERT, item(MetadataItem.OFFSET), inline_errors=True).read
    assert read(record()).value == ("v", None, 9)
    broken = read(record(value=b"\xff")).value
    assert broken is not None
    assert (broken[0], broken[2]) == (None, 9)
    assert broken[1]["DESCRIPTION"].startswith("Failed to decode TEXT: ")


def test_a_key_that_cannot_be_read_gives_no_row() -> None:
    made = reader(Envelope.UPSERT, inline_errors=True).read(record(key=b"\xff"))
    assert not made.is_row
    assert (made.error or "").startswith("key: Failed to decode TEXT")


def test_a_key_record_is_one_column() -> None:
    made = reader(schema="A STRING KEY, B STRING KEY, V STRING", key_record=True).read(record(key=b"x,y"))
    assert made.key == ({"A": "x", "B": "y"},)


def test_reading_starts_at_the_offsets_of_the_partitions() -> None:
    read = reader(start_offsets=(0, 0, 10)).read
    assert not read(record(off=9)).is_row
    assert read(record(off=10)).is_row
    assert read(record(off=0, part=5)).is_row


AVRO = json.dumps(
    {
        "type": "record",
        "name": "e",
        "fields": [
            {
                "name": "after",
                "type": ["null", {"type": "record", "name": "r", "fields": [{"name": "id", "type": "string"}]}],
            }
        ],
    }
)


def test_a_document_has_one_normal_form() -> None:
    assert (
        canonical_json('{ "b": 1.50, "a": [1e2, -0.0, null, "ü\\u0041"], "b": 2.0 }') == '{"a":[100,0,null,"üA"],"b":2}'
    )
    assert canonical_json("1e999999") == "1E+999999"


@pytest.mark.parametrize("text", ["", "{", "NaN", "[1,]", '"\\ud800"', "1 2"])
def test_invalid_documents(text: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        canonical_json(text)


def decoded(name: str, data: bytes, columns: str, **properties: str) -> Any:
    return message_decoder(SerdeSpec(FormatInfo(name, tuple(properties.items())), parse_schema(columns).value))(data)


def test_the_formats_of_messages() -> None:
    assert decoded("BYTES", b"\xff", "A BYTES") == (b"\xff",)
    assert decoded("CSV", b'a;"b;c";', "A STRING, B STRING, C STRING", delimiter=";") == ("a", "b;c", "")
    assert decoded("REGEX", b"from 10.0.0.1", "IP STRING, X STRING", pattern=r"(?P<ip>[\d.]+)( never)?") == (
        "10.0.0.1",
        None,
    )
    assert decoded("REGEX", b"nothing", "IP STRING", pattern=r"(\d+)") is None
    assert decoded("AVRO", b"\x00\x00\x00\x00\x07\x02\x04id", "AFTER STRUCT<ID STRING>", schema=AVRO) == ({"ID": "id"},)


@pytest.mark.parametrize(
    ("name", "data", "message"),
    [
        ("TEXT", b"\xc3\x28", r"Failed to decode TEXT: .*original bytes: \[c3, 28\]"),
        ("CSV", b"a,b", r"2 columns, 1 are declared.*original text: a,b"),
        ("JSON_DOCUMENT", b"{bad", r"Failed to decode JSON: .*original text: \{bad.*\[7b, 62, 61, 64\]"),
        ("AVRO", b"\x01", r"Failed to decode AVRO: "),
    ],
)
def test_bytes_that_a_format_cannot_read_are_quoted(name: str, data: bytes, message: str) -> None:
    with pytest.raises(SerdeError, match=message):
        decoded(name, data, "A STRING", **({"schema": AVRO} if name == "AVRO" else {}))


def test_a_pattern_without_end_is_an_error_of_the_message() -> None:
    with pytest.raises(SerdeError, match="Failed to decode REGEX"):
        decoded("REGEX", b"a" * 40, "A STRING", pattern="(a+)+$x")


def test_a_long_message_is_shortened_in_the_error() -> None:
    with pytest.raises(SerdeError) as caught:
        decoded("JSON_DOCUMENT", b"x" * 10_000, "A STRING")
    assert len(caught.value.message) < 1000
