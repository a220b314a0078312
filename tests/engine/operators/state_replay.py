"""Runs an operator over rows: with its state left alone, with a checkpoint between every two rows, and in one batch."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import orjson

from kestrel_sql.functions.declaration import Aggregate, AggregateCall
from kestrel_sql.operators.number_columns import column_of
from kestrel_sql.operators.operator import KeyBytes, Operator, OwnColumn, Ref, Results, RowError, State, Window
from kestrel_sql.operators.state_codec import dump_state, load_state
from kestrel_sql.operators.state_counts import row_count
from tests.engine.operators.row_forms.row_operator import Output, Row


def key_bytes(key: tuple[Any, ...]) -> bytes:
    """Serialise a key; one has no bytes, as the empty text in KAFKA."""
    return b"" if key == (1,) else orjson.dumps(list(key))


@dataclass(slots=True)
class Given:
    """Single rows as the batch of an operator."""

    given: Sequence[Row]
    sides: Sequence[int] = field(init=False)
    times: Sequence[int] = field(init=False)
    windows: Sequence[Window | None] | None = field(init=False)
    present: Sequence[bool] = field(init=False)
    has_old: Sequence[bool] = field(init=False)

    def __post_init__(self) -> None:
        self.sides = [row.side for row in self.given]
        self.times = [row.timestamp for row in self.given]
        windows = [row.window for row in self.given]
        self.windows = windows if any(windows) else None
        self.present = [row.value is not None for row in self.given]
        self.has_old = [row.old is not None for row in self.given]

    def keys(self, *key_bytes: KeyBytes) -> list[bytes | None]:
        return [None if row.key is None else key_bytes[row.side % len(key_bytes)](row.key) for row in self.given]

    def by_key(self, key_bytes: KeyBytes, *, old: bool = False) -> tuple[list[bytes | None], Sequence[int]]:
        names = self.keys(key_bytes)
        if old:
            names += [None if row.old_key is None else key_bytes(row.old_key) for row in self.given]
        known = [*dict.fromkeys(names)]
        return known, [known.index(name) for name in names]

    def column(self, place: int, refs: Sequence[int]) -> Sequence[Any]:
        versions = [self.given[ref].value if ref >= 0 else self.given[~ref].old for ref in refs]
        return [None if version is None else version[place] for version in versions]

    def numbers(self, place: int, *, counted: bool = False, old: bool = False) -> Any:
        refs = range(len(self.given))
        return column_of(self.column(place, [~ref if old else ref for ref in refs]), None if counted else "int64")

    def extras(self, key_bytes: KeyBytes) -> list[bytes | None]:
        return [None if row.extra is None or None in row.extra else key_bytes(row.extra) for row in self.given]

    def values_at(self, at: Sequence[int]) -> list[list[Any]]:
        return [[*(self.given[each].value or ())] for each in at]

    def keys_at(self, at: Sequence[int]) -> list[list[Any]]:
        return [[*(self.given[each].key or ())] for each in at]

    def rows(self) -> Iterator[Row]:
        return iter(self.given)


def process(
    operator: Operator, rows: Row | Sequence[Row], state: State, widths: Sequence[int] = (1, 1)
) -> list[Output]:
    """Return the outputs of rows; an aggregate's error is raised as it is.

    `widths` has the number of columns of each input, for joins whose sides may be missing.
    """
    given = Given([rows] if isinstance(rows, Row) else rows)
    found = []
    try:
        for results in operator.process(given, state):
            for at, cause in enumerate(results.causes):
                key = results.keys[at] if results.keys else cause
                window = None if results.windows is None else results.windows[at]
                value, old = (
                    _version(
                        operator, given, {part: refs[at] for part, refs in version.items()}, results, own, at, widths
                    )
                    for version, own in ((results.values, results.own), (results.old, results.old_own))
                )
                if old is not None and results.old_time is not None:
                    old = (*old[: results.old_time], results.times[at], *old[results.old_time + 1 :])
                known = key and tuple(key) if not isinstance(key, int) else _key(given, key)
                found.append(Output(known, value, results.times[at], window, old))
    except RowError as error:
        raise error.__cause__ or error from None
    return found


def _key(rows: Given, ref: int) -> Any:
    return rows.given[ref].key if ref >= 0 else rows.given[~ref].old_key


def _version(
    operator: Operator,
    rows: Given,
    refs: Mapping[int, Ref],
    results: Results,
    own: Sequence[OwnColumn],
    at: int,
    widths: Sequence[int],
) -> Any:
    if all(ref is None for ref in refs.values()):
        return None
    found: list[Any] = []
    for part in operator.parts:
        ref = refs[part]
        if isinstance(ref, int):
            ref = rows.given[ref].value if ref >= 0 else rows.given[~ref].old
            ref = ref if ref is None or results.picks is None else [ref[place] for place in results.picks]
        found += [None] * widths[part] if ref is None else ref
    return (*found, *(column[at] if isinstance(column, list) else column.listed()[at] for column in own))


def replay(operator: Operator, rows: Iterable[Row], widths: Sequence[int] = (1, 1)) -> list[list[Output]]:
    """Return the outputs of each row; fail if they differ with a checkpoint between every two, or from those of all."""
    copies = list(rows)
    left_alone: State = {}
    plain = [copy.deepcopy(process(operator, copy.deepcopy(row), left_alone, widths)) for row in copies]
    state: State = {}
    stored = []
    for row in copies:
        stored.append(copy.deepcopy(process(operator, copy.deepcopy(row), state, widths)))
        state = load_state(dump_state(state))
        assert row_count(state) == len([*operator.entries(state, (False, False))])
    assert stored == plain
    assert process(operator, copies, {}, widths) == [output for outputs in plain for output in outputs]
    return plain


def final_state(operator: Operator, rows: Iterable[Row]) -> State:
    state: State = {}
    process(operator, list(rows), state)
    return state


def brief(outputs: Sequence[Sequence[Output]]) -> list[list[tuple[Any, ...]]]:
    """Key (unpacked if single), value, timestamp and, if there is one, window."""
    return [[_brief(output) for output in row] for row in outputs]


def _brief(output: Output) -> tuple[Any, ...]:
    key = output.key[0] if output.key is not None and len(output.key) == 1 else output.key
    short = (key, output.value, output.timestamp)
    return short if output.window is None else (*short, output.window)


def call_of(
    function: Aggregate, *arguments: Any, literals: tuple[Any, ...] = (), settings: dict[str, str] | None = None
) -> Any:
    """Make the aggregator of one call."""
    return function.factory(AggregateCall(arguments, arguments[0] if arguments else None, literals, settings or {}))  # type: ignore[arg-type]
