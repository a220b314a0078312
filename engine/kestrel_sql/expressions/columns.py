"""Rows as columns, the failures of an evaluation over them, and the port to which inner error scopes report."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from kestrel_sql.arrow.late import ArrowArray

Column = list[Any]
"""The value of each row; arbitrary in the rows that have failed."""

Failures = dict[int, Exception]
"""What failed, by the index of the row. Whoever evaluates an expression closes its error scope (rules L4.3)."""

Evaluate = Callable[["Columns", Failures], Column]
"""Evaluates an expression over all rows, and adds those that fail; those that have failed before stay as they are."""

Arrays = Callable[["Columns"], ArrowArray | None]
"""Evaluates an expression over arrays, without a failure or a report; None where it cannot."""

LEAST_ROWS = 64
"""The least rows for which arrays are used. An expression of `tests/bench/projections.yaml`, from Arrow and back to it,
takes 100 µs over arrays for any number of rows up to this one, and over lists 42 for one row, 95 for 32 rows and 181
for 64; for 1,000 rows it is 256 against 1,880 (`ONLY=expressions python -m tests.bench thresholds`)."""

Report = Callable[[int, str, Exception], None]
"""Takes the index of a row, what failed there in an error scope that is closed, and the failure."""


def unreported(at: int, message: str, error: Exception) -> None:
    """Drop a report: within a lambda no error scope writes to the processing log."""


class Columns:
    """Columns by name, of `size` rows; `variables` are those of the parameters of lambdas around an expression.

    A carrier that keeps columns as arrays gives `arrays`, which returns that of a name, or None. With rows enough for
    them, `made` has what became of each expression over arrays, None if its values have to be computed.
    """

    __slots__ = ("_arrays", "_columns", "made", "report", "size", "variables")

    def __init__(
        self,
        columns: Mapping[str, Column],
        size: int,
        report: Report = unreported,
        variables: Mapping[str, Column] | None = None,
        arrays: Callable[[str], ArrowArray | None] | None = None,
        least_rows: int = LEAST_ROWS,
    ) -> None:
        self._columns = columns
        self.size = size
        self.report = report
        self.variables: Mapping[str, Column] = {} if variables is None else variables
        self._arrays = arrays if size >= least_rows else None
        self.made: dict[object, ArrowArray | None] | None = None if self._arrays is None else {}

    def column(self, name: str) -> Column:
        """Return a column."""
        return self._columns[name]

    def array(self, name: str) -> ArrowArray | None:
        """Return a column, or the column of a variable, as an array; None if it is kept as a list."""
        return None if self._arrays is None else self._arrays(name)

    def of_items(self, rows: ArrowArray, variables: Mapping[str, ArrowArray]) -> Columns:
        """Return rows, each as often as it is named, with further variables, as `repeated` does for lists."""
        taken: dict[str, ArrowArray | None] = dict(variables)

        def take(name: str) -> ArrowArray | None:
            if name not in taken:
                array = self.array(name)
                taken[name] = None if array is None else array.take(rows)
            return taken[name]

        return Columns({}, len(rows), arrays=take, least_rows=0)

    def select(self, rows: Sequence[int]) -> Columns:
        """Return some of the rows; reports about them name the rows of these columns."""
        return Columns(_selected(self._columns, rows), len(rows), self._renamed(rows), _selected(self.variables, rows))

    def repeated(self, rows: Sequence[int], variables: Mapping[str, Column]) -> Columns:
        """Return rows, each as often as it is named, with further variables, as the body of a lambda sees them."""
        return Columns(
            _selected(self._columns, rows), len(rows), unreported, _selected(self.variables, rows, variables)
        )

    def quiet(self) -> Columns:
        """Return the same rows without the port for reports."""
        return Columns(self._columns, self.size, unreported, self.variables, self._arrays)

    def with_columns(self, columns: Mapping[str, Column]) -> Columns:
        """Return the same rows with other columns in place of those of these names."""
        changed = _Lazy(self._columns.__getitem__, columns)
        arrays = None if self._arrays is None else lambda name: None if name in columns else self.array(name)
        return Columns(changed, self.size, self.report, self.variables, arrays)

    def _renamed(self, rows: Sequence[int]) -> Report:
        report = self.report
        return report if report is unreported else lambda at, message, error: report(rows[at], message, error)


class _Lazy(dict[str, Column]):
    """Columns by name, each of which is taken when it is first asked for."""

    def __init__(self, take: Callable[[str], Column], known: Mapping[str, Column] | None = None) -> None:
        super().__init__(known or {})
        self._take = take

    def __missing__(self, name: str) -> Column:
        taken = self[name] = self._take(name)
        return taken


def lazy_columns(take: Callable[[str], Column]) -> Mapping[str, Column]:
    """Return columns by name, each of which is taken when it is first asked for."""
    return _Lazy(take)


def _selected(
    columns: Mapping[str, Column], rows: Sequence[int], known: Mapping[str, Column] | None = None
) -> Mapping[str, Column]:
    def take(name: str) -> Column:
        column = columns[name]
        return [column[at] for at in rows]

    return _Lazy(take, known)


def over_rows(evaluate: Evaluate, columns: Columns, rows: Sequence[int], failures: Failures) -> Column:
    """Evaluate an expression over some rows only; the result has their values in their order."""
    if len(rows) == columns.size:
        return evaluate(columns, failures)
    if not rows:
        return []
    own: Failures = type(failures)()
    found = evaluate(columns.select(rows), own)
    failures.update((rows[at], error) for at, error in own.items())
    return found
