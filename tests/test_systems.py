"""The process carrier runs on a Python without what Windows lacks, and Spark is refused there by name."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
WITHOUT = """
import os, signal, socket, sys
from importlib import import_module

for name in ("fcntl", "grp", "pwd", "resource", "termios"):
    sys.modules[name] = None
for module, names in (
    (os, ("fork", "geteuid", "getuid", "killpg", "register_at_fork", "setsid")),
    (signal, ("ITIMER_VIRTUAL", "SIGALRM", "SIGHUP", "SIGKILL", "SIGVTALRM", "setitimer")),
    (socket, ("AF_UNIX",)),
):
    for name in names:
        delattr(module, name)
sys.exit(import_module(sys.argv[1]).main(sys.argv[2:]))
"""
CASES = str(ROOT / "test-cases" / "filters" / "predicates.json")
SHELL = """
CREATE STREAM S (K STRING KEY, V STRING) WITH (kafka_topic='s', value_format='JSON', partitions=1);
INSERT INTO S VALUES ('a', 'xaab');
INSERT INTO S VALUES ('b', 'aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaab');
SELECT K, REGEXP_EXTRACT('a+', V) AS FOUND, REGEXP_EXTRACT('(a+)+$', V) AS SLOW FROM S EMIT CHANGES;
"""


def run(module: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", WITHOUT, module, *arguments]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300, check=False)


def test_a_shell_with_patterns_of_which_one_takes_too_long() -> None:
    done = run("kestrel_sql.cli.main", "shell", "--execute", SHELL)
    assert done.stdout.splitlines()[-2:] == ["a\taa\t\\N", f"b\t{'a' * 36}\t\\N"], done.stderr
    assert "1 bad record" in done.stderr


def test_cases_run_in_the_process() -> None:
    done = run("kestrel_qtt.cli.main", "run", CASES, "--local")
    assert done.returncode == 0, done.stdout + done.stderr


def test_spark_is_refused_by_name() -> None:
    done = run("kestrel_qtt.cli.main", "run", CASES, "-k", "null")
    assert done.returncode == 1
    assert "queries on Spark and on brokers need Linux or macOS" in done.stdout
