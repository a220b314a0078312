"""How long single calls of functions over large values keep all other threads from Python.

    python -m tests.bench locks

Every overload of a scalar function, every operator and every cast is evaluated over texts of SIZE=1000000 letters of
several kinds, and over collections of a tenth as many items. Another thread looks every 0.3 ms how much time of
processors the process has taken since: what else the machine does does not count. Prints the calls that kept it waiting
for longer than LEAST=20 ms, the longest wait of each.
"""

from __future__ import annotations

import gc
import os
import random
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from decimal import Decimal as Number
from functools import partial
from itertools import chain
from typing import Any

from kestrel_sql.cli.serve import SWITCH_S
from kestrel_sql.expressions.compiler import compile_expression
from kestrel_sql.expressions.single_row import value_of
from kestrel_sql.functions.bind.nodes import Bound
from kestrel_sql.sql.format.statements import format_expression
from kestrel_sql.sql.nodes.walk import column_refs
from kestrel_sql.types import sql_types as t
from kestrel_sql.types.sql_types import Array, Decimal, Map, SqlType, Struct
from tests.bench.measure import machine
from tests.fuzz.generator import COLUMNS, Generator

SIZE, LEAST = int(os.environ.get("SIZE", "1000000")), int(os.environ.get("LEAST", "20"))

_LOOK_S = 0.0003


def texts(size: int) -> Mapping[str, str]:
    """Texts of about so many letters."""
    members = ",".join(f'"{number}":1' for number in range(size // 10))
    return {
        "a": "a" * size,
        "ß": "ß" * size,
        "İ": "İ" * size,
        "😀": "😀" * (size // 2),
        "blanks": " " * size,
        "a list in JSON": f"[{','.join('1' * (size // 2))}]",
        "an object in JSON": f"{{{members}}}",
        "a text in JSON": '"' + r"\n" * (size // 2) + '"',
        "brackets": "[" * size,
        "digits": "1" * size,
        "hexadecimal digits": "0a" * (size // 2),
        "escapes": "%41" * (size // 3),
        "words": "Ab " * (size // 3),
        "pairs": "a=1;" * (size // 4),
    }


def main() -> None:
    """Print the figures."""
    print(machine())
    sys.setswitchinterval(SWITCH_S)
    gc.disable()
    given = texts(SIZE)
    generator = Generator(random.Random(1))
    for bound in chain(generator.each_overload(), generator.each_operator()):
        waits = {name: wait(partial(evaluated, bound, row)) for name, row in rows(bound, given)}
        kind, seconds = max(waits.items(), key=lambda pair: pair[1])
        if seconds * 1000 >= LEAST:
            print(f"{seconds * 1000:.0f} ms: {format_expression(bound.node)} over {kind}", flush=True)


def rows(bound: Bound, given: Mapping[str, str]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Rows for an expression, each with what it is large of: a text of a kind in one column, or in all."""
    names = sorted({ref.name for ref in column_refs(bound.node)})
    of_text = [name for name in names if COLUMNS[name] in (t.STRING, t.BYTES)]
    for kind, text in given.items() if of_text else [("items", "a")]:
        for large in {*of_text[:1]}, {*of_text}:
            row = {name: _value(COLUMNS[name], text if name in large else text[:1], len(given["a"])) for name in names}
            yield (f"{kind} in {' and '.join(sorted(large))}" if large else kind), row


def _value(sql_type: SqlType, text: str, size: int) -> Any:
    """A value whose texts are this one, and whose collections have a tenth of the size."""
    match sql_type:
        case Array(item):
            return [_value(item, str(number), 10) for number in range(size // 10)]
        case Map(_, item):
            return {str(number): _value(item, str(number), 10) for number in range(size // 10)}
        case Struct(fields):
            return {field.name: _value(field.type, text, size) for field in fields}
        case Decimal(_, scale):
            return Number(1).scaleb(-scale)
        case t.STRING:
            return text
        case t.BYTES:
            return text.encode()
        case _:
            return True if sql_type == t.BOOLEAN else 1.5 if sql_type == t.DOUBLE else size


def evaluated(bound: Bound, row: Mapping[str, Any]) -> None:
    """Evaluate an expression, which may fail."""
    # Most texts are no arguments of most functions.
    with suppress(Exception):
        value_of(compile_expression(bound), row)


def wait(work: Callable[[], None]) -> float:
    """The longest time (s) of processors between two looks of this thread while another one works."""
    longest, last = 0.0, time.process_time()
    working = threading.Thread(target=work)
    working.start()
    while working.is_alive():
        time.sleep(_LOOK_S)
        now = time.process_time()
        longest, last = max(longest, now - last), now
    return longest


if __name__ == "__main__":
    main()
