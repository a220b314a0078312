from __future__ import annotations

from base64 import b64encode
from typing import Any

import pyarrow as pa
import pytest
from msgspec.structs import replace

from kestrel_sql.dataflow.graph import SinkWrite, SourceRead
from kestrel_sql.dataflow.relation import KeyCodec, Relation
from kestrel_sql.formats.serde import SerdeSpec, Side
from kestrel_sql.plan.step import FormatInfo, WindowInfo, WindowType
from kestrel_sql.spark.envelope import HEADERS, LOG
from kestrel_sql.spark.io.topics import ARROW_INPUT, decode_batches, encode_batches
from kestrel_sql.types import sql_types as t
from kestrel_sql.types.schema import Column, Role, Schema

KEY = (Column("K", t.STRING, Role.KEY),)
VALUE = (Column("A", t.INTEGER),)
HEADER = Column("H", t.BYTES, Role.HEADERS, "trace")
ADDED = (
    Column("H", t.BYTES),
    Column("ROWTIME", t.BIGINT),
    Column("ROWPARTITION", t.INTEGER),
    Column("ROWOFFSET", t.BIGINT),
    Column("K", t.STRING),
)


def relation(columns: tuple[Column, ...], window: WindowInfo | None = None) -> Relation:
    return Relation(
        number=5,
        schema=Schema((*KEY, *columns)),
        key_codec=KeyCodec(format=FormatInfo("KAFKA")),
        window=window,
        topic="t",
    )


def source() -> SourceRead:
    return SourceRead(
        query=0,
        relation=relation((*VALUE, *ADDED)),
        topic="t",
        key=SerdeSpec(FormatInfo("KAFKA"), KEY, side=Side.KEY, topic="t"),
        value=SerdeSpec(FormatInfo("JSON"), VALUE, topic="t"),
        headers=(HEADER,),
        pseudo_version=1,
        window=None,
        logger="processing.Q.Source",
    )


def record(value: bytes | None, **more: Any) -> dict[str, Any]:
    return {
        "q": 0,
        "feed": 3,
        "topic": "t",
        "part": 1,
        "off": 9,
        "ts": 77,
        "key": b"k",
        "value": value,
        "headers": None,
        **more,
    }


def batch(*rows: dict[str, Any]) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist(list(rows), schema=ARROW_INPUT)


def decoded(*rows: dict[str, Any]) -> list[dict[str, Any]]:
    return [row for out in decode_batches([source()])(iter([batch(*rows)])) for row in out.to_pylist()]


def test_a_record_becomes_a_row_with_all_columns_of_its_source() -> None:
    headers = [{"key": "trace", "value": b"1"}, {"key": "trace", "value": b"2"}]
    (row,) = decoded(record(b'{"a": 4}', headers=headers))
    assert (row["rel"], row["ordinal"], row["ts"], row["log"]) == (5, [3, 0], 77, [])
    assert row["r5"] == {
        "k": {"K": "k"},
        "v": {"A": 4, "H": b"2", "ROWTIME": 77, "ROWPARTITION": 1, "ROWOFFSET": 9, "K": "k"},
    }


def test_a_bad_record_stops_the_query_if_the_setting_says_so() -> None:
    target = replace(source(), strict=True)
    (row,) = [row for out in decode_batches([target])(iter([batch(record(b"{"))])) for row in out.to_pylist()]
    assert (row["rel"], row["log"][0]["kind"]) == (-1, 4)


def test_a_tombstone_has_a_key_and_no_value() -> None:
    (row,) = decoded(record(None))
    assert row["r5"] == {"k": {"K": "k"}, "v": None}


def test_a_bad_record_is_logged_and_the_next_one_processed() -> None:
    bad, good = decoded(record(b"{"), record(b'{"A": 1}'))
    assert bad["rel"] == -1
    assert bad["log"][0]["kind"] == 0
    assert bad["log"][0]["message"].startswith("value: ")
    assert good["rel"] == 5


