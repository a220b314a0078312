"""Reads several topics in the order of timestamps: computes where a batch ends, and merges its records (ADR 17).

Kafka Streams always takes the next record from the partition whose next record is the oldest. A batch that ends in
every partition before the first record with a timestamp of T or later contains exactly the first records of that merge.
The result therefore does not depend on the cut into batches.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Protocol

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from kestrel_sql.kafka.client.positions import Offsets, Position
from kestrel_sql.spark.io.columns import rows_at

LAST_TIME = (1 << 62) - 1
"""Later (ms) than any timestamp."""

_TIME_BITS, _MAX_TIME = 20, (1 << 42) - 1

Numbers = npt.NDArray[np.int64]
_Piece = tuple[Numbers, pa.RecordBatch]


class Stretch(msgspec.Struct, frozen=True):
    """The records of a partition that were looked at: their offsets and timestamps (ms).

    Attributes:
        offsets: the offsets, rising.
        times: the timestamps, in the order of the offsets.
        reach: the offset up to which the partition was looked at.
    """

    offsets: Numbers
    times: Numbers
    reach: int


class LookAhead(Protocol):
    """Looks at the records that come next in partitions, as a consumer sees them."""

    def begin(self, start: Offsets, ends: Offsets) -> None:
        """Look at these ranges from now on; what is known of them is kept."""

    def seen(self) -> Mapping[Position, Stretch]:
        """Return what was looked at of each range, from its start; it may reach beyond its end."""

    def look(self, positions: Collection[Position]) -> None:
        """Look at more records of these partitions."""

    def forget(self) -> None:
        """Forget everything."""


class Cutter(msgspec.Struct):
    """Computes where batches end.

    A batch ends at a timestamp T: in every partition before the first record with T or later. It exceeds its limit only
    if no T gives a smaller batch, with very many equal timestamps. The end depends only on the arguments and the
    records. The broker could say which record has T or later, but it also counts what no consumer sees: the ends of
    transactions, whose time is that of the broker's clock, and the records of aborted ones.
    """

    ahead: LookAhead

    def cut(self, start: Offsets, ends: Offsets, limit: int) -> dict[Position, int]:
        """Return the end of a batch of about `limit` records that starts at `start`.

        The partitions end at `ends` now.
        """
        behind = {position: end for position, end in ends.items() if end > start[position]}
        if sum(end - start[position] for position, end in behind.items()) <= limit:
            self.ahead.forget()
            return dict(ends)
        self.ahead.begin(start, behind)
        while True:
            known = {position: _Ages.of(each, behind[position]) for position, each in self.ahead.seen().items()}
            time = _end_of_batch([*known.values()], limit)
            if time is not None:
                return {**ends, **{position: each.first_from(time) for position, each in known.items()}}
            bound = min(each.bound for each in known.values())
            # Those that hold the end back, and, since the client sends all at once, those that will do so.
            self.ahead.look(
                [
                    position
                    for position, each in known.items()
                    if not each.is_whole and (each.bound == bound or len(each.ages) <= limit)
                ]
            )


class _Ages(msgspec.Struct, frozen=True):
    """What is known of a range: the age of each record, which is the newest timestamp (ms) so far, as in a merge."""

    offsets: Numbers
    ages: Numbers
    end: int
    is_whole: bool

    @staticmethod
    def of(stretch: Stretch, end: int) -> _Ages:
        inside = int(np.searchsorted(stretch.offsets, end))
        ages = np.maximum.accumulate(stretch.times[:inside])
        return _Ages(stretch.offsets[:inside], ages, end, is_whole=stretch.reach >= end)

    @property
    def bound(self) -> int:
        """The age (ms) that the records which are not known have at least."""
        if self.is_whole:
            return LAST_TIME
        return int(self.ages[-1]) if len(self.ages) else 0

    def first_from(self, time: int) -> int:
        at = int(np.searchsorted(self.ages, time))
        return int(self.offsets[at]) if at < len(self.offsets) else self.end


def _end_of_batch(known: Sequence[_Ages], limit: int) -> int | None:
    """The timestamp (ms) at which a batch of `limit` records ends; None if too little is known."""
    bound = min(each.bound for each in known)
    ages = np.concatenate([each.ages[: np.searchsorted(each.ages, bound)] for each in known])
    if len(ages) <= limit:
        return bound if bound == LAST_TIME else None
    ages.partition(limit)
    time = int(ages[limit])
    return time if time > ages[:limit].min() else time + 1


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


class _Input(msgspec.Struct):
    """The rows of an input that were not taken yet, in pieces, with the age of each: the newest time (ms) so far."""

    rows: deque[_Piece] = msgspec.field(default_factory=deque)
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


class FeedOrder(msgspec.Struct):
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
