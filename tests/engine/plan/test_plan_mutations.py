"""Plans that were damaged on the way are refused with a PlanError or read, and nothing else."""

from __future__ import annotations

import copy
import json
import random
from collections.abc import Callable
from typing import Any

import plan_samples

from engine.errors import PlanError
from engine.plan.codec import decode_plan, decode_statement, encode_statement, load_plan

NUMBERS = (-1, 0, 2**31, 2**63, 10**400, 1.5, 1e308)
TEXTS = ("", "x", "`", "'", "\ud800", "A" * 5000, "(" * 3000, "\0")
ODD = (None, True, *NUMBERS, *TEXTS, [], [[]], [None], {}, {"@type": 1})
ROUNDS = 2_000


def places(document: Any) -> list[tuple[Any, Any]]:
    """Every (container, key) in the document."""
    if isinstance(document, dict):
        own = [(document, key) for key in document]
        return own + [place for member in document.values() for place in places(member)]
    if isinstance(document, list):
        own = [(document, i) for i in range(len(document))]
        return own + [place for item in document for place in places(item)]
    return []


def mutate(document: Any, rng: random.Random) -> None:
    container, key = rng.choice(places(document))
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
            container[key] = copy.deepcopy(rng.choice(places(document))[0])
        case _:
            container[key] = copy.deepcopy(rng.choice(ODD))


def attempt(read: Callable[[Any], Any], document: Any) -> Any:
    """What `read` gives, or the PlanError it raises; any other error fails the test."""
    try:
        return read(document)
    except PlanError as error:
        return error


def test_damaged_documents() -> None:
    rng = random.Random(20261120)
    statements = plan_samples.plan()["plan"]
    outcomes = []
    for _ in range(ROUNDS):
        document = copy.deepcopy(rng.choice(statements))
        for _ in range(rng.randint(1, 3)):
            if places(document):
                mutate(document, rng)
        outcomes.append(attempt(decode_statement, document))
    refused = [outcome for outcome in outcomes if isinstance(outcome, PlanError)]
    read = [outcome for outcome in outcomes if not isinstance(outcome, PlanError)]
    assert refused
    assert read
    assert all(error.path.startswith("$") and len(error.message) < 2_000 for error in refused)
    assert all(decode_statement(encode_statement(statement)) == statement for statement in read)


def test_damaged_texts() -> None:
    rng = random.Random(7)
    text = json.dumps({"plan": plan_samples.plan()["plan"][:3]})
    for _ in range(500):
        at = rng.randrange(len(text))
        damaged = text[:at] + rng.choice(["", "}", '"', "\\", "1e9", "\0", "[["]) + text[at + rng.randrange(3) :]
        attempt(load_plan, damaged)


def test_damaged_files() -> None:
    for odd in ODD:
        for document in (odd, {"plan": odd}, {"plan": [odd]}, {"plan": [], "configs": odd}, {"plan": [], "configs": {"a": odd}}):
            attempt(decode_plan, document)
