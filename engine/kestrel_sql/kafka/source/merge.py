"""Reads several topics in the order of timestamps: computes where a batch ends, and merges its records (ADR 17).

Kafka Streams always takes the next record from the partition whose next record is the oldest. A batch that ends in
every partition before the first record with a timestamp of T or later contains exactly the first records of that merge.
The result therefore does not depend on the cut into batches.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from kestrel_sql.kafka.client.positions import Offsets, Position
from kestrel_sql.spark.io.columns import rows_at

FirstFrom = Callable[[int], Offsets]
"""Returns the first offset of each partition whose record has at least a timestamp (ms).

Partitions without one are left out.
"""

LAST_TIME = (1 << 62) - 1
"""Later (ms) than any timestamp."""

_TIME_BITS, _MAX_TIME = 20, (1 << 42) - 1

Numbers = npt.NDArray[np.int64]
_Piece = tuple[Numbers, pa.RecordBatch]


@dataclass(slots=True)
class Cutter:
    """Computes where batches end.

    `first_from` asks the broker, so it is called rarely: once for a batch at a steady rate.

    A batch ends at a timestamp T: in every partition before the first record with T or later. It exceeds its limit only
    if no T gives
    a smaller batch: with very many equal timestamps, or records that are very late.
    """

    first_from: FirstFrom
    _last: int = 0
    """The end (ms) of the last batch."""
    _step: int = 0
    """The expected length (ms) of the next batch; 0 before the first."""

    def cut(self, start: Offsets, ends: Offsets, limit: int) -> dict[Position, int]:
        """Return the end of a batch of about `limit` records that starts at `start`.

        The partitions end at `ends` now.
        """
        behind = [position for position, end in ends.items() if end > start[position]]
        if sum(ends[position] - start[position] for position in behind) <= limit:
            return dict(ends)
        search = _Search(start, ends, behind, self.first_from)
        at = search.last_within(limit, self._last + self._step, self._step)
        if not search.is_cut(at):
            at = search.first_cut(at)
        # 90 % of the estimate, because a batch that is too large takes another search.
        self._step = max(1, (at - self._last) * limit * 9 // (search.size(at) * 10))
        self._last = at
        return search.at(at)


@dataclass(slots=True)
class _Search:
    start: Offsets
    ends: Offsets
    behind: Sequence[Position]
    first_from: FirstFrom
    found: dict[int, Offsets] = field(default_factory=dict)

    def first(self, time: int) -> Offsets:
        if time not in self.found:
            self.found[time] = {} if time >= LAST_TIME else self.first_from(time)
        return self.found[time]

    def at(self, time: int) -> dict[Position, int]:
        first = self.first(time)
        return {p: min(end, max(self.start[p], first.get(p, end))) for p, end in self.ends.items()}

    def size(self, time: int) -> int:
        return sum(end - self.start[position] for position, end in self.at(time).items())

    def is_cut(self, time: int) -> bool:
        """Whether the batch up to `time` is a prefix of the whole merge.

        No partition has already been read beyond it.
        """
        first = self.first(time)
        return self.size(time) > 0 and all(first.get(p, self.ends[p]) >= self.start[p] for p in self.behind)

    def last_within(self, limit: int, guess: int, step: int) -> int:
        """A timestamp whose batch has `limit` / 2 to `limit` records if there is one, or else at most `limit`.

        Tries `guess` first, then timestamps at a distance of `step`, twice `step` and so on.
        """
        low, high, middle = 0, LAST_TIME, guess
        while high - low > 1:
            if not low < middle < high:
                middle = (low + high) // 2
            size = self.size(middle)
            if limit // 2 <= size <= limit:
                return middle
            low, high = (middle, high) if size <= limit else (low, middle)
            is_far = step > 0 and (low == 0 or high == LAST_TIME)
            middle = (low + high) // 2 if not is_far else low + step if high == LAST_TIME else high - step
            step *= 2
        return low

    def first_cut(self, low: int) -> int:
        """The first timestamp after `low` at which the batch may end."""
        high = LAST_TIME
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (low, middle) if self.is_cut(middle) else (middle, high)
        return high


class TimeMerge:
    """Merges inputs of rows that arrive in pieces, as if it always took the oldest of their next rows.

    Of equally old ones it takes that of the first input. A row behind a newer one of its input counts as old as that.
    Rows wait while an input that has not ended could still get one that comes before them.
    """

    def __init__(self, inputs: int) -> None:
        """Start with this number of empty inputs."""
        self._inputs = [_Input() for _ in range(inputs)]

    def offer(self, number: int, rows: pa.RecordBatch) -> None:
        """Append rows to an input; their column `ts` has timestamps (ms) without NULL."""
        if rows.num_rows:
            self._inputs[number].add(rows)

    def end(self, number: int) -> None:
        """Mark an input as ended."""
        self._inputs[number].is_ended = True

    @property
    def is_done(self) -> bool:
        """Whether every input has ended and all rows were taken."""
        return all(each.is_ended and not each.rows for each in self._inputs)

    def take(self) -> pa.RecordBatch | None:
        """Take the rows that can be taken now, merged; None if there are none."""
        waiting = [(each.newest, number) for number, each in enumerate(self._inputs) if not each.is_ended]
        bound = min(waiting, default=None)
        found = [piece for number, each in enumerate(self._inputs) for piece in each.until(bound, number)]
        if not found:
            return None
        rows = pa.concat_batches([rows for _, rows in found])
        order = np.argsort(np.concatenate([ages for ages, _ in found]), kind="stable")
        return rows_at(rows, order)


@dataclass(slots=True)
class _Input:
    """The rows of an input that were not taken yet, in pieces, with the age of each: the newest time (ms) so far."""

    rows: deque[_Piece] = field(default_factory=deque)
    newest: int = -1
    is_ended: bool = False

    def add(self, rows: pa.RecordBatch) -> None:
        ages = np.maximum.accumulate(np.maximum(rows.column("ts").to_numpy(), self.newest))
        self.rows.append((ages, rows))
        self.newest = int(ages[-1])

    def until(self, bound: tuple[int, int] | None, number: int) -> Iterator[_Piece]:
        """Take the rows up to an age and the number of an input; all without a bound."""
        while self.rows:
            ages, rows = self.rows.popleft()
            count = len(ages)
            if bound is not None:
                count = int(np.searchsorted(ages, bound[0], "right" if number <= bound[1] else "left"))
            if count:
                yield ages[:count], rows.slice(0, count)
            if count < len(ages):
                self.rows.appendleft((ages[count:], rows.slice(count)))
                return


@dataclass(slots=True)
class FeedOrder:
    """Numbers the merged records of a task. The numbers of all tasks differ, and sort by timestamp."""

    task: int
    tasks: int
    _turn: int = 0
    """How many numbers of this task are below the next one."""

    def numbers(self, times: Numbers) -> Numbers:
        """Return the numbers of the next records, whose timestamps (ms) may be less than those before them."""
        least = np.clip(times, 0, _MAX_TIME) << _TIME_BITS
        turns, at = -((self.task - least) // self.tasks), np.arange(len(times))
        turns = np.maximum.accumulate(np.maximum(turns - at, self._turn)) + at
        self._turn = int(turns[-1]) + 1 if len(turns) else self._turn
        found: Numbers = self.task + self.tasks * turns
        return found
