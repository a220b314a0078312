"""A damaged plan either decodes or raises a PlanError; no other error escapes."""

from __future__ import annotations

import copy
import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kestrel_sql.dataflow.query_run import QueryRun
from kestrel_sql.errors import EngineError, PlanError
from kestrel_sql.plan.codec.plan_file import decode_plan, decode_statement, encode_statement, load_plan
from kestrel_sql.session.session import Session
from kestrel_sql.spark.pipeline.pipeline import build_pipeline
from tests.engine.plan import plan_samples

STORE = Path(__file__).resolve().parents[3] / "historic-plans"
NUMBERS = (-1, 0, 2**31, 2**63, 10**400, 1.5, 1e308)
TEXTS = ("", "x", "`", "'", "\ud800", "A" * 5000, "(" * 3000, "\0")
ODD = (None, True, *NUMBERS, *TEXTS, [], [[]], [None], {}, {"@type": 1})
ROUNDS = 2_000


def members(document: Any) -> list[tuple[Any, Any]]:
    """Every (container, key) in the document."""
    if isinstance(document, dict):
        own = [(document, key) for key in document]
        return own + [inner for member in document.values() for inner in members(member)]
    if isinstance(document, list):
        own = [(document, i) for i in range(len(document))]
        return own + [inner for item in document for inner in members(item)]
    return []


def mutate(document: Any, rng: random.Random) -> None:
    container, key = rng.choice(members(document))
    value = container[key]
    match rng.randrange(6):
        case 0:
            del container[key]
        case 1 if isinstance(value, str) and value:
            container[key] = value[: rng.randrange(len(value))]
        case 2 if isinstance(value, str):
            at = rng.randrange(len(value) + 1)
            container[key] = value[:at] + rng.choice("`'\"()[]<>,.-+ \n\0\u00e9\u2028") + value[at:]
        case 3 if isinstance(container, dict):
            container[rng.choice(["x", "", "@type", "source", "a.b", key.upper()])] = container.pop(key)
        case 4:
            container[key] = copy.deepcopy(rng.choice(members(document))[0])
        case _:
            container[key] = copy.deepcopy(rng.choice(ODD))


def attempt(read: Callable[[Any], Any], document: Any) -> Any:
    """Return what `read` returns, or the PlanError it raises; any other error fails the test."""
    try:
        return read(document)
    except PlanError as error:
        return error


def damaged(seed: int, rounds: int) -> None:
    """Damage statements of plans; each is refused with a path, or survives a round trip."""
    rng = random.Random(seed)
    statements = plan_samples.plan()["plan"]
    refused = read = 0
    for _ in range(rounds):
        document = copy.deepcopy(rng.choice(statements))
        for _ in range(rng.randint(1, 3)):
            if members(document):
                mutate(document, rng)
        outcome = attempt(decode_statement, document)
        if isinstance(outcome, PlanError):
            refused += 1
            assert outcome.path.startswith("$")
            assert len(outcome.message) < 2_000
        else:
            read += 1
            assert decode_statement(encode_statement(outcome)) == outcome
    assert refused > rounds // 10
    assert read > rounds // 20


def test_damaged_documents() -> None:
    damaged(20261120, ROUNDS)


@pytest.mark.nightly
def test_a_hundred_thousand_damaged_documents() -> None:
    damaged(20261121, 100_000)


def run_as_far_as_spark(document: Any) -> None:
    """Read, execute and compile a plan; a refusal is an EngineError, no other error is raised."""
    try:
        session = Session()
        for statement in decode_plan(document).statements:
            session.execute_plan(statement)
        for query in session.queries.values():
            build_pipeline([QueryRun(plan=query.plan, settings=query.config, serde=session.serde())], session.functions)
    except EngineError:
        return


def compiled(seed: int, rounds: int) -> None:
    rng = random.Random(seed)
    plans = [json.loads(file.read_text(encoding="utf-8")) for file in sorted(STORE.glob("[jow]*/**/plan.json"))]
    for _ in range(rounds):
        document = copy.deepcopy(rng.choice(plans))
        mutate(document, rng)
        run_as_far_as_spark(document)


def test_damaged_plans_are_refused_before_anything_starts() -> None:
    compiled(3, 150)


@pytest.mark.nightly
def test_many_damaged_plans_are_refused_before_anything_starts() -> None:
    compiled(4, 10_000)


def test_damaged_texts() -> None:
    rng = random.Random(7)
    text = json.dumps({"plan": plan_samples.plan()["plan"][:3]})
    for _ in range(500):
        at = rng.randrange(len(text))
        damaged = text[:at] + rng.choice(["", "}", '"', "\\", "1e9", "\0", "[["]) + text[at + rng.randrange(3) :]
        attempt(load_plan, damaged)


def test_damaged_files() -> None:
    for odd in ODD:
        for document in (
            odd,
            {"plan": odd},
            {"plan": [odd]},
            {"plan": [], "configs": odd},
            {"plan": [], "configs": {"a": odd}},
        ):
            attempt(decode_plan, document)
