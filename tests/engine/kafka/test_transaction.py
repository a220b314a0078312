from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pytest
from confluent_kafka import KafkaError, KafkaException

from kestrel_sql.kafka.client.config import KafkaConfig
from kestrel_sql.kafka.sink import transaction
from kestrel_sql.kafka.sink.transaction import WriteError, Writer, _pairs, _sent_in, _text, retried
from kestrel_sql.spark.envelope import HEADERS
from kestrel_sql.spark.io.topics import ARROW_OUTPUT

COLUMNS: dict[str, tuple[list[Any], pa.DataType]] = {
    "topic": (["t", "t", "t", "u"], pa.string()),
    "partition": ([0, 1, 0, 0], pa.int32()),
    "key": ([b"k", b"k", None, b"k"], pa.binary()),
    "value": ([b"v", b"v", b"v", None], pa.binary()),
    "timestamp": ([1, 2, 3, 4], pa.int64()),
    "src_topic": (["s", "s", "s", None], pa.string()),
    "src_part": ([0, 0, 1, None], pa.int32()),
    "src_off": ([10, 11, 12, None], pa.int64()),
}
BATCH = pa.RecordBatch.from_pydict({name: pa.array(values, kind) for name, (values, kind) in COLUMNS.items()})


class Message:
    def __init__(self, *row: Any) -> None:
        self._row = row

    def topic(self) -> Any:
        return self._row[0]

    def partition(self) -> Any:
        return self._row[1]

    def key(self) -> Any:
        return self._row[2]

    def value(self) -> Any:
        return self._row[3]


@pytest.mark.parametrize(
    ("row", "offsets"),
    [
        (("t", 0, b"k", b"v"), [10]),
        (("t", 1, b"k", b"v"), [11]),
        (("t", 0, None, b"v"), [12]),
        (("t", 0, b"other", b"v"), []),
    ],
)
def test_the_rows_that_a_refused_message_came_from(row: tuple[Any, ...], offsets: list[int]) -> None:
    message: Any = Message(*row)
    assert _sent_in(BATCH, message).column("src_off").to_pylist() == offsets


def test_a_refusal_names_topic_partition_cause_and_size() -> None:
    message: Any = Message("t", 1, b"k", b"v")
    text = _text(KafkaError(KafkaError.MSG_SIZE_TOO_LARGE), _sent_in(BATCH, message), message)
    assert text.startswith("a record for t-1, caused by s-0 at offset 11, was refused: ")
    assert text.endswith("; it has 2 bytes")


def test_a_refusal_of_unknown_cause() -> None:
    message: Any = Message("t", 9, b"k", b"v")
    assert "a record for t-9, of unknown origin, was refused" in _text(
        KafkaError(KafkaError.MSG_SIZE_TOO_LARGE), None, message
    )
    assert "a record for u-0, of unknown origin" in _text(
        KafkaError(KafkaError.MSG_SIZE_TOO_LARGE), BATCH.slice(3, 1), None
    )


def test_headers_are_pairs_where_a_record_has_any() -> None:
    def batch(headers: list[Any]) -> pa.RecordBatch:
        return pa.RecordBatch.from_pydict({"headers": pa.array(headers, HEADERS)})

    assert _pairs(batch([[], None])) == [None, None]
    assert _pairs(batch([[], [{"key": "a", "value": b"1"}, {"key": "a", "value": None}]])) == [
        [],
        [("a", b"1"), ("a", None)],
    ]


@pytest.mark.parametrize("code", [KafkaError.NOT_COORDINATOR, KafkaError._TRANSPORT, KafkaError._TIMED_OUT])
def test_a_broker_that_has_just_started_is_asked_again(code: int) -> None:
    answers: list[Any] = [KafkaException(KafkaError(code)), "answer"]

    def call() -> Any:
        answer = answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    assert retried(call) == "answer"


def test_a_fenced_writer_is_not_asked_again() -> None:
    asked: list[None] = []

    def call() -> None:
        asked.append(None)
        raise KafkaException(KafkaError(KafkaError._FENCED))

    with pytest.raises(KafkaException):
        retried(call)
    assert len(asked) == 1


def test_requests_of_a_transaction_outlive_a_broker_that_is_away() -> None:
    # The client's default forgets them when all brokers are down, and no timeout ends the call (ADR 16).
    config = KafkaConfig(servers="b:1", properties={"metadata.recovery.strategy": "rebootstrap"})
    assert config.client(**transaction._TUNING)["metadata.recovery.strategy"] == "none"


class _Full:
    """A producer whose queue is full before each third record, and that refuses the value `no`."""

    def __init__(self) -> None:
        self.sent: list[tuple[Any, ...]] = []
        self.calls = 0

    def produce(self, *record: Any) -> None:
        self.calls += 1
        if record[1] == b"no":
            raise KafkaException(KafkaError(KafkaError.MSG_SIZE_TOO_LARGE))
        if self.calls % 3 == 0:
            raise BufferError
        self.sent.append(record)

    def poll(self, timeout: float) -> None:
        pass


def writer(monkeypatch: pytest.MonkeyPatch) -> tuple[Writer, _Full]:
    full = _Full()
    monkeypatch.setattr(transaction, "Producer", lambda *_, **__: full)
    monkeypatch.setattr(transaction, "_batch_bytes", lambda *_: 1)
    monkeypatch.setattr(transaction, "_POLL_EVERY", 4)
    return Writer(KafkaConfig(servers="b:1"), "q", 0, frozenset("t"), transactional=False), full


def outputs(values: Sequence[bytes], times: Sequence[int]) -> pa.RecordBatch:
    rows = [
        {"topic": "t", "partition": 1, "key": b"k", "value": value, "timestamp": time, "headers": []}
        | {"src_topic": "s", "src_part": 2, "src_off": at}
        for at, (value, time) in enumerate(zip(values, times, strict=True))
    ]
    return pa.RecordBatch.from_pylist(rows, schema=ARROW_OUTPUT.append(pa.field("partition", pa.int32())))


def test_a_record_is_sent_again_when_the_queue_was_full_and_no_other_is(monkeypatch: pytest.MonkeyPatch) -> None:
    own, full = writer(monkeypatch)
    own.send(outputs([b"%d" % at for at in range(10)], [0, *range(1, 10)]))
    assert [(topic, value, key, part) for topic, value, key, part, *_ in full.sent] == [
        ("t", b"%d" % at, b"k", 1) for at in range(10)
    ]
    # librdkafka reads the timestamp 0 as "now".
    assert [record[6] for record in full.sent] == [1, *range(1, 10)]


def test_a_record_that_the_client_refuses_is_said_with_its_cause(monkeypatch: pytest.MonkeyPatch) -> None:
    own, full = writer(monkeypatch)
    values = [b"yes", b"yes", b"yes", b"yes", b"yes", b"no", b"yes"]
    with pytest.raises(WriteError, match="a record for t-1, caused by s-2 at offset 5, was refused"):
        own.send(outputs(values, [1] * 7))
    assert len(full.sent) == 5
