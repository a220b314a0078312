"""Registers the schemas of topics, and takes them back."""

from __future__ import annotations

import logging
from collections.abc import Sequence

from kestrel_sql.catalog.catalog import Source
from kestrel_sql.errors import EngineError, RegistryError
from kestrel_sql.formats.registered.columns import schema_text
from kestrel_sql.formats.registered.languages import LANGUAGES
from kestrel_sql.formats.registry.memory import SchemaRegistry
from kestrel_sql.formats.serde import Side
from kestrel_sql.plan.commands import CreateStreamV1, CreateTableV1
from kestrel_sql.plan.document import StatementPlan
from kestrel_sql.plan.step import SerdeFeature
from kestrel_sql.planner.ddl.inference import Registration, registrations

_log = logging.getLogger(__name__)


Added = tuple[str, int]
"""A subject and the id of the schema that was added to it."""


def register_schemas(registry: SchemaRegistry, plan: StatementPlan) -> Sequence[Added]:
    """Register the key and value schemas of the topic that a CREATE declares; other statements have none.

    The key schema of a sink is frozen: a serialised key begins with its schema id and decides the partition, so a new
    id would move a key to another partition.

    Returns:
        What was added, for `retract_schemas` if the statement fails later.

    Raises:
        RegistryError: a schema id does not exist, or the subject has another id for the schema; nothing was added.
    """
    command, query = plan.ddl_command, plan.query_plan
    sink = query is not None and query.sink is not None
    added: list[Added] = []
    if not isinstance(command, CreateStreamV1 | CreateTableV1):
        return added
    wanted = [*registrations(command.topic_name, command.formats, command.schema, sink=sink)]
    latest = {each.subject: registry.latest(each.subject) for each in wanted}
    wanted = [each for each in wanted if not (each.only_if_absent and latest[each.subject] is not None)]
    try:
        for each in wanted:
            known, schema_id = latest[each.subject], _register(registry, each)
            if known is None or known.id != schema_id:
                added.append((each.subject, schema_id))
    except BaseException:
        retract_schemas(registry, added)
        raise
    for each in wanted:
        if sink and each.side is Side.KEY:
            registry.freeze(each.subject)
    return added


def retract_schemas(registry: SchemaRegistry, added: Sequence[Added]) -> None:
    """Take back what `register_schemas` added; what cannot be taken back is told in the log."""
    for subject, schema_id in added:
        try:
            registry.retract(subject, schema_id)
        except EngineError as error:
            _log.warning("the schema %s stays in the subject %s: %s", schema_id, subject, error.message)


def delete_schemas(registry: SchemaRegistry, source: Source) -> None:
    """Delete the subjects of a source's topic, as DROP … DELETE TOPIC does (rules L5).

    Raises:
        RegistryError: the registry does not answer, or refuses.
    """
    for registration in registrations(source.topic, source.formats, source.schema, sink=False):
        registry.delete(registration.subject)


def _register(registry: SchemaRegistry, wanted: Registration) -> int:
    if wanted.schema_id is None:
        text = schema_text(
            wanted.columns,
            wanted.format,
            unwrapped=len(wanted.columns) == 1 and SerdeFeature.UNWRAP_SINGLES in wanted.features,
        )
        return registry.register(wanted.subject, LANGUAGES[wanted.format.format].format, text)
    known = registry.by_id(wanted.schema_id)
    if known is None:
        raise RegistryError(
            f"Schema with id {wanted.schema_id} does not exist in the Schema Registry. Subject: {wanted.subject}"
        )
    registered = registry.register(wanted.subject, known.format, known.text, known.references)
    if registered != wanted.schema_id:
        raise RegistryError(
            f"Schema id registered is {registered} which is different from provided schema id {wanted.schema_id}."
        )
    return registered
