"""How far queries are: a table in place on a terminal, lines elsewhere, JSON in a file."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from threading import Event, Thread
from typing import IO

import msgspec
from rich.console import Console
from rich.live import Live
from rich.table import Column, Table
from rich.text import Text

from kestrel_sql.errors import EngineError
from kestrel_sql.kafka.run.progress import QueryState, Rate
from kestrel_sql.queries.bad_records import BadRecords
from kestrel_sql.queries.engine import MemoryEngine

_QUIET_S = 10.0
_LOOK_S = 0.5


class Board(msgspec.Struct):
    """Shows the state of all queries: in place on a terminal, as lines now and then elsewhere, and in a file."""

    console: Console
    file: IO[str] | None
    transient: bool = False
    """Whether the table goes when it is done."""
    states: Sequence[QueryState] = ()
    repeats: bool = False
    """Whether a line is also printed of a query whose state is as it was."""
    _written: dict[str, QueryState] = {}
    _lines: dict[str, QueryState] = {}
    _printed: float = msgspec.field(default_factory=time.monotonic)

    def live(self) -> Live:
        """What redraws the table on a terminal."""
        return Live(
            console=self.console,
            get_renderable=self.table,
            refresh_per_second=2,
            transient=self.transient or not self.console.is_terminal,
            # Answers that go to a file must not be drawn on the terminal instead.
            redirect_stdout=sys.stdout.isatty(),
        )

    def show(self, states: Sequence[QueryState]) -> None:
        """Take new states in."""
        self.states = states
        for state in states:
            if self.file is not None and self._written.get(state.query) != state:
                self.file.write(state.to_json(time.time()) + "\n")
                self.file.flush()
            self._written[state.query] = state
        if not self.console.is_terminal and time.monotonic() - self._printed > _QUIET_S:
            self._printed = time.monotonic()
            for state in states:
                if self.repeats or self._lines.get(state.query) != state:
                    self.print_state(state)
                self._lines[state.query] = state

    def print_state(self, state: QueryState) -> None:
        """Print a state where there is no table."""
        self.console.print(Text(line(state)), soft_wrap=True)

    def conclude(self) -> None:
        """Print the states at the end: a table on a terminal, lines elsewhere, which no width cuts."""
        if self.states and self.console.is_terminal:
            self.console.print(self.table())
            return
        for state in self.states:
            self.print_state(state)

    def table(self) -> Table | Text:
        """The states as a table."""
        if not self.states:
            return Text("starting", "dim")
        query = Column("Query", no_wrap=True)
        table = Table(query, "Rows in", "Rows out", "Bad", "Late", "Rows/s", "Lag", "State rows", "Error")
        for state in self.states:
            lag = "" if state.lag is None else " ".join(f"{topic} {records}" for topic, records in state.lag.items())
            table.add_row(
                Text(state.query),
                str(state.rows_in),
                str(state.rows_out),
                str(state.bad_records),
                str(state.late_records),
                f"{state.rows_per_second:.0f}",
                Text(lag),
                "" if state.state_rows is None else str(state.state_rows),
                Text(state.error, "red"),
            )
        return table


@contextmanager
def open_lines(path: Path | None) -> Iterator[IO[str] | None]:
    """The file of `--json-progress`, to be appended to.

    Raises:
        EngineError: it cannot be written.
    """
    if path is None:
        yield None
        return
    try:
        file = path.open("a", encoding="utf-8")
    except OSError as error:
        raise EngineError(f"{path} cannot be written: {error.strerror}") from error
    with file:
        yield file


def line(state: QueryState) -> str:
    """A state as a line of text."""
    lag = "unknown" if state.lag is None else ", ".join(f"{topic} {records}" for topic, records in state.lag.items())
    text = f"{state.query}: {state.rows_in} in, {state.rows_out} out, {state.rows_per_second:.0f}/s, lag {lag}"
    if state.bad_records:
        text += f", {state.bad_records} bad"
    if state.late_records:
        text += f", {state.late_records} late"
    if state.state_rows is not None:
        text += f", {state.state_rows} state rows"
    return f"{text}, error: {state.error}" if state.error else text


class MemoryWatch(msgspec.Struct):
    """Says how far the queries of an engine in memory are, while it works."""

    engine: MemoryEngine
    bad: BadRecords
    _rates: dict[str, tuple[int, Rate]] = {}

    def states(self, now: Callable[[], float] = time.monotonic) -> list[QueryState]:
        """What can be said now; the engine may be at work meanwhile."""
        self.bad.note(self.engine.take_log())
        lags = self.engine.queries.lags()
        known = self.engine.queries.progress().items()
        return [
            self._state(name, rows_in, rows_out, lags.get(name), error, now())
            for name, (rows_in, rows_out, _, error) in known
        ]

    def _state(
        self, name: str, rows_in: int, rows_out: int, lag: Mapping[str, int] | None, error: str, moment: float
    ) -> QueryState:
        before, rate = self._rates.get(name, (0, Rate()))
        if rows_in > before:
            rate.add(moment, rows_in - before)
        self._rates[name] = (rows_in, rate)
        return QueryState(
            query=name,
            batch=-1,
            rows_in=rows_in,
            rows_out=rows_out,
            rows_per_second=rate.per_second(moment),
            lag=lag,
            state_rows=None,
            bad_records=self.bad.counts[name],
            late_records=self.bad.late[name],
            first_late=self.bad.first_late.get(name, ""),
            error=error,
        )

    @contextmanager
    def shown(self, board: Board) -> Iterator[None]:
        """Show the states on a board for as long as the block takes, and once more at its end."""
        done = Event()

        def look() -> None:
            while not done.wait(_LOOK_S):
                board.show(self.states())

        looking = Thread(target=look, daemon=True)
        with board.live():
            looking.start()
            try:
                yield
            finally:
                done.set()
                looking.join()
                board.show(self.states())
