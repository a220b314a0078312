"""Run benchmarks by name: `python -m tests.bench cases expressions`; without names, all of them in turn.

Environment variables say how much each of them measures.
"""

from __future__ import annotations

import importlib
import os
import sys
from pathlib import Path

from pyspark.sql import SparkSession

from tests.bench.measure import ROOT


def names() -> list[str]:
    """The benchmarks there are."""
    own = {"__init__", "__main__", "kafka_jobs", "measure", "scale_model", "tables"}
    return sorted(file.stem for file in Path(__file__).parent.glob("*.py") if file.stem not in own)


def main(wanted: list[str]) -> int:
    """Run the wanted benchmarks, all if none is named."""
    unknown = sorted(set(wanted) - set(names()))
    if unknown:
        print(f"no benchmark called {', '.join(unknown)}; there are: {', '.join(names())}", file=sys.stderr)
        return 2
    # Processes have the byte code of the engine, as those of an installed package: to compile it took each over a second.
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    # Spark's workers, and the processes of a benchmark, import what it passes to them.
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH"))))
    for name in wanted or names():
        print(f"== {name}", flush=True)
        importlib.import_module(f"tests.bench.{name}").main()
        # The next one has settings of its own.
        if session := SparkSession.getActiveSession():
            session.stop()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
