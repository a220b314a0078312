"""The jobs of the benchmark `kafka` as a user of Quix Streams writes them.

It runs in an environment of its own until it is killed.

python quix_job.py filter|count SERVERS SOURCE SINK STATE_FOLDER
"""

from __future__ import annotations

import sys
from typing import Any

from quixstreams import Application  # type: ignore[import-not-found]


def main(job: str, servers: str, source: str, sink: str, folder: str) -> None:
    """Run one job over its topics, exactly once."""
    application = Application(
        broker_address=servers,
        consumer_group=sink,
        processing_guarantee="exactly-once",
        auto_offset_reset="earliest",
        state_dir=folder,
        loglevel="ERROR",
    )
    frame: Any = application.dataframe(application.topic(source, key_deserializer="str", value_deserializer="json"))
    if job == "filter":
        frame = frame[frame["AMOUNT"] >= 10].apply(
            lambda row: {"CUSTOMER": row["CUSTOMER"], "DOUBLED": row["AMOUNT"] * 2}
        )
    else:
        frame = frame.tumbling_window(duration_ms=10_000).count().current().apply(lambda row: {"N": row["value"]})
    frame.to_topic(application.topic(sink, key_serializer="str", value_serializer="json"))
    application.run()


if __name__ == "__main__":
    main(*sys.argv[1:])
