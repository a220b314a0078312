"""Generates applications: sources of every format, chains of queries over them, and records for the sources."""

from __future__ import annotations

import base64
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from pathlib import Path
from typing import Any

from kestrel_qtt.cases.model import Case, InputRecord
from tests.fuzz.agreement import Compared, reason_of

GROUP = 60
"""The applications of one run of Kestrel."""

Columns = Mapping[str, str]
"""The SQL types of columns by name."""

KEY_TYPES = ("STRING", "STRING", "INTEGER", "BIGINT", "DOUBLE")
VALUE_TYPES = (
    *("INTEGER", "INTEGER", "BIGINT", "DOUBLE", "STRING", "STRING", "BOOLEAN", "DECIMAL(6, 2)"),
    *("TIMESTAMP", "DATE", "TIME", "BYTES", "ARRAY<INTEGER>", "MAP<STRING, INTEGER>", "STRUCT<A INTEGER, B STRING>"),
)
NUMBERS = ("INTEGER", "BIGINT", "DOUBLE", "DECIMAL(6, 2)")
GROUPED = ("STRING", "INTEGER", "BIGINT", "BOOLEAN", "DECIMAL(6, 2)", "DATE")
KEY_FORMATS = ("KAFKA", "KAFKA", "JSON", "DELIMITED", "AVRO", "JSON_SR", "PROTOBUF")
VALUE_FORMATS = ("JSON", "JSON", "JSON", "AVRO", "AVRO", "PROTOBUF", "JSON_SR", "PROTOBUF_NOSR", "DELIMITED", "KAFKA")
NESTING_FORMATS = tuple(each for each in VALUE_FORMATS if each not in ("DELIMITED", "KAFKA"))
STEPS_MS = (0, 0, 1, 1000, 1000, 3000, 5000, 10_000, 12_000, 30_000, -1, -1000, -7000, -20_000)

