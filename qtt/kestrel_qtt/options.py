"""The options that the command `qtt` and the pytest plugin share."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

from kestrel_qtt.drivers.driver import CARRIERS, DEFAULT_GROUP_SIZE, RunOptions


def positive(text: str) -> int:
    """Read a number above 0 of the command line; raise argparse.ArgumentTypeError."""
    if text.isdecimal() and int(text) > 0:
        return int(text)
    raise argparse.ArgumentTypeError(f"expected a positive number, got {text!r}")


def pair(text: str) -> tuple[str, str]:
    """Read NAME=VALUE of the command line; raise argparse.ArgumentTypeError."""
    name, separator, value = text.partition("=")
    if not (name and separator):
        raise argparse.ArgumentTypeError(f"expected NAME=VALUE, got {text!r}")
    return name, value


def _cut(text: str) -> str:
    if text in ("one", "each") or (text.startswith("random:") and text[7:].isdecimal()):
        return text
    raise argparse.ArgumentTypeError(f"expected one, each or random:SEED, got {text!r}")


LOAD_OPTIONS: Mapping[str, Mapping[str, Any]] = MappingProxyType(
    {
        "ksqldb": {
            "action": "store_true",
            "help": "the cases are ksqlDB's own: ignore unknown members and topics that no output names, allow its test"
            " functions (default for folders that are called as ksqlDB calls its own, such as query-validation-tests)",
        },
    }
)
"""The options of every command that loads cases, as argparse wants them; the pytest plugin has them as `--qtt-…`."""

RUN_OPTIONS: Mapping[str, Mapping[str, Any]] = MappingProxyType(
    {
        "tolerant-errors": {
            "action": "store_true",
            "help": "accept any rejection of the right statement, whatever its message",
        },
        "cut": {
            "type": _cut,
            "metavar": "HOW",
            "help": "cut the input into micro-batches: one, each or random:SEED",
        },
        "restart": {
            "action": "store_true",
            "help": "stop every query in the middle and restart it from its checkpoint",
        },
        "group-size": {
            "type": positive,
            "default": DEFAULT_GROUP_SIZE,
            "metavar": "N",
            "help": "how many cases share a Spark query",
        },
    }
)
"""The options of every command that runs cases, in the same form."""

CARRIER_OPTIONS: Mapping[str, Mapping[str, Any]] = MappingProxyType(
    {
        "on": {
            "choices": CARRIERS,
            "help": "what carries the queries of cases of records: memory streams of Spark, or this process without a"
            " JVM (default: spark; process for watch, mutate, shrink, coverage and the fixture qtt)",
        },
        "local": {"action": "store_const", "const": "process", "dest": "on", "help": "the same as `on` process"},
        "cold": {
            "action": "store_true",
            "help": "start a Spark for this run alone, and leave none behind (default where the variable CI is set)",
        },
    }
)
"""The options that choose what carries queries, in the same form."""


def run_options(value: Callable[[str], Any], jobs: int = 1) -> RunOptions:
    """The options of a run; `value` gives what an option of RUN_OPTIONS is set to."""
    return RunOptions(value("cut"), value("restart"), value("group-size"), jobs)
