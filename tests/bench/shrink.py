"""How long `qtt shrink` takes for a failure planted in a case of 40 records, 6 statements and 20 columns.

python -m tests.bench shrink                (CASES=20 by default, as an environment variable)
"""

from __future__ import annotations

import os
import random
import statistics
import time
from collections.abc import Sequence
from pathlib import Path

from msgspec.structs import replace

from kestrel_qtt.cases.model import Case, InputRecord, Json, OutputRecord, Produced
from kestrel_qtt.cases.read_json import parse_json
from kestrel_qtt.drivers.driver import Driver, RunOptions
from kestrel_qtt.drivers.open import open_driver
from kestrel_qtt.judge.json_text import write_json
from kestrel_qtt.runner import run_group
from kestrel_qtt.variants.shrink import shrink
from tests.bench.measure import machine

CASES = int(os.environ.get("CASES", "20"))
RECORDS = 40
NUMBERS, TEXTS = tuple(f"N{n}" for n in range(10)), tuple(f"T{n}" for n in range(10))
STATEMENTS = (
    (
        f"CREATE STREAM S (ID STRING KEY, {', '.join([f'{n} INT' for n in NUMBERS] + [f'{t} STRING' for t in TEXTS])})"
        " WITH (KAFKA_TOPIC='s', VALUE_FORMAT='JSON', PARTITIONS=1);"
    ),
    "CREATE STREAM A AS SELECT * FROM S WHERE N0 > 5;",
    (
        "CREATE STREAM B AS SELECT ID, N1 + N2 AS SUM, UCASE(T1) AS BIG, SUBSTRING(T2, 1, 2) AS HEAD, N3 * 2 AS DOUBLED"
        " FROM S WHERE N4 >= 10 OR N5 < 20;"
    ),
    "CREATE TABLE C AS SELECT T3, COUNT(*) AS N, SUM(N6) AS TOTAL, MAX(N7) AS HIGH FROM S GROUP BY T3;",
    "CREATE TABLE D AS SELECT ID, COUNT(*) AS N FROM A WINDOW TUMBLING (SIZE 10 SECONDS) GROUP BY ID;",
    (
        "CREATE STREAM E AS SELECT ID, CASE WHEN DOUBLED > 50 THEN 'high' WHEN SUM > 60 THEN 'some' ELSE 'low' END AS GRADE"
        " FROM B;"
    ),
)


def inputs(seed: int, count: int = RECORDS) -> tuple[InputRecord, ...]:
    """Return records with values that a seed chooses."""
    chosen = random.Random(seed)
    return tuple(
        InputRecord(
            topic="s",
            key=chosen.choice("abcd"),
            value={
                **{name: chosen.randrange(40) for name in NUMBERS},
                **{name: chosen.choice(("tea", "milk", "rice", "salt")) for name in TEXTS},
            },
            timestamp=number * 1000,
        )
        for number in range(count)
    )


def completed(cases: Sequence[Case], driver: Driver) -> list[Case]:
    """Return the cases with the outputs that they have."""
    found = []
    for case, outcome, _ in run_group(cases, driver, RunOptions()):
        if not isinstance(outcome, Produced):
            raise TypeError(outcome.message)
        outputs = tuple(
            OutputRecord(
                topic=topic,
                key=_json(record.key),
                value=_json(record.value),
                timestamp=record.timestamp,
                window=record.window,
            )
            for topic, records in outcome.records.items()
            for record in records
        )
        found.append(replace(case, outputs=outputs))
    return found


def _json(value: object) -> Json:
    return parse_json(write_json(value))  # type: ignore[arg-type]


def planted(case: Case, seed: int) -> Case:
    """Return the case with one wrong value in an expected record."""
    chosen, outputs = random.Random(seed), list(case.outputs or ())
    at = chosen.choice([n for n, record in enumerate(outputs) if isinstance(record.value, dict)])
    value = dict(outputs[at].value)  # type: ignore[arg-type]
    name = chosen.choice(sorted(value))
    old = value[name]
    value[name] = old + 1 if isinstance(old, int) else f"{old}?"
    outputs[at] = replace(outputs[at], value=value)
    return replace(case, outputs=tuple(outputs))


def main() -> None:
    """Print the seconds of each shrink, and what is left of the case."""
    print(f"{machine()}, {CASES} planted failures, {RECORDS} records, {len(STATEMENTS)} statements, 20 columns")
    driver = open_driver("process")
    try:
        made = [
            Case(id=f"b::{n}", file=Path("b"), line=1, name=f"{n}", statements=STATEMENTS, inputs=inputs(n))
            for n in range(CASES)
        ]
        taken = []
        for number, case in enumerate(completed(made, driver)):
            started = time.perf_counter()
            small, reason = shrink(planted(case, number), driver, lambda line: None)
            taken.append(time.perf_counter() - started)
            sizes = f"{len(small.inputs)} records, {len(small.statements)} statements"
            print(f"  {taken[-1]:6.1f} s  {sizes}: {reason.text[:90]}", flush=True)
        print(f"  median {statistics.median(taken):.1f} s, slowest {max(taken):.1f} s")
    finally:
        driver.close()
