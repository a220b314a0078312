from __future__ import annotations

import subprocess
import sys
from typing import Any

from pyspark import cloudpickle

from kestrel_sql.spark.state.processor import LateProcessor
from kestrel_sql.spark.state.transform_with_state import Host
from tests.engine.spark.state.level_samples import level

_DRIVER = """
import pickle, sys

class Handle:
    def getValueState(self, name, schema):
        print(name)

processor = pickle.load(sys.stdin.buffer)
processor.init(Handle())
processor.close()
print(sorted(name for name in sys.modules if name.startswith("kestrel_sql.") or name == "pyarrow"))
"""


class Within:
    """Returns its input."""

    def open(self, state: Any) -> None:
        self.state = state

    def handleInputRows(self, key: Any, rows: Any, timers: Any) -> Any:  # noqa: N802 - Spark's name
        yield from ((self.state, key, row) for row in rows)


class Handle:
    def getValueState(self, name: str, schema: Any) -> str:  # noqa: N802 - Spark's name
        return f"state of {name}"


def test_the_driver_learns_the_state_variables_without_importing_the_engine() -> None:
    pickled = cloudpickle.dumps(LateProcessor(Host(level())))
    out = subprocess.run(
        [sys.executable, "-c", _DRIVER], input=pickled, capture_output=True, check=True
    ).stdout.decode()
    assert out.splitlines() == [
        "page",
        "['kestrel_sql.spark', 'kestrel_sql.spark.state', 'kestrel_sql.spark.state.processor']",
    ]


def test_rows_go_to_the_pickled_processor_with_the_state() -> None:
    processor = LateProcessor(Within())
    processor.init(Handle())  # type: ignore[arg-type]
    assert list(processor.handleInputRows((0, 1), iter("ab"), None)) == [
        ("state of page", (0, 1), "a"),
        ("state of page", (0, 1), "b"),
    ]
    assert list(processor.handleInputRows((0, 2), iter("c"), None)) == [("state of page", (0, 2), "c")]
    processor.close()
