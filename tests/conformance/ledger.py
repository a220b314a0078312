"""Write the ledger of ksqlDB cases that do not pass, from a report of `qtt run … --json`.

Usage: `python tests/conformance/ledger.py REPORT.json [LEDGER.yaml]`. The ledger gets every case of the report that did
not pass and loses those that did; reasons and kinds written by hand are kept, and so are cases that the report says
nothing about. Generated reasons name the symptom only: nothing of ksqlDB's corpus is copied but the ids.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kestrel_qtt.cases.known_gaps import GapKind, Ledger, load_gaps

HEADER = """\
# The cases of ../shared/ksqldb/{corpus} that do not pass yet; `make {target}` writes this file.
# A listed case that passes and an unlisted one that fails both fail the run, so that the list only shrinks.
# A reason or kind (notimpl, notyet, never) changed by hand is kept as long as the case fails.
"""
WRITTEN_BY = {"known-gaps-plans.yaml": ("historic-plans", "plans")}
"""Corpus and make target of a ledger by its name, where they are not the usual ones."""

SYMPTOMS = (
    (r"(statement \d+.*|the script) was rejected:", "a statement is refused that should be accepted"),
    (r"the query failed:", "the query fails"),
    (
        r"the statement should have been rejected, but the query failed later:",
        "the query fails where its statement should be refused",
    ),
    (r"an exception was expected, but every", "a statement is accepted that should be refused"),
    (r"the last statement should have been rejected, but", "an earlier statement is refused than should be"),
    (r"topic [^\n]*", "other records than expected"),
    (r"(error code .* was expected|the message does not contain)", "refused for another reason than expected"),
    (r"an output record cannot be read back", "an output record cannot be read back"),
)
CRASH = "the engine crashes"
OTHER = "post conditions or log differ"
GENERATED = frozenset({CRASH, OTHER, *(text for _, text in SYMPTOMS)})


@dataclass(frozen=True, slots=True)
class Entry:
    """One line of the ledger."""

    case: str
    reason: str
    kind: GapKind


def symptom(status: str, reason: str) -> str:
    """Name what went wrong, without a word of the case."""
    for pattern, text in SYMPTOMS:
        if re.match(pattern, reason):
            return text
    return CRASH if status == "error" else OTHER


def updated(old: Ledger, cases: Iterable[Mapping[str, Any]]) -> list[Entry]:
    """Make the new ledger from the old one and the cases of a report, sorted by id."""
    entries = {gap.case: Entry(gap.case, gap.reason, gap.kind) for gap in old.values()}
    for case in cases:
        name, kept = case["id"], entries.pop(case["id"], None)
        is_known_gap = case["status"] == "skipped" and case["reason"].startswith("known gap")
        if kept is not None and is_known_gap:
            entries[name] = kept
        elif case["status"] in ("failed", "error"):
            by_hand = kept is not None and (kept.reason not in GENERATED or kept.kind is not GapKind.NOTIMPL)
            entries[name] = (
                kept if kept and by_hand else Entry(name, symptom(case["status"], case["reason"]), GapKind.NOTIMPL)
            )
    return sorted(entries.values(), key=lambda entry: entry.case)


def written(entries: Iterable[Entry], name: str) -> str:
    """Write the ledger called `name` as YAML, one flat entry per case."""
    corpus, target = WRITTEN_BY.get(name, ("query-validation-tests", "ledger"))
    lines = [f"- case: {_quoted(e.case)}\n  reason: {_quoted(e.reason)}\n  kind: {e.kind}\n" for e in entries]
    return HEADER.format(corpus=corpus, target=target) + "".join(lines)


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


def main(argv: list[str]) -> int:
    """Update the ledger and say what changed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("report", type=Path, help="a report of `qtt run … --tolerant-errors --json`")
    parser.add_argument("ledger", type=Path, nargs="?", default=Path(__file__).with_name("known-gaps.yaml"))
    arguments = parser.parse_args(argv)
    cases = json.loads(arguments.report.read_text(encoding="utf-8"))["cases"]
    old = load_gaps(arguments.ledger) if arguments.ledger.is_file() else {}
    entries = updated(old, cases)
    arguments.ledger.write_text(written(entries, arguments.ledger.name), encoding="utf-8")
    new = {entry.case for entry in entries}
    sys.stdout.write(f"{len(entries)} gaps listed: {len(new - set(old))} added, {len(set(old) - new)} removed\n")
    for reason, count in Counter(entry.reason for entry in entries).most_common():
        sys.stdout.write(f"{count:6}  {reason}\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
