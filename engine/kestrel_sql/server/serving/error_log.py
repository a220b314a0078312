"""What a server keeps of the processing log: its latest entries, and the numbers of bad and late records."""

from __future__ import annotations

import logging
import time
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from kestrel_sql.queries.bad_records import BadRecords
from kestrel_sql.session.session import Session
from kestrel_sql.topics.records import LogEntry

_log = logging.getLogger(__name__)

_KEPT = 200


@dataclass(slots=True)
class ErrorLog:
    """Entries of all queries; any thread may add some."""

    session: Session
    bad: BadRecords = field(init=False)
    latest: deque[Mapping[str, Any]] = field(default_factory=lambda: deque(maxlen=_KEPT))
    """Objects with `query`, `message`, `time` (ms), `topic`, `partition` and `offset`."""

    def __post_init__(self) -> None:
        """Begin without entries."""
        self.bad = BadRecords(_log.warning, lambda query: query in self.session.queries)

    def note(self, entries: Sequence[LogEntry]) -> None:
        """Count the records of entries, and show the entries."""
        self.bad.note(entries)
        self.show(entries)

    def show(self, entries: Sequence[LogEntry]) -> None:
        """Keep entries for whoever looks."""
        now = int(time.time() * 1000)
        for entry in entries:
            position = {"topic": entry.topic, "partition": entry.partition, "offset": entry.offset}
            self.latest.append({"query": entry.logger, "message": entry.text, "time": now, **position})

    def close(self) -> None:
        """Say how many records were bad or late."""
        if summary := self.bad.summary():
            _log.warning("%s", summary)
