"""What there is at the end of a case: records, sources, topics, serdes and log entries."""

from __future__ import annotations

from msgspec.structs import replace

from kestrel_qtt.cases import model
from kestrel_qtt.drivers.case_records import actual_records
from kestrel_qtt.drivers.records.run import CaseRun
from kestrel_qtt.drivers.silence import EventTimes, late_inputs, unread_inputs
from kestrel_qtt.drivers.stored_plan import last_serdes
from kestrel_qtt.drivers.topics import source_state, topic_states
from kestrel_sql.dataflow.log_entries import LATE
from kestrel_sql.errors import EngineError

_KINDS = ("deserialization", "processing", "production", "serialization", "thread")


def outcome_of(run: CaseRun) -> model.Outcome:
    """The outcome that ended the case early, else what it produced."""
    return produced(run) if run.outcome is None else run.outcome


def produced(run: CaseRun) -> model.Produced | model.Crashed:
    """What a case whose queries have all run produced."""
    session, case = run.session, run.case
    try:
        records = {
            topic: _with_causes(run, topic, actual_records(session, topic, f)) for topic, f in run.topics.items()
        }
    except EngineError as error:
        return model.Crashed(message=f"an output record cannot be read back: {error}")
    return model.Produced(
        records=records,
        sources=tuple(source_state(source) for source in session.catalog.sources.values()),
        topics=tuple(topic_states(session, case)),
        # ksqlDB says in another log that records are late.
        log=tuple(
            model.LogEntry(_KINDS[entry.kind], entry.text, entry.topic, entry.offset)
            for entry in run.log
            if entry.kind != LATE
        ),
        serdes=last_serdes(session) if case.serdes is not None else {},
        silence=silence(run),
        event_times=event_times(run),
    )


def event_times(run: CaseRun) -> tuple[int | None, ...]:
    """The event time of each input of a case: that of the first source over its topic that takes it from a column."""
    times: dict[int, int | None] = {}
    for topic in dict.fromkeys(record.topic for record in run.inputs):
        source = next((each for each in run.session.sources_of_topic(topic) if each.timestamp_column), None)
        if source is not None:
            reader = EventTimes(run.session, source, source.timestamp_column)
            own = (record for record in run.inputs if record.topic == topic)
            times.update({id(run.given[each.topic, each.partition, each.offset]): reader.of(each) for each in own})
    return tuple(times.get(id(given), given.timestamp) for given in run.case.inputs)


def silence(run: CaseRun) -> tuple[str, ...]:
    """Say which inputs of a case had no effect."""
    queries = run.session.queries.values()
    late = (each for query in queries for each in late_inputs(run.session, query, run.feed_of(query)))
    return (*unread_inputs(run.session, run.case.inputs, [query.plan for query in queries]), *late)


def _with_causes(run: CaseRun, topic: str, records: tuple[model.ActualRecord, ...]) -> tuple[model.ActualRecord, ...]:
    """The records of a topic with the inputs that caused them."""
    return tuple(
        replace(record, cause=run.causes.get((topic, record.partition or 0, record.offset or 0))) for record in records
    )
