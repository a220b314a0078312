"""Mutated statements and properties: a session plans them down to the pipeline, or refuses them with an error of ours."""

from __future__ import annotations

import random
import time
import traceback
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

from kestrel_qtt.cases.discovery import find_files
from kestrel_qtt.load import load_all
from kestrel_sql.dataflow.query_run import QueryRun
from kestrel_sql.errors import EngineError
from kestrel_sql.planner.config import DEFAULTS, Config
from kestrel_sql.session.session import Session
from kestrel_sql.spark.pipeline.pipeline import build_pipeline
from tests.test_cuts import in_one_format

CASES = Path(__file__).resolve().parents[2] / "test-cases"
LIMIT_SECONDS = 20.0
_JUNK = [
    *(
        "(",
        ")",
        "[",
        "]",
        "<",
        ">",
        ",",
        ";",
        "'",
        "`",
        '"',
        ".",
        "->",
        "=>",
        ":=",
        "*",
        "-",
        "--",
        "/*",
        "*/",
        "||",
        "\\",
        "\x00",
        "\ud800",
    ),
    *(
        "NULL",
        "STRUCT<",
        "ARRAY[",
        "MAP(",
        "CASE WHEN",
        "CAST(",
        " AS ",
        "NOT ",
        "-" * 300,
        "(" * 300,
        "1+" * 400 + "1",
        "TRUE AND " * 300,
    ),
    *(
        "9" * 400,
        "1e999999999",
        "1e-999999999",
        "0.1" + "0" * 400,
        "DECIMAL(99, 98)",
        "DECIMAL(0, -1)",
        "${x}",
        "é" * 3,
        "WINDOW ",
        "EMIT FINAL",
    ),
]
_VALUES = [
    "",
    "true",
    "false",
    "x",
    "-1",
    "0",
    "9" * 30,
    "1e9",
    "NaN",
    "../x",
    "\x00",
    "\ud800",
    "earliest",
    "JSON",
    "é",
    "null",
    "{}",
    "'",
]


@cache
def scripts() -> tuple[str, ...]:
    """The statements of each case of the project, in one format."""
    cases = in_one_format(load_all(find_files([CASES])).cases)
    return tuple(dict.fromkeys("\n".join(case.statements) for case in cases))


def mutated(rng: random.Random, text: str) -> str:
    """Damage a text at a few positions, often with parts of other statements."""
    for _ in range(rng.choice((1, 1, 2, 4))):
        at, length = rng.randrange(len(text) + 1), rng.choice((0, 1, 3, 10, 40))
        match rng.randrange(4):
            case 0:
                text = text[:at] + text[at + length :]
            case 1:
                text = text[:at] + rng.choice(_JUNK) + text[at:]
            case 2:
                other = rng.choice(scripts())
                start = rng.randrange(len(other) + 1)
                text = text[:at] + other[start : start + rng.choice((5, 20, 80))] + text[at + length :]
            case _:
                words = text.split(" ")
                one, two = rng.randrange(len(words)), rng.randrange(len(words))
                words[one], words[two] = words[two], words[one]
                text = " ".join(words)
    return text


def properties(rng: random.Random) -> dict[str, str]:
    """Return random values of a few properties."""
    names = [*DEFAULTS, "ksql.streams.num.stream.threads", "ksql.functions.x", "unknown", "", "\x00"]
    return {rng.choice(names): rng.choice(_VALUES) for _ in range(rng.randint(1, 3))}


def plan(text: str, given: dict[str, str]) -> None:
    """Plan and compile a script as a session does.

    Raises:
        EngineError: a property or a statement is refused.
    """
    session = Session(config=Config.of(given))
    for parsed in session.parse(text):
        session.execute(parsed)
    for query in session.queries.values():
        build_pipeline([QueryRun(plan=query.plan, settings=query.config, serde=session.serde())], session.functions)


def mutants(seed: int, make: Callable[[random.Random], tuple[str, dict[str, str]]], count: int) -> Iterator[str]:
    """Plan `count` mutants; yield those that give another error than ours or take too long."""
    rng = random.Random(seed)
    for _ in range(count):
        text, given = make(rng)
        start = time.monotonic()
        try:
            plan(text, given)
        except EngineError as error:
            str(error).encode("utf-8", "surrogatepass")
        except Exception as error:  # noqa: BLE001 - any other error is the finding
            last = traceback.extract_tb(error.__traceback__)[-1]
            yield f"{type(error).__name__} at {last.filename}:{last.lineno}: {str(error)[:200]}\n{given}\n{text[:2000]}"
        if time.monotonic() - start > LIMIT_SECONDS:
            yield f"took {time.monotonic() - start:.0f} s\n{given}\n{text[:2000]}"


def damaged_statements(seed: int, count: int) -> list[str]:
    """Plan mutated scripts; return what is not as it must be."""
    return list(mutants(seed, lambda rng: (mutated(rng, rng.choice(scripts())), {}), count))


def odd_properties(seed: int, count: int) -> list[str]:
    """Plan scripts under odd properties; return what is not as it must be."""
    return list(mutants(seed, lambda rng: (rng.choice(scripts()), properties(rng)), count))
