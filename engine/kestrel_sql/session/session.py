"""Executes statements: plans them, changes the catalog and keeps the persistent queries. It does not start Spark.

Every plan is written to JSON and read back before it is executed, so every statement exercises the plan format.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import msgspec
from msgspec.structs import replace

from kestrel_sql.catalog.apply import apply_command, check_topic, kafka_source, source_of
from kestrel_sql.catalog.catalog import Catalog, Source
from kestrel_sql.catalog.upgrade import check_plan_upgrade, check_source_upgrade
from kestrel_sql.errors import UnsupportedError
from kestrel_sql.formats.registry.memory import MemoryRegistry, SchemaRegistry
from kestrel_sql.formats.serde import SerdeSpec
from kestrel_sql.functions.registry import Registry
from kestrel_sql.functions.table import FUNCTIONS
from kestrel_sql.plan.codec.plan_file import check_storable
from kestrel_sql.plan.commands import CreateKafkaSourceV1, CreateStreamV1, CreateTableV1, DdlCommand, DropSourceV1
from kestrel_sql.plan.copartitioning import check_partitions
from kestrel_sql.plan.document import QueryPlan, StatementPlan
from kestrel_sql.planner.config import Config
from kestrel_sql.planner.ddl.kafka_source import plan_kafka_source, refuse_generated
from kestrel_sql.planner.ddl.statements import (
    SourceUse,
    may_create,
    plan_alter,
    plan_create_source,
    plan_create_type,
    plan_drop,
    plan_drop_type,
)
from kestrel_sql.planner.inserts import ResolvedInsert, plan_insert_values
from kestrel_sql.planner.internal_topics import check_writable
from kestrel_sql.planner.properties.with_clause import insert_query_id
from kestrel_sql.planner.query import plan_create_as, plan_insert_into, plan_source_table
from kestrel_sql.session.registered_schemas import Added, delete_schemas, register_schemas, retract_schemas
from kestrel_sql.sql.nodes.kafka_source import CreateGeneratedSource, CreateKafkaSource
from kestrel_sql.sql.nodes.statements import (
    AlterSource,
    AlterSystem,
    CreateAs,
    CreateSource,
    CreateType,
    DefineVariable,
    DropSource,
    DropType,
    InsertInto,
    InsertValues,
    SetProperty,
    SourceKind,
    UndefineVariable,
    UnsetProperty,
)
from kestrel_sql.sql.parse.parser import ParsedStatement, parse_script
from kestrel_sql.sql.parse.variables import known_name
from kestrel_sql.types.sql_types import quote

_LATER = ""
"""The id of a query in a plan that is not executed yet."""


class PersistentQuery(msgspec.Struct, frozen=True, kw_only=True):
    """A query that runs until it is terminated, with the configuration that it was planned under."""

    plan: QueryPlan
    config: Config
    statement_text: str

    @property
    def id(self) -> str:
        """The query id, such as `CSAS_OUT_0`."""
        return self.plan.query_id

    def materialises(self, name: str) -> bool:
        """Whether it keeps the read-only table of that name."""
        return self.plan.sink is None and self.plan.sources == (name,)


class Executed(msgspec.Struct, frozen=True, kw_only=True):
    """The effect of one statement.

    Attributes:
        statement: the statement.
        plan: the plan that was executed; None for statements that only change the session.
        insert: the values of an INSERT VALUES, which the caller writes.
        message: why nothing was done; may be empty.
        deletes: the dropped source whose topic and schemas the caller deletes (`Session.delete_schemas`).
        registered: the schemas that were registered for it, for `Session.retract` if the caller cannot carry it out.
    """

    statement: ParsedStatement
    plan: StatementPlan | None = None
    insert: ResolvedInsert | None = None
    message: str = ""
    deletes: Source | None = None
    registered: Sequence[Added] = ()

    @property
    def created_query(self) -> str | None:
        """The id of the persistent query that the statement started."""
        query = None if self.plan is None else self.plan.query_plan
        return None if query is None else query.query_id


class Session(msgspec.Struct):
    """The state of one user: catalog, queries, properties, variables and schema registry.

    `partitions` are the numbers of partitions that are known, by topic: PARTITIONS of a CREATE, else those of the
    left-most source of its query.
    """

    config: Config = msgspec.field(default_factory=Config)
    functions: Registry = FUNCTIONS
    registry: SchemaRegistry = msgspec.field(default_factory=MemoryRegistry)
    catalog: Catalog = msgspec.field(default_factory=Catalog)
    queries: dict[str, PersistentQuery] = {}
    variables: dict[str, str] = {}
    counter: int = 0
    partitions: dict[str, int] = {}

    def parse(self, text: str, most: int | None = None) -> tuple[ParsedStatement, ...]:
        """Parse a script, or its first `most` statements.

        Raises:
            SqlSyntaxError: the script has a syntax error; names the first one.
        """
        substitute = self.config.flag("ksql.variable.substitution.enable")
        return parse_script(text, self.variables if substitute else None, most=most)

    def execute(self, parsed: ParsedStatement) -> Executed:
        """Plan a statement and execute the plan.

        Raises:
            StatementError: the statement is refused; nothing has changed.
        """
        return self.commit(self.plan(parsed))

    def plan(self, parsed: ParsedStatement) -> Executed:
        """Plan a statement; one that has no plan, such as SET, takes effect.

        Raises:
            StatementError: the statement is refused; nothing has changed.
        """
        return self._plan(parsed.statement, parsed)

    def commit(self, planned: Executed) -> Executed:
        """Execute the plan of a statement, which another session over the same catalog may have planned.

        Its query gets the next id of this session.

        Raises:
            StatementError: the statement is refused; nothing has changed.
        """
        plan, parsed = planned.plan, planned.statement
        if plan is None:
            return planned
        query = plan.query_plan
        if query is not None:
            query = replace(query, query_id=self._query_id(parsed.statement, query))
            plan = replace(plan, query_plan=query)
            check_partitions(query.physical_plan, self.partitions)
        if isinstance(plan.ddl_command, CreateStreamV1 | CreateTableV1 | CreateKafkaSourceV1):
            check_topic(plan.ddl_command.topic_name)
            if isinstance(parsed.statement, CreateAs):
                check_writable(plan.ddl_command.topic_name, self.config, parsed.span)
        check_storable(plan)
        registered = register_schemas(self.registry, plan)
        try:
            self.execute_plan(plan)
        except BaseException:
            self.retract(registered)
            raise
        if isinstance(plan.ddl_command, CreateStreamV1 | CreateTableV1):
            self._note_partitions(plan.ddl_command.topic_name, parsed.statement, query)
        if query is not None:
            self.counter += 1
        return replace(planned, plan=plan, registered=registered)

    def execute_plan(self, plan: StatementPlan, config: Config | None = None) -> None:
        """Execute a plan of any release: the DDL command, then the query, under `config` or the session's own.

        Raises:
            StatementError: the catalog does not allow the command; nothing has changed.
        """
        query = plan.query_plan
        if plan.ddl_command is not None:
            writes = query is not None and query.sink is not None
            self._forget_dropped(plan.ddl_command)
            self.catalog = apply_command(
                self.catalog,
                plan.ddl_command,
                created_by=query.query_id if query is not None and writes else None,
                derived_from=query.sources if query is not None and writes else (),
                statement_text=plan.statement_text,
            )
        if query is not None:
            self.queries[query.query_id] = PersistentQuery(
                plan=query, config=config or self.config, statement_text=plan.statement_text
            )

    def sources_of_topic(self, topic: str) -> list[Source]:
        """The streams and tables over a topic."""
        return [source for source in self.catalog.sources.values() if source.topic == topic]

    def delete_schemas(self, source: Source) -> None:
        """Delete the schemas of a deleted topic.

        Raises:
            RegistryError: the registry does not answer, or refuses.
        """
        delete_schemas(self.registry, source)

    def retract(self, registered: Sequence[Added]) -> None:
        """Take back the schemas of a statement that failed."""
        retract_schemas(self.registry, registered)

    def serde(self) -> Callable[[SerdeSpec], SerdeSpec]:
        """Return a function that adds the schemas that the registry has now to a serde spec."""
        snapshot = self.registry.snapshot()
        return lambda spec: replace(spec, schemas=snapshot)

    def _plan(self, statement: object, parsed: ParsedStatement) -> Executed:
        match statement:
            case CreateSource():
                return self._create_source(statement, parsed)
            case CreateKafkaSource():
                return self._create_kafka_source(statement, parsed)
            case CreateGeneratedSource():
                raise refuse_generated(statement)
            case CreateAs():
                return self._create_as(statement, parsed)
            case InsertInto():
                query_id = insert_query_id(statement.properties) or _LATER
                plan = plan_insert_into(statement, self.catalog, self.config, query_id, parsed.text, self.functions)
                return Executed(statement=parsed, plan=plan)
            case InsertValues():
                return Executed(statement=parsed, insert=plan_insert_values(statement, self.catalog, self.config))
            case DropSource():
                return self._drop(statement, parsed)
            case AlterSource():
                return self._planned_ddl(parsed, plan_alter(statement, self.catalog))
            case _:
                return self._plan_type_or_setting(statement, parsed)

    def _plan_type_or_setting(self, statement: object, parsed: ParsedStatement) -> Executed:
        match statement:
            case CreateType(name):
                otherwise = f"{name} is already registered with type {self.catalog.types.get(name)}"
                return self._planned_ddl(parsed, plan_create_type(statement, self.catalog), otherwise)
            case DropType(name):
                otherwise = f"Type '{name}' does not exist"
                return self._planned_ddl(parsed, plan_drop_type(statement, self.catalog), otherwise)
            case SetProperty(name, value):
                self.config = self.config.with_property(name, value)
            case UnsetProperty(name):
                self.config = self.config.without_property(name)
            case DefineVariable(name, value):
                self.variables[known_name(self.variables, name)] = value
            case UndefineVariable(name):
                self.variables.pop(known_name(self.variables, name), None)
            case AlterSystem():
                raise UnsupportedError(
                    "ALTER SYSTEM needs a server",
                    span=parsed.span,
                    hint="SET 'NAME' = 'VALUE' sets a property for the statements that follow",
                )
            case _:
                keyword = parsed.text.split(maxsplit=1)[0].upper() if parsed.text.split() else type(statement).__name__
                raise UnsupportedError(
                    f"{keyword} is not supported here",
                    span=parsed.span,
                    hint="a session plans statements only; run this one in `kestrel shell`",
                )
        return Executed(statement=parsed)

    def _create_source(self, statement: CreateSource, parsed: ParsedStatement) -> Executed:
        command = plan_create_source(statement, self.catalog, self.config, self.registry)
        if command is None:
            return self._existing(parsed, statement.name)
        query = self._materialised(source_of(command)) if command.is_source else None
        return Executed(
            statement=parsed, plan=StatementPlan(statement_text=parsed.text, ddl_command=command, query_plan=query)
        )

    def _create_kafka_source(self, statement: CreateKafkaSource, parsed: ParsedStatement) -> Executed:
        command = plan_kafka_source(statement, self.catalog, self.config, self.registry)
        if command is None:
            return self._existing(parsed, statement.name)
        query = self._materialised(kafka_source(command))
        return Executed(
            statement=parsed, plan=StatementPlan(statement_text=parsed.text, ddl_command=command, query_plan=query)
        )

    def _create_as(self, statement: CreateAs, parsed: ParsedStatement) -> Executed:
        if not may_create(statement, self.catalog, self.config):
            return self._existing(parsed, statement.name)
        replaced = self._query_writing(statement.name)
        plan = plan_create_as(statement, self.catalog, self.config, _LATER, parsed.text, self.functions, self.registry)
        if isinstance(plan.ddl_command, CreateStreamV1 | CreateTableV1):
            existing = self.catalog.sources.get(statement.name)
            if existing is not None:
                check_source_upgrade(existing, source_of(plan.ddl_command))
        if replaced is not None and plan.query_plan is not None:
            check_plan_upgrade(replaced.plan.physical_plan, plan.query_plan.physical_plan)
        return Executed(statement=parsed, plan=plan)

    def _drop(self, statement: DropSource, parsed: ParsedStatement) -> Executed:
        inserts = [q for q in self.queries.values() if q.plan.sink and self._query_writing(q.plan.sink) is not q]
        use = SourceUse(
            sources=self.catalog.derived(statement.name),
            readers=tuple(q.id for q in inserts if statement.name in q.plan.sources),
            writers=tuple(q.id for q in inserts if q.plan.sink == statement.name),
        )
        source = self.catalog.sources.get(statement.name)
        sharing = tuple(x.name for x in self.sources_of_topic(source.topic) if x.name != source.name) if source else ()
        if source is not None and statement.delete_topic:
            check_writable(source.topic, self.config, parsed.span)
        executed = self._planned_ddl(parsed, plan_drop(statement, self.catalog, use, sharing_topic=sharing))
        return replace(executed, deletes=source) if statement.delete_topic else executed

    def _materialised(self, source: Source) -> QueryPlan | None:
        """Return the query that materialises a read-only table; None for a stream, or if the config disables it."""
        if source.kind is not SourceKind.TABLE or not self.config.flag("ksql.source.table.materialization.enabled"):
            return None
        return plan_source_table(source, _LATER, self.config)

    def _note_partitions(self, topic: str, statement: object, query: QueryPlan | None) -> None:
        """Take over the number of partitions that a CREATE gives its topic; that of an existing topic stays."""
        if not isinstance(statement, CreateSource | CreateAs):
            return
        written = str(dict(statement.properties).get("PARTITIONS", ""))
        left = self.catalog.sources.get(query.sources[0]) if query is not None and query.sources else None
        count = int(written) if written.isdecimal() else self.partitions.get(left.topic) if left is not None else None
        if count:
            self.partitions.setdefault(topic, count)

    def _existing(self, parsed: ParsedStatement, name: str) -> Executed:
        kind = self.catalog.sources[name].kind.value.lower()
        message = f"Cannot add {kind} {quote(name)}: A {kind} with the same name already exists."
        return Executed(statement=parsed, message=message)

    def _planned_ddl(
        self, parsed: ParsedStatement, command: DdlCommand | None, otherwise: str = "nothing to do"
    ) -> Executed:
        if command is None:
            return Executed(statement=parsed, message=otherwise)
        return Executed(statement=parsed, plan=StatementPlan(statement_text=parsed.text, ddl_command=command))

    def _query_writing(self, name: str) -> PersistentQuery | None:
        """Return the CREATE AS query of a source, or None."""
        source = self.catalog.sources.get(name)
        return self.queries.get(source.created_by) if source is not None and source.created_by else None

    def _forget_dropped(self, command: DdlCommand) -> None:
        if isinstance(command, DropSourceV1):
            name = command.source_name
            own = self._query_writing(name) or next((q for q in self.queries.values() if q.materialises(name)), None)
            self.queries.pop("" if own is None else own.id, None)

    def _query_id(self, statement: object, query: QueryPlan) -> str:
        """Return the id of a query that is about to start: its own, that of the one it replaces, or the next."""
        match statement:
            case CreateAs(name=name, kind=kind):
                replaced = self._query_writing(name)
                prefix = f"{'CSAS' if kind is SourceKind.STREAM else 'CTAS'}_{name.upper()}_"
                return f"{prefix}{self.counter}" if replaced is None else replaced.id
            case InsertInto():
                return query.query_id or f"INSERTQUERY_{self.counter}"
            case _:
                return f"CST_{query.sources[0].upper()}_{self.counter}"


def properties_config(properties: Mapping[str, object], defaults: Mapping[str, object] | None = None) -> Config:
    """Return a configuration with these properties, which override the defaults."""
    return Config.of({**(defaults or {}), **properties})
