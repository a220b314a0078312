"""The five query shapes of the kill tests: statements, and records that create, change and drop state."""

from __future__ import annotations

import base64
import json
import random
from dataclasses import dataclass
from typing import Any

RECORDS = 15
"""Records of each shape in a micro-batch."""


@dataclass(frozen=True, slots=True)
class Shape:
    statements: str
    topics: tuple[str, ...]


SHAPES = {
    "aggregate": Shape(
        """
        CREATE STREAM SALES (SHOP STRING KEY, PIECES INT) WITH (kafka_topic='sales', value_format='JSON');
        CREATE TABLE TOTALS AS SELECT SHOP, COUNT(*) AS N, SUM(PIECES) AS PIECES, COLLECT_LIST(PIECES) AS ALL_OF_THEM
          FROM SALES GROUP BY SHOP HAVING SUM(PIECES) % 3 > 0;
        """,
        ("sales",),
    ),
    "table": Shape(
        """
        CREATE TABLE PARCELS (ID STRING PRIMARY KEY, PIECES INT) WITH (kafka_topic='parcels', value_format='JSON');
        CREATE TABLE HEAVY AS SELECT PIECES / 3 AS THIRD, COUNT(*) AS N, SUM(PIECES) AS PIECES
          FROM PARCELS WHERE PIECES > 2 GROUP BY PIECES / 3;
        """,
        ("parcels",),
    ),
    "join": Shape(
        """
        CREATE STREAM ORDERS (ID STRING KEY, PIECES INT) WITH (kafka_topic='orders', value_format='JSON');
        CREATE STREAM SHIPS (ID STRING KEY, PIECES INT) WITH (kafka_topic='ships', value_format='JSON');
        CREATE STREAM SENT AS SELECT O.ID AS ID, O.PIECES AS ASKED, S.PIECES AS GIVEN FROM ORDERS O
          LEFT JOIN SHIPS S WITHIN 40 MILLISECONDS GRACE PERIOD 10 MILLISECONDS ON O.ID = S.ID;
        """,
        ("orders", "ships"),
    ),
    "session": Shape(
        """
        CREATE STREAM VISITS (VISITOR STRING KEY, PIECES INT) WITH (kafka_topic='visits', value_format='JSON');
        CREATE TABLE STAYS AS SELECT VISITOR, COUNT(*) AS N, COLLECT_SET(PIECES) AS PAGES
          FROM VISITS WINDOW SESSION (30 MILLISECONDS, GRACE PERIOD 20 MILLISECONDS) GROUP BY VISITOR;
        """,
        ("visits",),
    ),
    "final": Shape(
        """
        CREATE STREAM PROBES (SENSOR STRING KEY, PIECES INT) WITH (kafka_topic='probes', value_format='JSON');
        CREATE TABLE MEANS AS SELECT SENSOR, COUNT(*) AS N, AVG(PIECES) AS MEAN
          FROM PROBES WINDOW TUMBLING (SIZE 50 MILLISECONDS, RETENTION 1 DAY, GRACE PERIOD 20 MILLISECONDS) GROUP BY SENSOR EMIT FINAL;
        """,
        ("probes",),
    ),
}


def rows_of_batch(names: list[str], batch: int) -> list[dict[str, Any]]:
    """Return the wire rows of one micro-batch as JSON; query n is the n-th shape."""
    rows = []
    for query, name in enumerate(names):
        random_ = random.Random(f"{name} {batch}")
        for at in range(RECORDS):
            feed = batch * RECORDS + at
            gone = name == "table" and random_.random() < 0.2
            value = None if gone else json.dumps({"PIECES": random_.randrange(12)}).encode()
            rows.append(
                {
                    "q": query,
                    "feed": feed,
                    "topic": random_.choice(SHAPES[name].topics),
                    "part": 0,
                    "off": feed,
                    "ts": max(0, feed * 4 + random_.randrange(-40, 20)),
                    "key": _base64(random_.choice("abcde").encode()),
                    "value": _base64(value),
                    "headers": [],
                }
            )
    return rows


def _base64(data: bytes | None) -> str | None:
    return None if data is None else base64.b64encode(data).decode()
