"""How long `qtt mutate` takes for about 200 mutants against 20 cases.

python -m tests.bench mutate                (CASES=20 by default, as an environment variable)
"""

from __future__ import annotations

import os
import time
from pathlib import Path

from kestrel_qtt.cases.model import Case
from kestrel_qtt.drivers.open import open_driver
from kestrel_qtt.variants.mutation import mutate
from tests.bench.measure import machine
from tests.bench.shrink import STATEMENTS, completed, inputs

CASES = int(os.environ.get("CASES", "20"))
RECORDS = 8


def _columns(n: int) -> str:
    return (
        f"N{n} + {n} AS SUM{n}, (N{n} - N{n + 1}) * 3 AS GAP{n}, LCASE(T{n}) AS T{n},"
        f" CASE WHEN N{n} > 20 THEN 'high' ELSE 'low' END AS GRADE{n}"
    )


MORE = tuple(
    f"CREATE STREAM F{n} AS SELECT ID, {', '.join(map(_columns, range(n, n + 3)))}"
    f" FROM S WHERE N{n} BETWEEN 5 AND 35 AND T{n} <> 'salt';"
    for n in (0, 3, 6)
)


def main() -> None:
    """Print the mutants, the score and the seconds."""
    driver = open_driver("process")
    try:
        made = [
            Case(
                id=f"b::{n}",
                file=Path("b"),
                line=n + 1,
                name=f"{n}",
                statements=(*STATEMENTS, *MORE),
                inputs=inputs(n, RECORDS),
            )
            for n in range(CASES)
        ]
        cases = completed(made, driver)
        started = time.perf_counter()

        def tell(line: str) -> None:
            print(f"  {time.perf_counter() - started:6.1f} s  {line}", flush=True)

        print(f"{machine()}, {CASES} cases of {RECORDS} records, {len(made[0].statements)} statements")
        result = mutate(cases, driver, lambda file, text: True, tell)
        seconds = time.perf_counter() - started
        print(f"  {len(result.tried)} mutants in {seconds:.1f} s, score {100 * result.score:.0f} %")
    finally:
        driver.close()
