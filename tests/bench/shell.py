"""Time of the commands without a broker (docs/performance.md).

`kestrel shell --execute` is timed to its answer, `kestrel run` over a file of 100,000 records, and `qtt run --local` over one
case and over all.

    python -m tests.bench shell         (ROUNDS=5 and RECORDS=100000 by default, as environment variables)

PYTHONS names the Python of several environments, separated by spaces. Each takes its turn in every round, which
compares two versions of Kestrel fairly. A round runs each command once, in a process of its own.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from tests.bench.measure import machine, processor_seconds
from tests.bench.tables import write_table

ROUNDS = int(os.environ.get("ROUNDS", "5"))
RECORDS = int(os.environ.get("RECORDS", "100000"))
PYTHONS = os.environ.get("PYTHONS", sys.executable).split()

_KESTREL = ("-m", "kestrel_sql.cli.main")
_QTT = ("-c", "import sys; from kestrel_qtt.cli.entry import main; sys.exit(main())")

STATEMENTS = """
CREATE STREAM ORDERS (ID STRING KEY, CUSTOMER STRING, AMOUNT INT) WITH (KAFKA_TOPIC='orders', VALUE_FORMAT='JSON', PARTITIONS=1);
INSERT INTO ORDERS VALUES ('a', 'ann', 12);
SELECT ID, AMOUNT * 2 AS TWICE FROM ORDERS EMIT CHANGES LIMIT 1;
"""

SCRIPT = """
CREATE STREAM ORDERS (ID STRING KEY, CUSTOMER STRING, AMOUNT INT) WITH (KAFKA_TOPIC='orders', VALUE_FORMAT='JSON', PARTITIONS=1);
CREATE STREAM LARGE AS SELECT ID, UCASE(CUSTOMER) AS CUSTOMER, AMOUNT * 2 AS TWICE FROM ORDERS WHERE AMOUNT >= 10;
CREATE TABLE TOTALS AS SELECT CUSTOMER, COUNT(*) AS N, SUM(TWICE) AS TOTAL FROM LARGE GROUP BY CUSTOMER;
"""


def main() -> None:
    """Print the median of the rounds for each Python and command, in seconds and in processor seconds."""
    print(f"  {machine()}; {ROUNDS} rounds")
    with tempfile.TemporaryDirectory() as folder:
        script, records = Path(folder) / "app.sql", Path(folder) / "orders.jsonl"
        script.write_text(SCRIPT, encoding="utf-8")
        records.write_text("".join(f"{json.dumps(_record(at))}\n" for at in range(RECORDS)), encoding="utf-8")
        commands = {
            "kestrel shell --execute": [*_KESTREL, "shell", "--execute", STATEMENTS],
            f"kestrel run app.sql --input orders={RECORDS}.jsonl": [
                *_KESTREL,
                "run",
                str(script),
                "--input",
                f"orders={records}",
                "--output",
                f"{folder}/out",
            ],
            "qtt run --local (one case)": [*_QTT, "run", "test-cases/functions/abs.yaml", "-k", "bounds", "--local"],
            "qtt run --local (all cases)": [*_QTT, "run", "test-cases", "--local"],
        }
        taken: dict[tuple[str, str], list[tuple[float, float]]] = {}
        for _ in range(ROUNDS):
            for name, command in commands.items():
                for python in PYTHONS:
                    taken.setdefault((name, python), []).append(_timed([python, *command]))
    rows = []
    for (name, python), rounds in taken.items():
        seconds, processor = (statistics.median(values) for values in zip(*rounds, strict=True))
        print(f"  {name:28} {seconds:6.1f} s   {python}")
        rows.append([f"`{name}`", *([python] if len(PYTHONS) > 1 else []), f"{seconds:.2f} s", f"{processor:.2f} s"])
    python_column = ["Python"] if len(PYTHONS) > 1 else []
    write_table("commands", ["Command", *python_column, "Time", "Processor time"], rows)


def _record(at: int) -> dict[str, object]:
    return {"key": f"o{at}", "value": {"CUSTOMER": f"c{at % 500}", "AMOUNT": at % 97}, "timestamp": at}


def _timed(command: list[str]) -> tuple[float, float]:
    """Return the seconds of a command, and the processor seconds of it, its JVM and its workers."""
    started, processor = time.perf_counter(), 0.0
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    while process.poll() is None:
        # The time of an ended process is lost unless its parent waited for it.
        processor = max(processor, processor_seconds(process.pid))
        time.sleep(0.1)
    if process.returncode:
        raise SystemExit(f"{' '.join(command[:4])} ended with {process.returncode}")
    return time.perf_counter() - started, processor