@pytest.mark.parametrize(("key", "value", "side"), [(b"k", b"{", b"{"), (b"\xff", b"{}", b"\xff")])
def test_an_entry_contains_the_key_or_value_that_could_not_be_read_if_the_setting_says_so(
    key: bytes, value: bytes, side: bytes
) -> None:
    # A windowed key ends in eight bytes of its window.
    bounds = (Column("WINDOWSTART", t.BIGINT), Column("WINDOWEND", t.BIGINT))
    windowed = replace(
        source(), window=WindowInfo(WindowType.TUMBLING, 10), relation=relation((*VALUE, *ADDED, *bounds))
    )
    target = source() if side == value else windowed
    for logs_rows, held in ((True, b64encode(side).decode()), (False, None)):
        (row,) = next(
            iter(decode_batches([replace(target, logs_rows=logs_rows)])(iter([batch(record(value, key=key))])))
        ).to_pylist()
        (entry,) = row["log"]
        assert entry["record"] == held


def test_a_source_ignores_records_of_other_topics_and_queries() -> None:
    assert decoded(record(b"{}", topic="other"), record(b"{}", q=1)) == []


def sink(window: WindowInfo | None = None, *, guarded: bool = False) -> SinkWrite:
    return SinkWrite(
        query=0,
        relation=relation(VALUE, window),
        topic="out",
        key=SerdeSpec(FormatInfo("KAFKA"), KEY, side=Side.KEY, topic="out"),
        value=SerdeSpec(FormatInfo("JSON"), VALUE, topic="out"),
        window=window,
        logger="processing.Q.OUT",
        guarded=guarded,
    )


def encoded(target: SinkWrite, **row: Any) -> list[dict[str, Any]]:
    struct = pa.struct([("k", pa.struct([("K", pa.string())])), ("v", pa.struct([("A", pa.int32())]))])
    schema = pa.schema(
        [
            ("rel", pa.int32()),
            ("q", pa.int32()),
            ("ordinal", pa.list_(pa.int64())),
            ("ts", pa.int64()),
            ("headers", HEADERS),
            ("ws", pa.int64()),
            ("we", pa.int64()),
            ("topic", pa.string()),
            ("part", pa.int32()),
            ("off", pa.int64()),
            ("task", pa.int32()),
            ("log", LOG),
            ("r5", struct),
        ]
    )
    given = {
        "rel": 5,
        "q": 0,
        "ordinal": [1],
        "ts": 8,
        "headers": [],
        "topic": "t",
        "part": 0,
        "off": 2,
        "task": 0,
        "log": [],
        **row,
    }
    rows = pa.RecordBatch.from_pylist([given], schema=schema)
    return [out for made in encode_batches([target])(iter([rows])) for out in made.to_pylist()]


def test_a_row_becomes_a_record() -> None:
    (out,) = encoded(sink(), r5={"k": {"K": "x"}, "v": {"A": 1}})
    assert (out["topic"], out["key"], out["value"], out["timestamp"], out["kind"]) == ("out", b"x", b'{"A":1}', 8, None)


def test_a_record_names_the_source_record_that_caused_it() -> None:
    (out,) = encoded(sink(), r5={"k": {"K": "x"}, "v": {"A": 1}})
    assert (out["src_topic"], out["src_part"], out["src_off"]) == ("t", 0, 2)


def test_a_windowed_key_carries_its_start() -> None:
    (out,) = encoded(sink(WindowInfo(WindowType.TUMBLING, 10)), r5={"k": {"K": "x"}, "v": None}, ws=20, we=30)
    assert out["key"] == b"x" + (20).to_bytes(8, "big")
    assert out["value"] is None


def test_log_entries_are_written_beside_records() -> None:
    entry = {"kind": 1, "logger": "processing.Q", "message": "no"}
    log, out = encoded(sink(), r5={"k": {"K": "x"}, "v": {"A": 1}}, log=[entry])
    assert (log["kind"], log["message"], log["src_topic"], log["src_off"]) == (1, "no", "t", 2)
    assert out["kind"] is None


