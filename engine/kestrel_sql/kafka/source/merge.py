"""Reads several topics in the order of timestamps: computes where a batch ends, and merges its records (ADR 17).

Kafka Streams always takes the next record from the partition whose next record is the oldest. A batch that ends in
every partition before the first record with a timestamp of T or later contains exactly the first records of that merge.
The result therefore does not depend on the cut into batches.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from kestrel_sql.kafka.client.positions import Offsets, Position

FirstFrom = Callable[[int], Offsets]
"""Returns the first offset of each partition whose record has at least a timestamp (ms).

Partitions without one are left out.
"""

LAST_TIME = (1 << 62) - 1
"""Later (ms) than any timestamp."""

_TIME_BITS, _MAX_TIME = 20, (1 << 42) - 1

Item = TypeVar("Item")


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


class HeadMerge(Generic[Item]):
    """Merges inputs that arrive in pieces.

    Always takes from the input with the oldest next item, from the first one if equal.

    Takes nothing while an input is empty that has not ended, because its next item might be the oldest.
    """

    def __init__(self, inputs: int) -> None:
        """Start with this number of empty inputs."""
        self._queues: list[deque[tuple[int, Item]]] = [deque() for _ in range(inputs)]
        self._waiting = set(range(inputs))
        self._ended: set[int] = set()
        self._heads: list[tuple[int, int]] = []

    def offer(self, number: int, time: int, item: Item) -> None:
        """Append an item with its timestamp (ms) to an input."""
        self._queues[number].append((time, item))
        if number in self._waiting:
            self._waiting.discard(number)
            heapq.heappush(self._heads, (time, number))

    def end(self, number: int) -> None:
        """Mark an input as ended."""
        self._ended.add(number)
        self._waiting.discard(number)

    @property
    def is_done(self) -> bool:
        """Whether every input has ended and all items were taken."""
        return len(self._ended) == len(self._queues) and not self._heads

    @property
    def is_waiting(self) -> bool:
        """Whether an input must get an item before more can be taken."""
        return bool(self._waiting)

    def take(self) -> Iterator[tuple[int, Item]]:
        """Take the items that can be taken now, with their timestamps (ms)."""
        while self._heads and not self._waiting:
            _, number = heapq.heappop(self._heads)
            queue = self._queues[number]
            yield queue.popleft()
            if queue:
                heapq.heappush(self._heads, (queue[0][0], number))
            elif number not in self._ended:
                self._waiting.add(number)


@dataclass(slots=True)
class FeedOrder:
    """Numbers the merged records of a task. The numbers of all tasks differ, and sort by timestamp."""

    task: int
    tasks: int
    _last: int = -1

    def next(self, time: int) -> int:
        """Return the number of the next record, whose timestamp (ms) may be less than that of its predecessor."""
        least = max(self._last + 1, min(max(time, 0), _MAX_TIME) << _TIME_BITS)
        self._last = least + (self.task - least) % self.tasks
        return self._last
