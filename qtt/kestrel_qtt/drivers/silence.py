"""Report the inputs of a case that had no effect, and why (rule Q8.6)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence

from kestrel_qtt.cases.model import InputRecord
from kestrel_sql.catalog.catalog import Source
from kestrel_sql.dataflow.aggregate_operators import grace_and_retention, has_cache
from kestrel_sql.errors import SerdeError, did_you_mean
from kestrel_sql.java.time.text import parse_instant
from kestrel_sql.java.time.zones import zone_of
from kestrel_sql.plan.document import QueryPlan
from kestrel_sql.plan.step import SerdeFeature, Step, TimestampColumn
from kestrel_sql.plan.steps.aggregates import StreamWindowedAggregateV1
from kestrel_sql.plan.steps.sources import StreamSourceV1
from kestrel_sql.plan.steps.streams import (
    StreamGroupByKeyV1,
    StreamGroupByV1,
    StreamGroupByV2,
    StreamSelectV1,
)
from kestrel_sql.session.session import PersistentQuery, Session
from kestrel_sql.session.source_records import SourceRecords
from kestrel_sql.sql.nodes.statements import Emit, HoppingWindow, SessionWindow, Window
from kestrel_sql.topics.records import Record


class EventTimes:
    """Reads the event times of the records of a source."""

    def __init__(self, session: Session, source: Source, column: TimestampColumn | None) -> None:
        """Prepare to read `column` of a source, or the timestamps of its records."""
        self._column = column
        self._records = SourceRecords.of(source, session.serde())

    def of(self, record: Record) -> int | None:
        """The event time of a record (ms); None if the query drops the record for want of one."""
        if self._column is None or record.value is None:
            return None if record.value is None else record.timestamp
        try:
            found = self._records.to_row(record).get(self._column.column)
            if isinstance(found, str):
                found = parse_instant(found, self._column.format or "", zone_of("UTC"))
        except (SerdeError, ValueError):
            return None
        return found if isinstance(found, int) and found >= 0 else None


_PASSING = (StreamGroupByKeyV1, StreamGroupByV1, StreamGroupByV2, StreamSelectV1)
"""Steps that let each row through with its timestamp."""


def unread_inputs(session: Session, inputs: Sequence[InputRecord], plans: Iterable[QueryPlan]) -> Iterator[str]:
    """Name the input topics that no source has or no query reads, and the members that match no column."""
    sources = session.catalog.sources
    read = {sources[name].topic for plan in plans for name in plan.sources if name in sources}
    for topic, count in Counter(given.topic for given in inputs).items():
        source = next(iter(session.sources_of_topic(topic)), None)
        if source is None:
            close = did_you_mean(topic, {known.topic for known in sources.values()})
            yield f"no stream or table has the topic {topic}: {_inputs(count)} went nowhere" + (
                f"; {close}" if close else ""
            )
            continue
        if read and topic not in read:
            yield f"no query reads the topic {topic}: {_inputs(count)} had no effect"
        missing = dict.fromkeys(
            name for given in inputs if given.topic == topic for name in _without_column(source, given.value)
        )
        if missing:
            yield f"{source.name} has no column {', '.join(missing)}: these members of inputs of {topic} were dropped"


def _inputs(count: int) -> str:
    return f"{count} input" if count == 1 else f"{count} inputs"


def _without_column(source: Source, value: object) -> Iterator[str]:
    """The members of a value that are no columns of its source."""
    if not isinstance(value, Mapping) or SerdeFeature.UNWRAP_SINGLES in source.message_formats.value_features:
        return
    columns = {column.name for column in source.message_schema.value}
    yield from (name for name in value if name not in columns and name.upper() not in {c.upper() for c in columns})


def late_inputs(session: Session, query: PersistentQuery, feed: Sequence[Record]) -> Iterator[str]:
    """Count the windows that had expired before an input for them came, and those that EMIT FINAL holds back or loses.

    `feed` is what the query was fed, in order. A query that filters or joins is left out, because its stream time is
    not that of the inputs.
    """
    plan = query.plan
    windowed = _windowed(plan.physical_plan)
    if windowed is None or plan.sources[0] not in session.catalog.sources:
        return
    found, read = windowed
    event_times = EventTimes(session, session.catalog.sources[plan.sources[0]], read.timestamp_column)
    times = [time for record in feed if (time := event_times.of(record)) is not None]
    if not times:
        return
    window, final = found.window_expression.window, found.window_expression.emit is Emit.FINAL
    grace, retention = grace_and_retention(window)
    expired, newest = 0, times[0]
    windows: set[tuple[int, int]] = set()
    for at, time in enumerate(times):
        newest = max(newest, time)
        for start, end in _windows(window, time):
            if _is_over(window, end, newest - grace):
                # A late row may still join a session of an earlier one.
                expired += not (isinstance(window, SessionWindow) and any(start <= t <= end for t in times[:at]))
            else:
                windows.add((start, end))
    if expired:
        is_one = "1 window had" if expired == 1 else f"{expired} windows had"
        yield f"{is_one} expired when an input for it came (stream time {newest}, grace {grace} ms): {plan.query_id}"
    held = sum(not _is_over(window, end, newest - grace) for _, end in windows)
    if not final or isinstance(window, SessionWindow):
        return
    if held:
        are = "1 window is" if held == 1 else f"{held} windows are"
        yield (
            f"{are} still open at stream time {newest}: EMIT FINAL emits a window when an input comes "
            f"{grace} ms or more after its end: {plan.query_id}"
        )
    if lost := 0 if has_cache(query.config) else _lost(window, times, grace, retention):
        were = "1 window was" if lost == 1 else f"{lost} windows were"
        yield (
            f"{were} lost: without a cache (cache.max.bytes.buffering is 0), EMIT FINAL emits no window that began "
            f"more than {retention} ms before the newest one: {plan.query_id}"
        )


def _lost(window: Window, times: Sequence[int], grace: int, retention: int) -> int:
    """Count the windows that had left the store when they closed (rule O9.4); all in ms."""
    stream_time, newest, lost = times[0], 0, 0
    waiting: set[tuple[int, int]] = set()
    for time in times:
        stream_time = max(stream_time, time)
        waiting |= {found for found in _windows(window, time) if not _is_over(window, found[1], stream_time - grace)}
        newest = max([newest, *(start for start, _ in waiting)])
        closed = {found for found in waiting if _is_over(window, found[1], stream_time - grace)}
        lost += sum(start < newest - retention for start, _ in closed)
        waiting -= closed
    return lost


def _windowed(top: Step) -> tuple[StreamWindowedAggregateV1, StreamSourceV1] | None:
    """The windowed aggregate of a query whose rows all come to it, and their source."""
    found: StreamWindowedAggregateV1 | None = None
    step: Step | None = top
    while step is not None and not isinstance(step, StreamSourceV1):
        if isinstance(step, StreamWindowedAggregateV1):
            found = step
        elif found is not None and not isinstance(step, _PASSING):
            return None
        step = getattr(step, "source", None)
    return None if found is None or not isinstance(step, StreamSourceV1) else (found, step)


def _windows(window: Window, time: int) -> Iterator[tuple[int, int]]:
    """The windows that a row falls in, start and end in ms; of a session the row alone."""
    if isinstance(window, SessionWindow):
        yield time, time + window.gap.millis
        return
    size = window.size.millis
    advance = window.advance.millis if isinstance(window, HoppingWindow) else size
    first = max(0, time - size + advance) // advance * advance
    yield from ((start, start + size) for start in range(first, time + 1, advance))


def _is_over(window: Window, end: int, close: int) -> bool:
    return end < close if isinstance(window, SessionWindow) else end <= close
