from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from confluent_kafka import KafkaError, KafkaException

from kestrel_sql.kafka.client.config import KafkaConfig
from kestrel_sql.kafka.sink import transaction
from kestrel_sql.kafka.sink.transaction import _pairs, _sent_in, _text, retried
from kestrel_sql.spark.io.topics import HEADERS

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

    assert list(_pairs(batch([[], None]))) == [None, None]
    assert list(_pairs(batch([[], [{"key": "a", "value": b"1"}, {"key": "a", "value": None}]]))) == [
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
    assert KafkaConfig(servers="b:1").client(**transaction._TUNING)["metadata.recovery.strategy"] == "none"
