"""Calls of every overload and every operator over edge values, with what ksqlDB's engine makes of them, as data.

    python -m tests.fuzz.stored_expressions

asks ksqlDB's engine anew and writes `stored-expressions.jsonl`. Its first line has the rows, by column; each other line
an expression, its value over each row as JSON has it, and the rows for which it fails, which is no NULL. An expression
on which the engines do not agree is not stored: its difference has to be one of the known ones.
"""

from __future__ import annotations

import random
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any

from kestrel_qtt.cases.model import ActualRecord, Case, Produced
from kestrel_qtt.cases.read_json import parse_json
from kestrel_qtt.drivers.open import open_driver
from kestrel_qtt.judge.json_text import record_json, write_json
from kestrel_qtt.variants.running import run_variants
from kestrel_sql.functions.bind.nodes import Bound
from kestrel_sql.sql.format.statements import format_expression
from tests.fuzz.agreement import Compared, differing_records, known
from tests.fuzz.asked_expressions import Asked, accepted, as_json, case_of, is_small, with_copies
from tests.fuzz.expressions import some_rows
from tests.fuzz.generator import COLUMNS, Generator
from tests.fuzz.oracle import Oracle, is_present

STORED = Path(__file__).with_name("stored-expressions.jsonl")

SEED, ROUNDS, ROWS, EXPRESSIONS = 50, 3, 40, 40
"""So many calls of every overload, over so many rows, of which one statement has so many."""

_COLUMN = re.compile(r"`(\w+)`")

Rows = Mapping[str, Sequence[Any]]
"""The values of each column, as JSON has them."""


def cases(rows: Rows, lines: Sequence[Mapping[str, Any]]) -> Iterator[tuple[Case, Produced]]:
    """Yield stored expressions as cases, with what ksqlDB's engine makes of each."""
    for start in range(0, len(lines), EXPRESSIONS):
        some = lines[start : start + EXPRESSIONS]
        texts = [each["expression"] for each in some]
        used = {name for text in texts for name in _COLUMN.findall(text) if name in COLUMNS}
        count = len(next(iter(rows.values())))
        inputs = [{name: rows[name][at] for name in COLUMNS if name in used} for at in range(count)]
        records = []
        for at in range(count):
            value = {f"C{number}": each["values"][at] for number, each in enumerate(some)}
            value |= {f"N{number}": _is_null(each, at) for number, each in enumerate(some)}
            records.append(ActualRecord(key=at, value=value))
        yield case_of(f"stored-{start}", texts, inputs), Produced({"O": tuple(records)})


def _is_null(line: Mapping[str, Any], at: int) -> bool | None:
    """What the column tells that tells a failure from NULL."""
    return None if at in line["fails"] else line["values"][at] is None


def stored() -> tuple[Rows, list[Mapping[str, Any]]]:
    """Read what is stored: the rows, and the expressions."""
    rows, *lines = (parse_json(line) for line in STORED.read_text(encoding="utf-8").rstrip("\n").split("\n"))
    return rows, lines  # type: ignore[return-value]


def _bounds() -> Iterator[Bound]:
    generator = Generator(random.Random(SEED))
    for _ in range(ROUNDS):
        yield from generator.each_overload()
    yield from generator.each_type()
    yield from generator.each_overload_with_nulls()
    yield from generator.each_operator()


def _asked() -> Iterator[Asked]:
    rows = some_rows(random.Random(SEED), ROWS)
    nodes = iter(
        {format_expression(node): node for node in (with_copies(b) for b in _bounds() if is_small(b, rows))}.values()
    )
    while some := list(islice(nodes, EXPRESSIONS)):
        yield Asked(some, rows)


def _agreed(compared: Compared) -> Iterator[dict[str, Any]]:
    """Ask ksqlDB's engine; yield the expressions on which Kestrel agrees with it, and print the others."""
    for asked in _asked():
        for part, theirs in accepted(compared.oracle, asked):
            texts = list(map(format_expression, part.nodes))
            if not isinstance(theirs, Produced):
                _tell(compared, part)
                continue
            ((_, ours, _),) = run_variants([part.case()], compared.kestrel)
            if not isinstance(ours, Produced):
                print(f"Kestrel refuses one of {texts}: {ours}")
                continue
            differing = {
                int(found[1])
                for record in differing_records("O", theirs, ours)
                for column in record.columns
                if (found := re.match(r"value\.[CN](\d+)", column.column))
            }
            values = [parse_json(record_json("O", each))["value"] for each in theirs.records["O"]]
            for at, text in enumerate(texts):
                if at in differing:
                    _tell(compared, replace(part, nodes=[part.nodes[at]]))
                else:
                    fails = [row for row, value in enumerate(values) if value[f"N{at}"] is None]
                    yield {"expression": text, "values": [value[f"C{at}"] for value in values], "fails": fails}
        print(".", end="", file=sys.stderr, flush=True)


def _tell(compared: Compared, asked: Asked) -> None:
    """Print a difference, unless it is known."""
    for case, text in compared.differing([asked.case()]):
        if not any(each.explains(case, text) for each in known()):
            print(f"{case.statements[1]}\n{text}\n")


def main() -> None:
    """Ask and write."""
    if not is_present():
        sys.exit("ksqlDB's engine is absent")
    rows = some_rows(random.Random(SEED), ROWS)
    columns = {name: [as_json(row[name], of) for row in rows] for name, of in COLUMNS.items()}
    with closing(Compared(open_driver("process"), Oracle())) as compared:
        lines = [columns, *_agreed(compared)]
    text = "".join(f"{write_json(line)}\n" for line in lines)
    STORED.write_text(text, encoding="utf-8", errors="backslashreplace")


if __name__ == "__main__":
    main()
