"""The examples of the README of ksql-python-ng: python ksql_python_ng.py URL, with the client on PYTHONPATH."""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path

from ksql import KSQLAPI
from ksql.errors import KSQLError
from ksql.upload import FileUpload

EARLIEST = {"ksql.streams.auto.offset.reset": "earliest"}
ROWS = [
    {"ORDER_ID": 1, "TOTAL_AMOUNT": 23.5, "CUSTOMER_NAME": "abc"},
    {"ORDER_ID": 2, "TOTAL_AMOUNT": 3.7, "CUSTOMER_NAME": "xyz"},
]


def main(url: str) -> None:
    client = KSQLAPI(url, timeout=60)
    told = {"version": client.get_ksql_version(), "properties": len(client.get_properties()) > 10}
    # `create_stream` declares a stream over a topic that is there.
    client.ksql("create stream made (a int) with (kafka_topic='ng_orders', value_format='json', partitions=1)")
    told["created"] = client.create_stream(
        "orders", ["order_id int", "total_amount double", "customer_name varchar"], "ng_orders", "JSON"
    )
    told["as"] = client.create_stream_as("small", ["customer_name"], "orders", "ng_small", "JSON", "total_amount < 10")
    told["acks"] = [ack["status"] for ack in client.inserts_stream("orders", ROWS)]
    select = "select * from orders emit changes limit 2"
    told["http1"] = [line.strip() for line in client.query(select, stream_properties=EARLIEST)]
    told["http2"] = list(client.query(select, stream_properties=EARLIEST, use_http2=True))
    told["parsed"] = list(client.query(select, stream_properties=EARLIEST, parse=True))
    told["closed"] = client.close_query("44d8413c-0018-423d-b58f-3f2064b9a312")
    with tempfile.TemporaryDirectory() as folder:
        rules = Path(folder) / "rules.ksql"
        rules.write_text(
            "create table counts as select customer_name, count(*) as n from orders group by customer_name;"
        )
        FileUpload(url).upload(str(rules))
    told["tables"] = [each["name"] for each in client.ksql("show tables")[0]["tables"]]
    try:
        client.create_stream("orders", ["a int"], "ng_orders")
    except KSQLError as error:
        told["refused"] = error.args[0].partition("\n")[0]
    sys.stdout.write(json.dumps(told))


if __name__ == "__main__":
    main(sys.argv[1])
