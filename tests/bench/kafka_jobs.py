"""The jobs of the bench `kafka`: their statements, their topics, and how many outputs their input makes."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from tests.kafka.helpers import Row

_FIRST_MS = 1_700_000_000_000
_BURST, _BURST_KEYS = 10_000, 200


@dataclass(frozen=True, slots=True)
class Job:
    """A job.

    Attributes:
        topics: the topics that it reads.
        script: its statements; `{sink}` stands for the topic that it writes.
        outputs: the number of its outputs from the number of records of the input.
        reached: the share of these that each way writes for certain; which joins of tables are made depends on the
            order in which topics are read, and windows close behind the last record.
    """

    topics: tuple[str, ...]
    script: str
    outputs: Callable[[int], float]
    reached: float = 1.0


def _orders(number: int) -> Row:
    return _row(f"k{number * 7919 % 1000}", number, AMOUNT=number % 100)


def _clicks(number: int) -> Row:
    """Bursts of ten seconds; each key then pauses for forty."""
    key = number // _BURST % 5 * _BURST_KEYS + number * 7919 % _BURST_KEYS
    return _row(f"k{key}", number, AMOUNT=number % 100)


def _people(number: int) -> Row | None:
    return None if number % 20 else _row(f"k{number // 20 % 1000}", number)


def _lefts(number: int) -> Row | None:
    return None if number % 2 else _row(f"k{number // 2 * 7919 % 1000}", number, AMOUNT=number % 100)


def _rights(number: int) -> Row | None:
    return _row(f"k{number // 2 * 7919 % 1000}", number) if number % 2 else None


def _bought(number: int) -> Row | None:
    key = number * 7919 % 1000
    return _row(f"k{key}", number, CUSTOMER=f"c{key % 100}", AMOUNT=number % 100) if number % 20 else None


def _buyers(number: int) -> Row | None:
    return None if number % 20 else _row(f"c{number // 20 % 100}", number)


def _row(key: str, number: int, **columns: object) -> Row:
    return key, json.dumps({"CUSTOMER": f"customer {number % 5000}", **columns}), _FIRST_MS + number


_TOPICS: Mapping[str, Callable[[int], Row | None]] = {
    "orders": _orders,
    "clicks": _clicks,
    "people": _people,
    "lefts": _lefts,
    "rights": _rights,
    "bought": _bought,
    "buyers": _buyers,
}


def records(topic: str, count: int) -> Iterator[Row]:
    """The records of a topic: a key, a customer, an amount below 100; a millisecond apart."""
    make = _TOPICS[topic]
    return (row for number in range(count) if (row := make(number)) is not None)


def _stream(name: str, topic: str) -> str:
    columns = "ID STRING KEY, CUSTOMER STRING, AMOUNT INT"
    return f"CREATE STREAM {name} ({columns}) WITH (KAFKA_TOPIC='{topic}', VALUE_FORMAT='JSON');\n"


def _table(name: str, topic: str) -> str:
    columns = "ID STRING PRIMARY KEY, CUSTOMER STRING, AMOUNT INT"
    return f"CREATE TABLE {name} ({columns}) WITH (KAFKA_TOPIC='{topic}', VALUE_FORMAT='JSON');\n"


def _counted(window: str, end: str = "", topic: str = "orders") -> str:
    query = f"SELECT ID, COUNT(*) AS N FROM S WINDOW {window} GROUP BY ID {end}"
    return f"{_stream('S', topic)}CREATE TABLE T WITH (KAFKA_TOPIC='{{sink}}') AS {query};"


def _joined(sources: str, kind: str, join: str) -> str:
    columns = "A.ID AS ID, A.AMOUNT AS AMOUNT, A.CUSTOMER AS OURS, B.CUSTOMER AS THEIRS"
    return f"{sources}CREATE {kind} T WITH (KAFKA_TOPIC='{{sink}}') AS SELECT {columns} FROM A {join};"


PROJECTION = "projection"
"""A job of small batches only, which no other program runs."""

JOBS: Mapping[str, Job] = {
    "filter": Job(
        ("orders",),
        _stream("S", "orders")
        + "CREATE STREAM T WITH (KAFKA_TOPIC='{sink}') AS SELECT ID, CUSTOMER, AMOUNT * 2 AS DOUBLED FROM S WHERE"
        " AMOUNT >= 10;",
        lambda count: count // 100 * 90 + max(0, count % 100 - 10),
    ),
    PROJECTION: Job(
        ("orders",),
        _stream("S", "orders")
        + "CREATE STREAM T WITH (KAFKA_TOPIC='{sink}') AS SELECT ID, UCASE(CUSTOMER) AS CUSTOMER, AMOUNT * 2 AS DOUBLED,"
        " CASE WHEN AMOUNT > 50 THEN 'large' ELSE 'small' END AS GRADE, CAST(AMOUNT AS STRING) AS AMOUNT_TEXT FROM S"
        " WHERE AMOUNT >= 10;",
        lambda count: count // 100 * 90 + max(0, count % 100 - 10),
    ),
    "count": Job(("orders",), _counted("TUMBLING (SIZE 10 SECONDS)"), lambda count: count),
    "hopping": Job(("orders",), _counted("HOPPING (SIZE 10 SECONDS, ADVANCE BY 5 SECONDS)"), lambda count: 2 * count),
    "session": Job(
        ("clicks",),
        _counted("SESSION (5 SECONDS)", topic="clicks"),
        lambda count: 2 * count - (1 + count // _BURST) * _BURST_KEYS,
    ),
    "final": Job(
        ("orders",),
        _counted("TUMBLING (SIZE 2 SECONDS, GRACE PERIOD 1 SECONDS)", "EMIT FINAL"),
        lambda count: count / 2,
        reached=0.9,
    ),
    "stream-table": Job(
        ("orders", "people"),
        _joined(_stream("A", "orders") + _table("B", "people"), "STREAM", "LEFT JOIN B ON A.ID = B.ID"),
        lambda count: count,
    ),
    "table-table": Job(
        ("lefts", "rights"),
        _joined(_table("A", "lefts") + _table("B", "rights"), "TABLE", "LEFT JOIN B ON A.ID = B.ID"),
        lambda count: count,
        reached=0.98,
    ),
    "stream-stream": Job(
        ("lefts", "rights"),
        _joined(
            _stream("A", "lefts") + _stream("B", "rights"),
            "STREAM",
            "JOIN B WITHIN 3 SECONDS GRACE PERIOD 1 SECONDS ON A.ID = B.ID",
        ),
        lambda count: 1.5 * count,
        reached=0.98,
    ),
    "foreign-key": Job(
        ("bought", "buyers"),
        _joined(_table("A", "bought") + _table("B", "buyers"), "TABLE", "JOIN B ON A.CUSTOMER = B.ID"),
        lambda count: 1.425 * count,
        # Kafka Streams drops results of a changed right row whose left row has changed meanwhile: at full speed most.
        reached=0.65,
    ),
}
