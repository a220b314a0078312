"""What answers pull queries over a broker: copies of tables in memory, else Spark over what the topic holds now."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from kestrel_sql.admin.answer import Answer
from kestrel_sql.catalog.catalog import Source
from kestrel_sql.kafka.client.config import KafkaConfig
from kestrel_sql.kafka.client.consume import read_topics
from kestrel_sql.queries.engine import MemoryEngine
from kestrel_sql.queries.pull import check_no_null_key, current_messages, not_queryable
from kestrel_sql.queries.pull_state import pull_rows
from kestrel_sql.queries.transient import QueryKind, TransientQuery, answer_with
from kestrel_sql.server.broker.tables import TopicTable
from kestrel_sql.topics.records import Record


@dataclass(slots=True, kw_only=True)
class BrokerAsking(MemoryEngine):
    """Plans and answers the transient queries of a session whose topics are on a broker.

    It has no topics of its own.
    """

    config: KafkaConfig
    table_of: Callable[[Source], TopicTable | None]

    def look_up(self, planned: TransientQuery, since: int = 0) -> Answer | list[Record]:
        """Return the answer of a query if a copy of its table has it, otherwise the records.

        Raises:
            QueryError: the table is not loaded yet, or has no rows while an error stands.
            StatementError: the query that wrote the table was terminated.
        """
        if planned.limit == 0:
            return Answer(columns=planned.columns, limited=True)
        sources = self.session.catalog.sources
        if planned.kind is not QueryKind.PULL_TABLE:
            return self._records(sources[planned.plan.sources[0]])
        source = sources[planned.source]
        if source.ingestion is not None:
            records = self._records(source)
            check_no_null_key(records, source)
            return current_messages(records)
        table = self.table_of(source)
        if table is None:
            raise not_queryable(source, None)
        return answer_with(planned, pull_rows(planned, table, self.log))

    def _records(self, source: Source) -> list[Record]:
        found = read_topics(self.config, [source.topic]).get(source.topic, [])
        return sorted(found, key=lambda record: record.timestamp)
