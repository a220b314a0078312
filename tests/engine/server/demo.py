"""`make demo-server`: a broker, a server, rows for it, a push and a pull query by curl, and the address of its page."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path

from kestrel_sql.kafka.broker.broker import Broker
from tests.kafka.servers import EARLIEST, Servers, eventually

STATEMENTS = """
CREATE STREAM orders (id INT KEY, item STRING, price DOUBLE)
  WITH (KAFKA_TOPIC='orders', VALUE_FORMAT='JSON', PARTITIONS=1);
CREATE TABLE totals AS SELECT item, COUNT(*) AS orders, SUM(price) AS total FROM orders GROUP BY item;
"""
ITEMS = ("tea", "milk", "bread", "salt")


def say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def curl(url: str, path: str, data: str, *options: str) -> None:
    command = ["curl", "-sN", "--max-time", "120", *options, f"{url}{path}", "--data-binary", data]
    say("$ " + " ".join(f"'{part}'" if " " in part else part for part in command if len(part) < 200))
    subprocess.run(command, check=True, stdout=sys.stdout)
    say("")


def main() -> int:
    """Show the server, and leave it running while somebody looks."""
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        broker = stack.enter_context(Broker.start())
        say(f"a broker runs at {broker.address}")
        server = Servers(broker.address, Path(folder), stack).start()
        eventually(server.is_up, server)
        say(f"the server answers at {server.url}, its page is {server.url}/ui\n")
        for entity in server.ksql(STATEMENTS):
            say(f"{entity['commandStatus']['message']}: {' '.join(entity['statementText'].split())}")
        rows = [{"id": n, "item": ITEMS[n % 4], "price": n / 2} for n in range(200)]
        lines = "".join(f"{json.dumps(row)}\n" for row in rows)
        subprocess.run(
            ["curl", "-s", "--http2-prior-knowledge", f"{server.url}/inserts-stream", "--data-binary", "@-"],
            input=json.dumps({"target": "orders"}) + "\n" + lines,
            text=True,
            check=True,
            stdout=subprocess.DEVNULL,
        )
        say("200 rows went into orders by /inserts-stream\n")
        push = {
            "sql": "SELECT id, item, price FROM orders WHERE price > 90 EMIT CHANGES LIMIT 5;",
            "properties": EARLIEST,
        }
        curl(server.url, "/query-stream", json.dumps(push), "--http2-prior-knowledge")
        eventually(lambda: server.query("SELECT orders FROM totals WHERE item = 'tea';") == [[50]], server)
        curl(server.url, "/query-stream", json.dumps({"sql": "SELECT * FROM totals WHERE item = 'tea';"}))
        say(f"the page: {server.url}/ui")
        if sys.stdin.isatty():
            say("Ctrl-C ends the server")
            try:
                time.sleep(3600)
            except KeyboardInterrupt:
                say("")
    return 0


if __name__ == "__main__":
    sys.exit(main())