_EXAMPLES: Mapping[str, Sequence[Any]] = {
    "INTEGER": (0, 1, 2, 5, -1, 2**31 - 1),
    "BIGINT": (0, 1, 2, 7, -3, 2**40),
    "DOUBLE": tuple(map(Decimal, ("0.5", "1.0", "2.0", "-2.25", "100.0"))),
    "STRING": ("a", "b", "c", "", "Z", "é", "x y"),
    "BOOLEAN": (True, False),
    "DECIMAL(6, 2)": tuple(map(Decimal, ("0.00", "1.50", "-2.25", "10.00"))),
    "TIMESTAMP": (0, 1_600_000_000_000, 86_399_999),
    "DATE": (0, 1, 18_500),
    "TIME": (0, 1000, 86_399_999),
    "BYTES": tuple(base64.b64encode(each).decode() for each in (b"a", b"bc", b"\xff\x00")),
    "ARRAY<INTEGER>": ([], [1], [2, 1], [3, 3, 1]),
    "MAP<STRING, INTEGER>": ({}, {"a": 1}, {"b": 2, "a": 0}),
    "STRUCT<A INTEGER, B STRING>": ({"A": 1, "B": "x"}, {"A": None, "B": "y"}, {"A": 2, "B": None}),
}
_KEYS: Mapping[str, Sequence[Any]] = {
    "STRING": ("a", "b", "c", "", "é"),
    "INTEGER": (1, 2, 3),
    "BIGINT": (1, 2, 2**40),
    "DOUBLE": tuple(map(Decimal, ("0.5", "1.0", "2.0"))),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Relation:
    """A stream or table that later statements read."""

    name: str
    is_table: bool
    keys: Columns
    columns: Columns
    window: str = ""
    headers: bool = False
    key_format: str
    value_format: str
    topic: str

    @property
    def every(self) -> Columns:
        """All columns."""
        return {**self.keys, **self.columns}

    @property
    def is_plain(self) -> bool:
        """Whether queries with state can read it."""
        return not self.window and self.value_format != "KAFKA"


def is_flat(of: str) -> bool:
    """Say whether a type has no items or fields."""
    return not of.startswith(("ARRAY", "MAP", "STRUCT"))


@dataclass(slots=True)
class Applications:
    """Generates applications, the same for the same `rng`."""

    rng: random.Random
    relations: list[Relation] = field(default_factory=list)
    statements: list[str] = field(default_factory=list)

    def case(self, name: str) -> Case:
        """Return the next application as a case without outputs."""
        self.relations, self.statements = [], []
        key = self.rng.choice(KEY_TYPES)
        bases = [self._base(number, key) for number in range(self.rng.choice((1, 2, 2, 3)))]
        for number in range(self.rng.randint(1, 4)):
            self._query(f"Q{number}")
        return Case(
            id=name,
            file=Path("generated"),
            line=1,
            name=name,
            statements=tuple(self.statements),
            inputs=tuple(self._records(bases)),
            # A server keeps records back; ksqlDB's engine is asked about each of them.
            properties={"cache.max.bytes.buffering": "0"},
        )

    def _chance(self, share: float) -> bool:
        return self.rng.random() < share

    def _base(self, number: int, key: str) -> Relation:
        rng, name = self.rng, f"S{number}"
        format = rng.choice(VALUE_FORMATS)
        types = [rng.choice(VALUE_TYPES) for _ in range(1 if format == "KAFKA" else rng.randint(1, 4))]
        if format not in NESTING_FORMATS:
            types = [rng.choice(KEY_TYPES if format == "KAFKA" else VALUE_TYPES[:12]) for _ in types]
        # The first column may be a foreign key.
        types[0] = key if self._chance(0.5) else types[0]
        columns = {f"{name}_{'ABCD'[at]}": each for at, each in enumerate(types)}
        relation = Relation(
            name=name,
            is_table=self._chance(0.4),
            keys={f"{name}_K": key},
            columns=columns,
            headers=format in NESTING_FORMATS and self._chance(0.15),
            key_format=rng.choice(KEY_FORMATS),
            value_format=format,
            topic=name.lower(),
        )
        self.statements.append(self._declaration(relation))
        self.relations.append(relation)
        return relation

    def _declaration(self, relation: Relation) -> str:
        kind, mark = ("TABLE", "PRIMARY KEY") if relation.is_table else ("STREAM", "KEY")
        elements = [f"{name} {of} {mark}" for name, of in relation.keys.items()]
        elements += [f"{name} {of}" for name, of in relation.columns.items()]
        if relation.headers:
            elements.append(f"{relation.name}_H ARRAY<STRUCT<key STRING, value BYTES>> HEADERS")
        settings = [
            f"kafka_topic='{relation.topic}'",
            f"key_format='{relation.key_format}'",
            f"value_format='{relation.value_format}'",
        ]
        if relation.window:
            settings.append(relation.window)
        times = [name for name, of in relation.columns.items() if of in ("BIGINT", "TIMESTAMP")]
        if times and self._chance(0.15):
            settings.append(f"timestamp='{times[0]}'")
        return f"CREATE {kind} {relation.name} ({', '.join(elements)}) WITH ({', '.join(settings)});"

    def _query(self, name: str) -> None:
        kinds: list[tuple[Callable[[str], bool], int]] = [
            (self._projection, 3),
            (self._aggregation, 5),
            (self._join, 5),
            (self._union, 1),
            (self._explosion, 1),
            (self._reread, 1),
        ]
        for _ in range(20):
            (make,) = self.rng.choices([kind for kind, _ in kinds], [weight for _, weight in kinds])
            if make(name):
                return

    def _sink(
        self, name: str, keys: Columns, columns: Columns, *, source: Relation, is_table: bool, window: str = ""
    ) -> str:
        """Note the relation that a query makes, and return the WITH clause that it has."""
        rng, value_format, key_format = self.rng, source.value_format, source.key_format
        if self._chance(0.4) or value_format not in NESTING_FORMATS:
            flat = all(map(is_flat, columns.values()))
            value_format = rng.choice(VALUE_FORMATS[:-1] if flat else NESTING_FORMATS)
            if len(columns) == 1 and set(columns.values()) <= set(KEY_TYPES) and self._chance(0.2):
                value_format = "KAFKA"
        is_kafka = len(keys) == 1 and set(keys.values()) <= set(KEY_TYPES)
        if not is_kafka or self._chance(0.25):
            key_format = rng.choice(KEY_FORMATS if is_kafka else KEY_FORMATS[2:])
        self.relations.append(
            Relation(
                name=name,
                is_table=is_table,
                keys=keys,
                columns=columns,
                window=window,
                key_format=key_format,
                value_format=value_format,
                topic=name,
            )
        )
        return f" WITH (key_format='{key_format}', value_format='{value_format}')"

    def _projection(self, name: str) -> bool:
        rng = self.rng
        source = rng.choice([each for each in self.relations if not (each.is_table and each.window)])
        by = [each for each, of in source.columns.items() if of in GROUPED]
        partition = rng.choice(by) if by and not source.is_table and not source.window and self._chance(0.35) else None
        keys = source.keys if partition is None else {partition: source.columns[partition]}
        items, columns = self._items(source, name, without=partition)
        kind = "TABLE" if source.is_table else "STREAM"
        with_clause = self._sink(name, keys, columns, source=source, is_table=source.is_table, window=source.window)
        self.statements.append(
            f"CREATE {kind} {name}{with_clause} AS SELECT {', '.join([*keys, *items])} FROM {source.name}"
            f"{self._where(source)}{f' PARTITION BY {partition}' if partition else ''};"
        )
        return True

    def _items(
        self, source: Relation, name: str, table: str = "", without: str | None = None
    ) -> tuple[list[str], dict[str, str]]:
        """Return select items and the types of their columns."""
        rng, items, columns = self.rng, [], dict[str, str]()
        given = [each for each in source.columns if each != without]
        chosen = rng.sample(given, rng.randint(1, len(given))) if given else []
        for at, column in enumerate(chosen):
            of, alias = source.columns[column], f"{name}_{source.name}_{at}"
            text, of = self._expression(f"{table}{column}", of) if self._chance(0.4) else (f"{table}{column}", of)
            items.append(f"{text} AS {alias}")
            columns[alias] = of
        extras = [("ROWTIME", "BIGINT")]
        extras += [("WINDOWSTART", "BIGINT"), ("WINDOWEND", "BIGINT")] if source.window else []
        if not items or self._chance(0.15):
            text, of = rng.choice(extras)
            items.append(f"{table}{text} AS {name}_{source.name}_T")
            columns[f"{name}_{source.name}_T"] = of
        if source.headers and self._chance(0.5):
            items.append(f"ARRAY_LENGTH({table}{source.name}_H) AS {name}_{source.name}_H")
            columns[f"{name}_{source.name}_H"] = "INTEGER"
        return items, columns

    def _expression(self, column: str, of: str) -> tuple[str, str]:
        if of in ("INTEGER", "BIGINT", "DOUBLE"):
            return self.rng.choice(
                [(f"{column} + 1", of), (f"10 / {column}", of), (f"CAST({column} AS STRING)", "STRING")]
            )
        if of == "STRING":
            return self.rng.choice(
                [(f"UCASE({column})", of), (f"LEN({column})", "INTEGER"), (f"NULLIF({column}, 'a')", of)]
            )
        if of == "BOOLEAN":
            return f"NOT {column}", of
        if of.startswith("ARRAY"):
            return f"{column}[1]", "INTEGER"
        return (f"{column}['a']", "INTEGER") if of.startswith("MAP") else (f"COALESCE({column}, {column})", of)

    def _where(self, source: Relation, table: str = "", share: float = 0.35) -> str:
        if not self._chance(share):
            return ""
        column, of = self.rng.choice(list(source.every.items()))
        text = f"{table}{column}"
        tests = [f"{text} IS NOT NULL", f"{text} IS NULL"]
        if of in ("INTEGER", "BIGINT", "DOUBLE"):
            tests += [f"{text} > 1", f"{text} < 2", f"10 / {text} > 2", f"{text} BETWEEN 0 AND 2"]
        if of == "STRING":
            tests += [f"{text} = 'a'", f"{text} <> 'b'", f"{text} LIKE '%a%'", f"{text} IN ('a', 'b')"]
        return f" WHERE {self.rng.choice(tests)}"

    def _aggregation(self, name: str) -> bool:
        rng = self.rng
        source = rng.choice(self.relations)
        if not source.is_plain:
            return False
        candidates = [each for each, of in source.every.items() if of in GROUPED]
        if not candidates:
            return False
        by = rng.sample(candidates, min(len(candidates), rng.choice((1, 1, 1, 2))))
        if not source.is_table and self._chance(0.4):
            by = list(source.keys)
        calls = [self._call(source) for _ in range(rng.randint(1, 3))]
        if source.value_format == "DELIMITED":
            calls = [call for call in calls if is_flat(call[1])] or [("COUNT(*)", "BIGINT")]
        items = [f"{text} AS {name}_{at}" for at, (text, _) in enumerate(calls)]
        columns = {f"{name}_{at}": of for at, (_, of) in enumerate(calls)}
        window, declared = ("", "") if source.is_table or self._chance(0.35) else self._window()
        having = f" HAVING {rng.choice(['COUNT(*) > 1', 'COUNT(*) < 3'])}" if self._chance(0.2) else ""
        final = " EMIT FINAL" if window and self._chance(0.3) else ""
        keys = {each: source.every[each] for each in by}
        with_clause = self._sink(name, keys, columns, source=source, is_table=True, window=declared)
        self.statements.append(
            f"CREATE TABLE {name}{with_clause} AS SELECT {', '.join([*by, *items])} FROM {source.name}"
            f"{window}{self._where(source, share=0.2)} GROUP BY {', '.join(by)}{having}{final};"
        )
        return True

    def _window(self) -> tuple[str, str]:
        """Return a WINDOW clause, and the settings of a source that reads such keys."""
        rng = self.rng
        grace = rng.choice(["", "", ", GRACE PERIOD 0 SECONDS", ", GRACE PERIOD 5 SECONDS", ", GRACE PERIOD 1 HOURS"])
        if grace and self._chance(0.1):
            grace = f", RETENTION 2 HOURS{grace}"
        match rng.randrange(3):
            case 0:
                size = rng.choice((1, 5, 10))
                clause = f"TUMBLING (SIZE {size} SECONDS{grace})"
            case 1:
                size, advance = rng.choice(((10, 5), (10, 3), (6, 2)))
                clause = f"HOPPING (SIZE {size} SECONDS, ADVANCE BY {advance} SECONDS{grace})"
            case _:
                return f" WINDOW SESSION ({rng.choice((1, 5, 10))} SECONDS{grace})", "window_type='SESSION'"
        kind = clause.partition(" ")[0]
        return f" WINDOW {clause}", f"window_type='{kind}', window_size='{size} SECONDS'"

    def _call(self, source: Relation) -> tuple[str, str]:
        rng = self.rng
        column, of = rng.choice(list(source.columns.items()) or list(source.keys.items()))
        found = [("COUNT(*)", "BIGINT"), (f"COUNT({column})", "BIGINT")]
        simple = is_flat(of)
        if of in NUMBERS:
            found.append((f"SUM({column})", of))
        if of in NUMBERS[:3]:
            found.append((f"AVG({column})", "DOUBLE"))
        if simple and of != "BOOLEAN":
            found.append((f"COLLECT_LIST({column})", f"ARRAY<{of}>"))
        if source.is_table:
            return rng.choice(found)
        found += [
            (f"LATEST_BY_OFFSET({column})", of),
            (f"EARLIEST_BY_OFFSET({column})", of),
            (f"LATEST_BY_OFFSET({column}, 2)", f"ARRAY<{of}>"),
            (f"EARLIEST_BY_OFFSET({column}, 2, FALSE)", f"ARRAY<{of}>"),
            (f"COUNT_DISTINCT({column})", "BIGINT"),
        ]
        if of in (*NUMBERS, "STRING", "DATE", "TIME", "TIMESTAMP"):
            found += [(f"MIN({column})", of), (f"MAX({column})", of)]
        if of in ("INTEGER", "BIGINT", "DOUBLE", "STRING"):
            found += [(f"TOPK({column}, 2)", f"ARRAY<{of}>"), (f"TOPKDISTINCT({column}, 2)", f"ARRAY<{of}>")]
        if simple:
            found.append((f"COLLECT_SET({column})", f"ARRAY<{of}>"))
        if of in ("INTEGER", "BIGINT", "DOUBLE"):
            found.append((f"STDDEV_SAMP({column})", "DOUBLE"))
        return rng.choice([*found, *([(f"HISTOGRAM({column})", "MAP<STRING, BIGINT>")] if of == "STRING" else [])])

    def _join(self, name: str) -> bool:
        rng = self.rng
        left, right = rng.choice(self.relations), rng.choice(self.relations)
        if left is right or (left.is_table and not right.is_table) or len(left.keys) > 1 or len(right.keys) > 1:
            return False
        ((left_key, key_type),) = left.keys.items()
        ((right_key, right_type),) = right.keys.items()
        foreign = [each for each, of in left.columns.items() if of == right_type]
        if not (left.is_plain and right.is_plain and (foreign or key_type == right_type)):
            return False
        on = rng.choice(foreign) if foreign and (key_type != right_type or self._chance(0.5)) else left_key
        kind = rng.choice(["JOIN", "LEFT JOIN"] if left.is_table != right.is_table or on != left_key else _JOINS)
        within = "" if right.is_table else f" WITHIN {self._within()}"
        # A join of tables by a foreign key keeps the left key.
        key = left_key if left.is_table or (kind == "JOIN" and on == left_key) else on
        item, keys = f"{left.name}.{key}", {key: left.every[key]}
        if kind == "FULL OUTER JOIN":
            item, keys = "ROWKEY", {"ROWKEY": right_type}
        elif kind == "RIGHT JOIN":
            item, keys = f"{right.name}.{right_key}", {right_key: right_type}
        item = f"{item} AS {name}_K" if item != "ROWKEY" else item
        keys = (
            keys if item == "ROWKEY" else {f"{name}_K": right_type if not left.is_table else next(iter(keys.values()))}
        )
        items, columns = self._items(left, name, f"{left.name}.", without=on)
        more, others = self._items(right, name, f"{right.name}.")
        with_clause = self._sink(name, keys, {**columns, **others}, source=left, is_table=left.is_table)
        where = self._where(left, f"{left.name}.", 0.2) or self._where(right, f"{right.name}.", 0.1)
        self.statements.append(
            f"CREATE {'TABLE' if left.is_table else 'STREAM'} {name}{with_clause} AS"
            f" SELECT {', '.join([item, *items, *more])} FROM {left.name} {kind} {right.name}{within}"
            f" ON {left.name}.{on} = {right.name}.{right_key}{where};"
        )
        return True

    def _within(self) -> str:
        text = self.rng.choice(["5 SECONDS", "0 SECONDS", "(1 SECONDS, 10 SECONDS)", "1 HOURS"])
        return f"{text} GRACE PERIOD {self.rng.choice((0, 2, 60))} SECONDS" if self._chance(0.5) else text

    def _union(self, name: str) -> bool:
        """Insert into a stream what another filter of its own source lets through."""
        streams = [each for each in self.relations if not each.is_table and not each.window and each.columns]
        if not streams:
            return False
        source = self.rng.choice(streams)
        items, columns = self._items(source, name)
        select = f"SELECT {', '.join([*source.keys, *items])} FROM {source.name}"
        with_clause = self._sink(name, source.keys, columns, source=source, is_table=False)
        self.statements += [
            f"CREATE STREAM {name}{with_clause} AS {select}{self._where(source)};",
            f"INSERT INTO {name} {select}{self._where(source)};",
        ]
        return True

    def _explosion(self, name: str) -> bool:
        arrays = [
            (each, column, of)
            for each in self.relations
            if not each.is_table and not each.window
            for column, of in each.columns.items()
            if of.startswith("ARRAY")
        ]
        if not arrays:
            return False
        source, column, of = self.rng.choice(arrays)
        items, columns = self._items(source, name)
        items.append(f"EXPLODE({column}) AS {name}_E")
        columns[f"{name}_E"] = of[len("ARRAY<") : -1]
        with_clause = self._sink(name, source.keys, columns, source=source, is_table=False)
        self.statements.append(
            f"CREATE STREAM {name}{with_clause} AS SELECT {', '.join([*source.keys, *items])} FROM {source.name}"
            f"{self._where(source)};"
        )
        return True

    def _reread(self, name: str) -> bool:
        """Declare a stream or table over the topic of a query."""
        sinks = [each for each in self.relations if each.topic == each.name]
        if not sinks:
            return False
        source = self.rng.choice(sinks)
        again = replace(source, name=name, is_table=not source.window and self._chance(0.5), topic=source.name)
        self.statements.append(self._declaration(again))
        self.relations.append(again)
        return True

    def _records(self, bases: Sequence[Relation]) -> Iterator[InputRecord]:
        rng, now = self.rng, 100_000
        # A tombstone in a stream ends each aggregate of ksqlDB, so that most applications have none.
        nulls = {True: 0.2, False: 0.2 if self._chance(0.1) else 0.0}
        for _ in range(rng.randint(3, 20)):
            now = max(0, now + rng.choice(STEPS_MS))
            source = rng.choice(bases)
            yield InputRecord(
                topic=source.topic,
                key=None if self._chance(0.06) else self._key(source),
                value=None if self._chance(nulls[source.is_table]) else self._value(source),
                timestamp=now,
                headers=rng.choice([(), (), (), (("h", b"x"),), (("h", b"x"), ("i", None))]),
            )

    def _key(self, source: Relation) -> Any:
        ((name, of),) = source.keys.items()
        found = self.rng.choice(_KEYS[of])
        if source.key_format == "DELIMITED":
            return _cell(found)
        return {name: found} if source.key_format == "PROTOBUF" else found

    def _value(self, source: Relation) -> Any:
        values = {name: self._member(name, of) for name, of in source.columns.items()}
        if source.value_format == "KAFKA":
            return next(iter(values.values()))
        if source.value_format == "DELIMITED":
            return ",".join("" if each is None else _cell(each) for each in values.values())
        if source.value_format == "JSON":
            return values
        decimals = {name for name, of in source.columns.items() if of.startswith("DECIMAL")}
        return {name: str(each) if name in decimals and each is not None else each for name, each in values.items()}

    def _member(self, name: str, of: str) -> Any:
        """Return a value of a column; the first one joins with keys."""
        if self._chance(0.12):
            return None
        return self.rng.choice(_KEYS[of] if name.endswith("_A") and of in _KEYS else _EXAMPLES[of])


_JOINS = ("JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL OUTER JOIN")


def _cell(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else f'"{value}"' if value == "" else str(value)


def differences(compared: Compared, seed: int, tries: int, tell: Callable[[str], None]) -> Iterator[tuple[Case, str]]:
    """Compare generated applications; yield those that differ, shrunk, and how."""
    for start in range(0, tries, GROUP):
        # Each application depends on its own number only, so that one of them can be made again.
        chosen = range(start, min(start + GROUP, tries))
        cases = [Applications(random.Random(f"{seed}-{number}")).case(f"application-{number}") for number in chosen]
        for case, text in compared.differing(cases):
            if text.startswith("only ksqlDB ") and reason_of(case, text) is not None:
                # What ksqlDB says of a statement or query names the fault: shrinking takes minutes and tells no more.
                yield case, text
            else:
                yield next(compared.differing([compared.smallest(case)]), (case, text))
        tell(f"{chosen.stop:,} of {tries:,} applications")
