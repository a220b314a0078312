"""Execute a stored plan in a session, and return the serdes of its last query."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from kestrel_qtt.cases.model import FormatInfo, SerdeInfo
from kestrel_qtt.ksqldb.stored_serdes import Serde, SideFormat, plan_serdes
from kestrel_qtt.plans.store import CACHE_SIZES, RESTORED, written_by
from kestrel_sql.plan.codec.plan_file import PlanFile, load_plan
from kestrel_sql.session.registered_schemas import register_schemas
from kestrel_sql.session.session import Session, properties_config


def execute_stored(
    session: Session, file: Path, properties: Mapping[str, object], defaults: Mapping[str, object]
) -> None:
    """Execute the statements of a plan.json one by one, under the settings that a replay restores.

    Raises:
        EngineError: the file is no plan, or one of its statements is refused.
    """
    execute_plan_file(session, load_plan(file.read_text(encoding="utf-8"), written_by(file)), properties, defaults)


def execute_plan_file(
    session: Session, stored: PlanFile, properties: Mapping[str, object], defaults: Mapping[str, object]
) -> None:
    """Execute the statements of a plan one by one, as `execute_stored` does.

    Raises:
        EngineError: a statement is refused.
    """
    switches = {name: stored.configs.get(name) or "false" for name in RESTORED}
    sizes = {name: size for name in CACHE_SIZES if (size := stored.configs.get(name)) is not None}
    config = properties_config({**sizes, **switches, **properties}, defaults)
    for statement in stored.statements:
        register_schemas(session.registry, statement)
        session.execute_plan(statement, config)


def last_serdes(session: Session) -> dict[str, SerdeInfo]:
    """What the last query of the session writes where, by logger name; nothing without a query."""
    queries = list(session.queries.values())
    if not queries:
        return {}
    found = plan_serdes(queries[-1].plan, session.functions)
    return {name: _info(serde) for name, serde in found.items()}


def _info(serde: Serde) -> SerdeInfo:
    return SerdeInfo(schema=str(serde.schema), key_format=_format(serde.key), value_format=_format(serde.value))


def _format(side: SideFormat | None) -> FormatInfo | None:
    if side is None:
        return None
    return FormatInfo(
        format=side.format.format,
        properties=dict(side.format.properties),
        features=frozenset(feature.value for feature in side.features),
        window_type=side.window.type.value if side.window else None,
        window_size=side.window.size_ms if side.window else None,
    )
