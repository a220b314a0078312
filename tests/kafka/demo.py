"""`make demo-kafka`: runs four chained queries on a broker, kills and restarts them, and checks the output."""

from __future__ import annotations

import json
import os
import sys
import tempfile
import time
from contextlib import ExitStack
from itertools import product
from pathlib import Path

from kestrel_sql.kafka.broker.broker import Broker
from tests.kafka.helpers import Row, await_rows, create, produce, read, run, start
from tests.kafka.processes import kill

PARTITIONS, ORDERS, CUSTOMERS = 2, 4000, 20
_START = int(time.time()) * 1000
"""Timestamps of today.

With timestamps of 1970 the first control record of a transaction starts a segment, and compaction soon removes old
counts.
"""

SCRIPT = """
CREATE STREAM ORDERS (ID STRING KEY, CUSTOMER STRING, AMOUNT INT) WITH (KAFKA_TOPIC='orders', VALUE_FORMAT='JSON');
CREATE TABLE CUSTOMERS (ID STRING PRIMARY KEY, NAME STRING) WITH (KAFKA_TOPIC='customers', VALUE_FORMAT='JSON');
CREATE STREAM LARGE WITH (KAFKA_TOPIC='large') AS SELECT * FROM ORDERS WHERE AMOUNT >= 10;
CREATE STREAM BY_CUSTOMER WITH (KAFKA_TOPIC='by_customer') AS SELECT CUSTOMER, ID, AMOUNT FROM LARGE PARTITION BY CUSTOMER;
CREATE STREAM NAMED WITH (KAFKA_TOPIC='named') AS
  SELECT O.CUSTOMER AS CUSTOMER, C.NAME AS NAME, O.ID AS ID, O.AMOUNT AS AMOUNT FROM BY_CUSTOMER O JOIN CUSTOMERS C ON O.CUSTOMER = C.ID;
CREATE TABLE TOTALS WITH (KAFKA_TOPIC='totals') AS
  SELECT CUSTOMER, COUNT(*) AS N, SUM(AMOUNT) AS TOTAL FROM NAMED WINDOW TUMBLING (SIZE 1 SECONDS) GROUP BY CUSTOMER;
"""

SINKS = ("large", "by_customer", "named", "totals")
OPTIONS = ("--property", "auto.offset.reset=earliest", "--batch-records", "400")


def main() -> int:
    """Run the demonstration and return whether all checks passed."""
    with ExitStack() as stack:
        servers = os.environ.get("KESTREL_KAFKA")
        if servers is None:
            say("starting a broker")
            servers = stack.enter_context(Broker.start()).address
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        return _show(servers, folder)


def customers() -> list[Row]:
    """The records of the table."""
    return [(f"c{n}", json.dumps({"NAME": f"name {n}"}), _START + n) for n in range(CUSTOMERS)]


def orders() -> list[Row]:
    """The records of the stream."""
    return [
        (f"o{n}", json.dumps({"CUSTOMER": f"c{n % CUSTOMERS}", "AMOUNT": n % 100}), _START + 1000 + n)
        for n in range(ORDERS)
    ]


def _show(servers: str, folder: Path) -> int:
    script, checkpoint = folder / "app.sql", folder / "checkpoint"
    script.write_text(SCRIPT, encoding="utf-8")
    create(servers, PARTITIONS, "orders", "customers")
    produce(servers, "customers", customers())
    produce(servers, "orders", orders())
    say(
        f"{CUSTOMERS} customers and {ORDERS} orders are in their topics; four queries: filter, new key, join, windowed"
        " aggregate"
    )
    started = time.monotonic()
    process = start(script, servers, checkpoint, *OPTIONS)
    seen = await_rows(servers, SINKS, PARTITIONS, 0)
    say(f"first output after {time.monotonic() - started:.1f} s")
    seen = await_rows(servers, SINKS, PARTITIONS, seen + 1000)
    kill(process)
    say(f"killed the run with SIGKILL when {seen} records were written; starting it again from its checkpoint")
    done = run(script, servers, checkpoint, "--until-caught-up", *OPTIONS)
    for line in done.stderr.splitlines():
        say(line)
    return judge(servers) if done.returncode == 0 else done.returncode


def judge(servers: str) -> int:
    """Compare the sinks with what the orders make of them; return 0 if every output is there once and in order."""
    expected = sum(1 for n in range(ORDERS) if n % 100 >= 10)
    flaws = []
    for topic in SINKS:
        rows = read(servers, topic, PARTITIONS)
        say(f"{topic}: {len(rows)} records of {expected}; the last one is {rows[-1][1]!r} {rows[-1][2]!r}")
        if len(rows) != expected:
            flaws.append(f"{topic} has {len(rows)} records instead of {expected}")
    flaws += _disordered(servers)
    counts: dict[bytes | None, int] = {}
    for _, key, value, _ in read(servers, "totals", PARTITIONS):
        count = json.loads(value or b"{}")["N"]
        if count != counts.get(key, 0) + 1:
            flaws.append(f"the count of {key!r} goes from {counts.get(key, 0)} to {count}")
        counts[key] = count
    for flaw in flaws:
        say(flaw)
    say("something is wrong" if flaws else "every output is there once and in order")
    return 1 if flaws else 0


def _disordered(servers: str) -> list[str]:
    """The orders of a customer that are not there once, or not as they stand in a partition of their topic.

    Orders are keyed by ID, so that those of a customer come from two partitions, whose order among each other Kafka
    does not promise.
    """
    flaws = []
    came_from = {int((key or b"")[1:]): partition for partition, key, *_ in read(servers, "orders", PARTITIONS)}
    wanted = [n for n in range(ORDERS) if n % 100 >= 10]
    for topic in ("large", "by_customer", "named"):
        rows = read(servers, topic, PARTITIONS)
        numbers = [
            int((key or b"")[1:]) if topic == "large" else int(json.loads(value or b"{}")["ID"][1:])
            for _, key, value, _ in rows
        ]
        if sorted(numbers) != wanted:
            flaws.append(f"the orders in {topic} are not complete, or there twice")
        for customer, partition in product(range(CUSTOMERS), range(PARTITIONS)):
            found = [n for n in numbers if n % CUSTOMERS == customer and came_from[n] == partition]
            if found != sorted(found):
                flaws.append(f"the orders of c{customer} in partition {partition} are in another order in {topic}")
    return flaws


def say(sentence: str) -> None:
    """Print a line."""
    sys.stdout.write(f"demo: {sentence}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
