"""What each step of a plan does, in the words of its statement."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import fields
from typing import Any

from kestrel_sql.plan.codec.objects import json_name
from kestrel_sql.plan.table import STEPS

_INPUTS = ("source", "leftSource", "rightSource")


def step_texts(step: Mapping[str, Any]) -> Iterator[list[str]]:
    """Describe an encoded step, then those above its inputs, each as one line a clause; the step comes first."""
    words = {json_name(each): each.metadata.get("word") for each in fields(STEPS[step["@type"]])}
    yield [f"{word} {text}" for name, word in words.items() if word and (text := _clause(name, step.get(name)))]
    for name in _INPUTS:
        if name in step:
            yield from step_texts(step[name])


def _clause(field: str, value: Any) -> str:
    text = _text(value)
    # A plan has durations in seconds with nine digits after the point.
    return f"{text.rstrip('0').rstrip('.')} s" if text and field.endswith("Millis") else text


def _text(value: Any) -> str:
    """The parts of a value that are set, without the names of its members."""
    match value:
        case None:
            return ""
        case {"value": number, "timeUnit": unit}:
            return f"{number} {unit}"
        case Mapping():
            return " ".join(filter(None, map(_text, value.values())))
        case [*items]:
            return ", ".join(map(_text, items))
        case _:
            return str(value)
