"""`make demo`: one application, its records, a deliberate difference and its message; then all cases of the project."""

from __future__ import annotations

import io
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import redirect_stdout
from pathlib import Path
from types import MethodType

from kestrel_qtt.cli.main import main
from kestrel_qtt.drivers.driver import PlanningDriver
from kestrel_qtt.drivers.open import open_driver


def show(title: str, text: str = "") -> None:
    print(f"\n== {title}", *([text.rstrip()] if text else []), sep="\n", flush=True)


def shared() -> Callable[[], PlanningDriver]:
    """Give every run the same driver, so that Spark starts once."""
    driver = open_driver()
    driver.close = MethodType(lambda _: None, driver)  # type: ignore[method-assign]
    return lambda: driver


def first_steps(folder: Path, opened: Callable[[], PlanningDriver]) -> None:
    """Show a case that passes, and one that finds a slip in the application."""
    with redirect_stdout(io.StringIO()):
        main(["init", str(folder)])
    app, cases = folder / "app.sql", folder / "cases"
    show("an application, app.sql, as `qtt init` writes it", app.read_text())
    show("one of its three cases: records in, records out", (cases / "orders.yaml").read_text().split("\n\n")[1])
    app.write_text(app.read_text().replace(">= 10", "> 10"))
    show("now app.sql has a slip, > instead of >=; Spark starts and the three cases run")
    started = time.perf_counter()
    main(["run", str(cases)], opened)
    print(f"(this was `qtt run cases`, {time.perf_counter() - started:.0f} s with the start of Spark)")


def demo() -> int:
    opened = shared()
    with tempfile.TemporaryDirectory() as folder:
        first_steps(Path(folder) / "orders", opened)
    show("all cases of the project: planned as ksqlDB plans them, run on Spark")
    code = main(["run", "test-cases"], opened)
    show("next: `qtt init` begins a project of your own; docs/testing.md goes on from there")
    return code


if __name__ == "__main__":
    sys.exit(demo())
