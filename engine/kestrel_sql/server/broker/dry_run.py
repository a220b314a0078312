"""Says what a take-over of a ksqlDB service would do with each query, and changes nothing."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec

from kestrel_sql.errors import EngineError
from kestrel_sql.kafka.client.config import KafkaConfig
from kestrel_sql.kafka.client.offsets import BrokerOffsets
from kestrel_sql.kafka.run.adoption import Adoption, StillRunsError
from kestrel_sql.kafka.run.manifest import CheckpointFolder
from kestrel_sql.kafka.run.prepare_query import Preparation
from kestrel_sql.kafka.run.resume import NamedQuery
from kestrel_sql.plan.codec.plan_file import decode_statement
from kestrel_sql.server.broker.command_topic import CommandTopic, check_adoption
from kestrel_sql.session.session import PersistentQuery, Session, properties_config
from kestrel_sql.sql.nodes.admin import ControlQuery


class Forecast(msgspec.Struct, frozen=True):
    """What would happen to a query; `is_taken` says whether it would go on."""

    query_id: str
    text: str
    is_taken: bool


def forecasts(adoption: Adoption, session: Session, texts: Sequence[str] = ()) -> Iterator[Forecast]:
    """Look at all queries of a service; `session` is empty, and has its schema registry.

    A service without a command topic has read the texts of a script.

    Raises:
        EngineError: a command cannot run here, or the broker refuses.
    """
    for parsed in [each for text in texts for each in session.parse(text)]:
        session.execute(parsed)
    if not texts:
        _follow(adoption.config, adoption.service_id, session)
    offsets = BrokerOffsets(adoption.config)
    for query in session.queries.values():
        if query.plan.sink is None:
            continue
        try:
            yield Forecast(query.id, _forecast(adoption, query, session, offsets), is_taken=True)
        except StillRunsError as error:
            yield Forecast(query.id, str(error), is_taken=False)
        except EngineError as error:
            yield Forecast(query.id, error.render(), is_taken=False)


def _follow(config: KafkaConfig, service_id: str, session: Session) -> None:
    """Carry out the commands of a service in a session."""
    commands = [*CommandTopic(config, service_id).read()]
    if not commands:
        raise EngineError(f"the service {service_id} has no commands", hint="name another --service-id")
    check_adoption(commands, session.functions)
    for command in commands:
        record = command.record
        if record.plan is not None:
            session.execute_plan(
                decode_statement(record.plan), properties_config({**record.configured, **record.properties})
            )
            continue
        for parsed in session.parse(record.statement):
            statement = parsed.statement
            if isinstance(statement, ControlQuery) and statement.verb == "TERMINATE":
                for name in [*session.queries] if statement.query_id is None else [statement.query_id]:
                    session.queries.pop(name, None)


def _forecast(adoption: Adoption, query: PersistentQuery, session: Session, offsets: BrokerOffsets) -> str:
    # Without a start nothing is read from the folder, nor written into it.
    preparation = Preparation(
        session=session,
        folder=CheckpointFolder(Path()),
        offsets=offsets,
        from_start=False,
        fresh_topics=frozenset(),
    )
    prepared = preparation.new(NamedQuery(name=query.id, query=query, replaces=False))
    return adoption.forecast(prepared, offsets, session.serde())