def test_an_entry_contains_the_row_that_could_not_be_written_if_the_setting_says_so() -> None:
    target = replace(sink(WindowInfo(WindowType.SESSION), guarded=True), logs_rows=True)
    (out,) = encoded(target, r5={"k": {"K": "x"}, "v": {"A": 1}})
    assert (out["kind"], out["record"], out["cause"]) == (
        1,
        "[1]",
        [out["message"], "required argument is not an integer"],
    )


def two_sources() -> list[SourceRead]:
    """Two sources of one topic, and one of another."""
    first = source()
    second = replace(first, relation=replace(first.relation, number=6), position=1)
    return [first, second, replace(first, relation=replace(first.relation, number=7), topic="u", query=1)]


def test_rows_have_the_order_of_their_readers_and_the_ordinals_of_their_records() -> None:
    rows = [
        record(b'{"A": 1}', feed=0),
        record(b'{"A": 2}', q=1, topic="u", feed=1),
        record(b"{", feed=2),
        record(b'{"A": 3}', feed=3),
    ]
    (out,) = decode_batches(two_sources())(iter([batch(*rows)]))
    found = out.to_pylist()
    assert [(row["rel"], row["ordinal"], row["q"]) for row in found] == [
        (5, [0, 0], 0),
        (-1, [2, 0], 0),
        (5, [3, 0], 0),
        (6, [0, 1], 0),
        (-1, [2, 1], 0),
        (6, [3, 1], 0),
        (7, [1, 0], 1),
    ]
    values = [[(row[f"r{rel}"] or {"v": {}})["v"].get("A") for row in found] for rel in (5, 6, 7)]
    assert values == [
        [1, None, 3, None, None, None, None],
        [None, None, None, 1, None, 3, None],
        [None, None, None, None, None, None, 2],
    ]
    assert [len(row["log"]) for row in found] == [0, 1, 0, 0, 1, 0, 0]


def test_records_and_entries_of_several_sinks_have_the_order_of_rows() -> None:
    entry = {"kind": 1, "logger": "processing.Q", "message": "no"}
    sinks = [replace(sink(), relation=replace(sink().relation, number=rel), topic=f"out{rel}") for rel in (5, 6)]
    base = {"q": 0, "ordinal": [1], "ts": 8, "headers": [], "topic": "t", "part": 0, "off": 2, "log": []}
    given = [
        {**base, "rel": 6, "r6": {"k": {"K": "x"}, "v": {"A": 1}}},
        {**base, "rel": 5, "r5": {"k": {"K": "y"}, "v": None}, "log": [entry]},
        {**base, "rel": -1, "log": [entry, entry]},
        {**base, "rel": 6, "r6": {"k": {"K": "z"}, "v": {"A": 2}}},
    ]
    struct = pa.struct([("k", pa.struct([("K", pa.string())])), ("v", pa.struct([("A", pa.int32())]))])
    types = {"ordinal": pa.list_(pa.int64()), "headers": HEADERS, "log": LOG, "r5": struct, "r6": struct}
    numbers = {
        **dict.fromkeys(("rel", "q", "part"), pa.int32()),
        **dict.fromkeys(("ts", "ws", "we", "off"), pa.int64()),
    }
    rows = pa.RecordBatch.from_pylist(given, schema=pa.schema({**numbers, "topic": pa.string(), **types}))
    (out,) = encode_batches(sinks)(iter([rows]))
    assert [(row["topic"], row["kind"], row["key"], row["value"]) for row in out.to_pylist()] == [
        ("out6", None, b"x", b'{"A":1}'),
        (None, 1, None, None),
        ("out5", None, b"y", None),
        (None, 1, None, None),
        (None, 1, None, None),
        ("out6", None, b"z", b'{"A":2}'),
    ]
    (nothing,) = encode_batches([])(iter([rows.slice(0, 1)]))
    assert nothing.num_rows == 0
