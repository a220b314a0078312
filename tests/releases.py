"""Runs suites on other releases of Spark and of Python than those that are installed here.

    python -m tests.releases                           (EVERY=10: a tenth of the cases and stored plans)
    EVERY=1 python -m tests.releases                   (all of them)
    PYTHONS="3.12 3.13" SPARKS=4.3.0 INTO=README.md python -m tests.releases

Each release of Spark is downloaded into a folder of its own, which comes before this environment's packages. Each of
`PYTHONS` gets an environment made by uv, which downloads an interpreter that the machine lacks. Every Python runs every
one of `SPARKS`. `KEEP` names a folder where the downloads stay.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from itertools import product
from pathlib import Path

import pyspark

from kestrel_sql.spark.releases import BROKER_RELEASES
from tests.bench.tables import write_table

RELEASES = tuple(os.environ.get("SPARKS", f"4.1.4 4.2.1 {pyspark.__version__}").split())
"""The last of each minor release."""

_HERE = ".".join(map(str, sys.version_info[:2]))
PYTHONS = tuple(os.environ.get("PYTHONS", _HERE).split())

EVERY = os.environ.get("EVERY", "10")
_ROOT = Path(__file__).resolve().parents[1]
_QTT = ("-m", "kestrel_qtt.cli.main")
_PYTEST = ("-m", "pytest", "-q", "-n0", "-p", "no:cacheprovider", "-m", "not nightly")
SUITES = {
    "cases": (*_QTT, "run", "test-cases", "--every", EVERY),
    "cut and restarted": (*_QTT, "run", "test-cases", "--every", EVERY, "--cut", "random:1", "--restart"),
    "stored plans": (*_QTT, "plans", "run", "historic-plans", "--every", EVERY),
    "run and serve on a broker": (*_PYTEST, "tests/kafka/test_run.py", "tests/kafka/test_serve.py"),
}
_ON_A_BROKER = "run and serve on a broker"
_SUMMARY = re.compile(r"^\d+ (?:passed|failed|errors?)\b.*", re.MULTILINE)


def main() -> int:
    """Run all suites on all releases, print the table, and give 1 if any failed."""
    rows, failed = [], False
    kept = os.environ.get("KEEP")
    folder = Path(kept or tempfile.mkdtemp(prefix="kestrel-releases-"))
    try:
        paths = {release: _downloaded(release, folder) for release in RELEASES}
        for version, (release, path) in product(PYTHONS, paths.items()):
            python = _environment(version, folder)
            for suite, arguments in SUITES.items():
                if suite == _ON_A_BROKER and release not in BROKER_RELEASES:
                    said = "refused by name"
                else:
                    said, is_well = _run((python, *arguments), path)
                    failed |= not is_well
                rows.append((release, version, suite, said))
                print(*rows[-1], sep="  ", flush=True)
    finally:
        if kept is None:
            shutil.rmtree(folder, ignore_errors=True)
    write_table("releases", ("Spark", "Python", f"Suite, one in {EVERY}" if EVERY != "1" else "Suite", "Result"), rows)
    return int(failed)


def _environment(version: str, folder: Path) -> str:
    """The interpreter of an environment that has what the tests need."""
    if version == _HERE:
        return sys.executable
    environment = folder / f"python-{version}"
    python = environment / "bin" / "python"
    if not python.exists():
        _uv("venv", "--quiet", "--python", version, str(environment))
        _uv("pip", "install", "--quiet", "--python", str(python), f"{_ROOT}[dev]")
    return str(python)


def _uv(*arguments: str) -> None:
    subprocess.run([sys.executable, "-m", "uv", *arguments], check=True)


def _downloaded(release: str, folder: Path) -> str:
    """The folder of a release for PYTHONPATH; nothing for that of this environment."""
    if release == pyspark.__version__:
        return ""
    target = folder / release
    if not (target / "pyspark").is_dir():
        pip = (sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-compile", "--target", str(target))
        subprocess.run([*pip, f"pyspark=={release}"], check=True)
    return str(target)


def _run(command: Sequence[str], path: str) -> tuple[str, bool]:
    """What a suite says in its last line, and whether all went well."""
    parts = [path, str(_ROOT / "engine"), str(_ROOT / "qtt"), str(_ROOT)]
    variables = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, parts)), "KESTREL_COLD": "1"}
    # SPARK_HOME would be that of another release.
    variables.pop("SPARK_HOME", None)
    started = time.monotonic()
    done = subprocess.run(command, cwd=_ROOT, env=variables, capture_output=True, text=True, check=False)
    summary = _SUMMARY.findall(done.stdout)
    if done.returncode:
        print(done.stdout, done.stderr, file=sys.stderr)
    words = summary[-1].partition(" in ")[0] if summary else f"exit code {done.returncode}"
    return f"{words}, {time.monotonic() - started:.0f} s", not done.returncode


if __name__ == "__main__":
    sys.exit(main())
