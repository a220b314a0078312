"""Run benchmarks by name: `python -m tests.bench cases expressions`; without names, all of them in turn."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path


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
    for name in wanted or names():
        print(f"== {name}")
        importlib.import_module(f"tests.bench.{name}").main()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
