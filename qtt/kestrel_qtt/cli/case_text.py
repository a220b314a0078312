"""Write a case as YAML, as a person would."""

from __future__ import annotations

import re
from collections.abc import Mapping

from kestrel_qtt.judge.json_text import write_json

_SIMPLE = re.compile(r"[A-Za-z][^\n:#'\"{}\[\]]*(?:'[^\n:#\"{}\[\]]*)*")

_UNREAD = re.compile("[\x7f-\x9f\u2028\u2029\ufeff]")
"""What breaks lines in YAML or is left out, though JSON has it as it is."""


def case_text(document: Mapping[str, object]) -> str:
    """Return the members of a case as a YAML file with one statement or record a line."""
    lines = ["tests:"]
    for number, (name, member) in enumerate(document.items()):
        head = f"  {'- ' if number == 0 else '  '}{name}:"
        if isinstance(member, list) and member:
            lines.append(head)
            lines += [f"      - {_item(item)}" for item in member]
        else:
            lines.append(f"{head} {_flow(member)}")
    return "\n".join(lines) + "\n"


def _item(value: object) -> str:
    """Return an element of a list: a statement of several lines as such, everything else in one line."""
    if isinstance(value, str) and "\n" in value and re.fullmatch(r"[!-~][ -~\n]*[!-~]", value):
        return "|-\n" + "\n".join(f"        {line}" if line else "" for line in value.split("\n"))
    return _flow(value)


def _flow(value: object) -> str:
    """Return a value as JSON, which YAML reads too; plain where it is a simple statement."""
    if isinstance(value, str) and not _UNREAD.search(value) and _SIMPLE.fullmatch(value):
        return value
    text = write_json(value)  # type: ignore[arg-type]
    return _UNREAD.sub(lambda found: f"\\u{ord(found[0]):04x}", text)
