"""How long a batch of 1,000 records takes against a broker, from the steady rate of the bench `kafka`.

    python -m tests.bench kafka_small

Kestrel writes exactly once. Beside it run a filter that a user of PySpark writes by hand, at least once, and the
floor of stateful jobs.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys

from tests.bench.kafka_jobs import PROJECTION
from tests.bench.tables import write_table

_RECORDS = 1_000
_GOALS_MS = {"filter": 75, PROJECTION: 130, "count": 200}
_WAYS = {"filter": "kestrel,pyspark", PROJECTION: "kestrel", "count": "kestrel,floor"}
_OUTPUTS = {"filter": 0.9, PROJECTION: 0.9, "count": 1.0}
_SIZE = {"BATCH": str(_RECORDS), "ROWS": os.environ.get("ROWS", "30000"), "ROUNDS": "1", "INTO": ""}


def main() -> None:
    """Measure and print."""
    rows = []
    for job, ways in _WAYS.items():
        settings = {**os.environ, **_SIZE, "JOBS": job, "WAYS": ways}
        command = [sys.executable, "-m", "tests.bench", "kafka"]
        said = subprocess.run(command, env=settings, stdout=subprocess.PIPE, text=True, check=True).stdout
        rates = re.findall(rf"{job} +(\w+) .*, +([\d,]+) then; ([\d.]+) s", said)
        for way, rate, work in rates:
            batch_ms = _RECORDS * _OUTPUTS[job] / float(rate.replace(",", "")) * 1000
            goal = f"{_GOALS_MS[job]} ms, {'reached' if batch_ms <= _GOALS_MS[job] else 'missed'}"
            rows.append([job, way, f"{batch_ms:.0f} ms", work, goal if way == "kestrel" else ""])
    columns = ["Job", "Way", "A batch of 1,000 records", "Processor seconds for 100,000 outputs", "Goal"]
    write_table("kafka-small", columns, rows)
