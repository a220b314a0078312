"""Runs SQL test scripts: executes the statements one by one, and checks the assertions on topics."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import MappingProxyType

from kestrel_qtt.cases import model
from kestrel_qtt.drivers.case_config import crashed_config
from kestrel_qtt.drivers.functions import functions_from
from kestrel_qtt.drivers.topics import NO_CACHE
from kestrel_qtt.ksqldb.sql_scripts import ScriptCase
from kestrel_sql.catalog.apply import source_of
from kestrel_sql.catalog.catalog import Catalog, Source
from kestrel_sql.errors import AssertionFailedError, EngineError, SqlSyntaxError, StatementError
from kestrel_sql.plan.step import WindowInfo, WindowType
from kestrel_sql.planner.ddl.statements import plan_create_source
from kestrel_sql.planner.expressions.insert_coercion import coerce_value
from kestrel_sql.queries.engine import MemoryEngine
from kestrel_sql.queries.topic_rules import TopicRule
from kestrel_sql.session.session import Session, properties_config
from kestrel_sql.session.source_records import SourceRecords
from kestrel_sql.sql.nodes.admin import AssertNullValues, AssertSource, AssertValues, RunScript
from kestrel_sql.sql.nodes.expressions import Expression
from kestrel_sql.sql.nodes.statements import CreateAs, CreateSource, InsertInto
from kestrel_sql.sql.parse.parser import ParsedStatement, parse_script
from kestrel_sql.topics.records import Record
from kestrel_sql.types.schema import ROWTIME, Column

_PROPERTIES = {"auto.offset.reset": "latest", "max.task.idle.ms": 0, **NO_CACHE}


def run_scripts(cases: Sequence[ScriptCase]) -> Iterator[tuple[model.Case, model.Outcome, float]]:
    """Run tests one by one, each on its own engine."""
    for case in cases:
        started = time.perf_counter()
        try:
            outcome = _run(case)
        except Exception as error:  # noqa: BLE001 - a bug on one case must not end the run
            outcome = model.Crashed(message=f"{type(error).__name__}: {error}")
        yield case, outcome, time.perf_counter() - started


def _run(case: ScriptCase) -> model.Outcome:
    wrong = crashed_config(case)
    if wrong is not None:
        return wrong
    session = Session(
        config=properties_config(dict(case.properties), _PROPERTIES), functions=functions_from(case.functions)
    )
    script = _Script(MemoryEngine(session, topics=TopicRule.HARNESS), case.file)
    try:
        for text in case.statements:
            script.run(text, asserts=True)
    except SqlSyntaxError as error:
        return model.Rejected(message=str(error), error_code=error.code)
    except EngineError as error:
        return model.Rejected(message=f"line {script.line}: {error}", error_code=error.code)
    finally:
        script.engine.close()
    return model.Produced(records={})


class _Script:
    """A test in execution; every topic has one read position that all assertions share."""

    def __init__(self, engine: MemoryEngine, file: Path) -> None:
        self.engine = engine
        self.line = 0
        """The line of the statement of the test that runs."""
        self._file = file
        self._read: Counter[str] = Counter()

    def run(self, text: str, *, asserts: bool) -> None:
        for parsed in parse_script(text, self.engine.session.variables, test_statements=asserts):
            self.line = parsed.span.line if asserts else self.line
            match parsed.statement:
                case AssertValues() | AssertNullValues() as expected:
                    self._assert_values(expected, parsed)
                case AssertSource() as expected:
                    self._assert_source(expected, parsed)
                case RunScript(path) if asserts:
                    self.run(self._script(path, parsed), asserts=False)
                case statement:
                    if isinstance(statement, CreateAs | InsertInto):
                        # What was inserted so far is for the queries that there are.
                        self.engine.flush()
                    self.engine.execute(parsed)

    def _script(self, path: str, parsed: ParsedStatement) -> str:
        """Return the text of a script.

        Below the folder of the test, or, after `/`, below the nearest folder above it.
        """
        folders = self._file.absolute().parents if path.startswith("/") else [self._file.parent]
        found = next((file for folder in folders if (file := folder / path.lstrip("/")).is_file()), None)
        text = found.read_text(encoding="utf-8") if found else ""
        if not text.strip():
            why = "is empty" if found else "does not exist"
            raise StatementError(
                f"the script {path} {why}",
                span=parsed.span,
                hint=(
                    f"a path that begins with / is searched in {folders[0]} and each folder above it"
                    if path.startswith("/")
                    else f"paths are relative to {folders[0]}"
                ),
            )
        return text

    def _assert_values(self, expected: AssertValues | AssertNullValues, parsed: ParsedStatement) -> None:
        self.engine.flush()
        session = self.engine.session
        source = session.catalog.sources.get(expected.source)
        if source is None:
            raise StatementError(f"{expected.source} does not exist", span=parsed.span)
        records = self.engine.broker.records(source.topic)
        place = self._read[source.topic]
        if place >= len(records):
            raise AssertionFailedError(
                f"Expected another record of {source.name}, but its topic {source.topic} holds {place}."
            )
        self._read[source.topic] += 1
        record = records[place]
        is_null = isinstance(expected, AssertNullValues)
        if is_null and record.value is not None:
            raise AssertionFailedError(f"Expected a tombstone, but was {_text(record)}.")
        actual = SourceRecords.of(source, session.serde()).to_row(record)
        columns = self._columns(source, expected, keys_only=is_null)
        self._compare(columns, expected.values, actual, parsed, record)

    def _columns(self, source: Source, expected: AssertValues | AssertNullValues, *, keys_only: bool) -> list[Column]:
        if not expected.columns:
            return list(source.schema.key if keys_only else source.schema.columns)
        found = []
        for name in expected.columns:
            column = ROWTIME if name == ROWTIME.name else source.schema.find(name)
            if column is None:
                raise StatementError(f"{source.name} has no column {name}", span=expected.span)
            found.append(column)
        return found

    def _compare(
        self,
        columns: Sequence[Column],
        values: Sequence[Expression],
        actual: dict[str, object],
        parsed: ParsedStatement,
        record: Record,
    ) -> None:
        if len(columns) != len(values):
            raise StatementError(f"{len(columns)} columns, but {len(values)} values", span=parsed.span)
        found = self.engine.constants().values(values)
        for column, (bound, value) in zip(columns, found, strict=True):
            wanted = coerce_value(value, bound.type, column)
            if wanted != actual.get(column.name):
                raise AssertionFailedError(
                    f"Expected record does not match actual. {column.name}: expected {wanted!r}, "
                    f"was {actual.get(column.name)!r}, in {_text(record)}"
                )

    def _assert_source(self, expected: AssertSource, parsed: ParsedStatement) -> None:
        session = self.engine.session
        source = session.catalog.sources.get(expected.name)
        if source is None:
            raise AssertionFailedError(f"{expected.kind.value.capitalize()} {expected.name} does not exist.")
        create = CreateSource(expected.kind, expected.name, expected.elements, expected.properties)
        others = MappingProxyType(
            {name: other for name, other in session.catalog.sources.items() if name != expected.name}
        )
        command = plan_create_source(create, Catalog(others, session.catalog.types), session.config, session.registry)
        if command is None:
            raise StatementError("nothing to compare", span=parsed.span)
        wanted = source_of(command)
        pairs = (
            ("kind", wanted.kind, source.kind),
            ("schema", str(wanted.schema), str(source.schema)),
            ("topic", wanted.topic, source.topic),
            ("formats", wanted.formats, source.formats),
            ("timestamp column", wanted.timestamp_column, source.timestamp_column),
            ("window", _bare(wanted.window), _bare(source.window)),
        )
        for name, left, right in pairs:
            if left != right:
                raise AssertionFailedError(
                    f"Expected {name} does not match actual for source {expected.name}. Expected: {left}, Actual:"
                    f" {right}"
                )


def _bare(window: WindowInfo | None) -> tuple[WindowType, int | None] | None:
    """Return a window without its EMIT clause, which a declaration cannot have."""
    return None if window is None else (window.type, window.size_ms)


def _text(record: Record) -> str:
    return (
        f"record {record.offset} of {record.topic}: key {record.key!r}, value {record.value!r}, timestamp"
        f" {record.timestamp}"
    )
