"""Random queries of every kind whose state a take-over reads, with random records for their topics."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

KEYS = "abcdef"
ANY_ORDER = ("COUNT(*)", "COUNT(v)", "SUM(v)", "MIN(v)", "MAX(v)", "AVG(v)")
"""Aggregates whose results do not depend on the order between partitions."""
IN_ORDER = (
    *ANY_ORDER,
    *("SUM(d)", "MIN(d)", "LATEST_BY_OFFSET(v)", "LATEST_BY_OFFSET(c, 2)", "EARLIEST_BY_OFFSET(v, 2)", "TOPK(v, 2)"),
    *("EARLIEST_BY_OFFSET(c)", "COLLECT_LIST(v)", "COLLECT_SET(c)", "TOPKDISTINCT(v, 2)", "HISTOGRAM(IFNULL(c, '-'))"),
    *("STDDEV_SAMP(v)", "CORRELATION(d, d)", "LATEST_BY_OFFSET(v, false)", "ATTR(c)"),
)
COLUMNS = {
    "s": "k STRING KEY, v INT, c STRING, d DOUBLE",
    "s2": "k STRING KEY, w INT",
    "t": "k STRING PRIMARY KEY, v INT, c STRING",
    "t2": "k STRING PRIMARY KEY, w INT",
}

Row = tuple[str, dict[str, Any], int]
"""The source of a record, its columns (K may be None, and there is no other if the value is null), and its time (ms)."""


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of query.

    `text` makes what stands behind SELECT. Of `sink` TABLE the last record of each key counts, and its time unless
    `is_timed` is not set, of STREAM every one. Rows come `late_ms` late at most: where two topics meet, they must not
    come so late that the order between them decides.
    """

    sources: tuple[str, ...]
    text: Callable[[random.Random], str]
    sink: str = "TABLE"
    late_ms: int = 0
    is_timed: bool = True
    properties: str = ""
    has_null_values: bool = True
    """Whether ksqlDB survives a null value: in its windows it does not."""
    has_tables_in_turn: bool = False
    """Whether its tables change in turn: where a row and the one that its foreign key names change at once, ksqlDB may
    drop its answer to the deletion of the latter, and keep a result for ever."""


def _calls(rng: random.Random, of: Sequence[str]) -> str:
    return ", ".join(f"{call} AS x{number}" for number, call in enumerate(rng.sample(of, rng.randint(1, 4))))


def _window(rng: random.Random, kind: str, retention: str = "") -> str:
    size, grace = rng.choice((2, 5, 10)), rng.choice((0, 1, 3, 60))
    if kind == "SESSION":
        # By default they expire with their grace, which a cache of ksqlDB delays until it is written.
        retention = ", RETENTION 1 HOUR"
    bounds = {
        "TUMBLING": f"SIZE {size} SECONDS",
        "HOPPING": f"SIZE {size * 2} SECONDS, ADVANCE BY {size} SECONDS",
        "SESSION": f"{size} SECONDS",
    }[kind]
    return f"WINDOW {kind} ({bounds}{retention}, GRACE PERIOD {grace} SECONDS)"


def _windowed(kind: str) -> Kind:
    def text(rng: random.Random) -> str:
        return f"k, {_calls(rng, IN_ORDER)} FROM s {_window(rng, kind)} GROUP BY k"

    return Kind(("s",), text, late_ms=9000, has_null_values=False)


def _final(kind: str) -> Kind:
    # Kafka Streams looks for windows since 1970, in steps of half of the retention: by default in 30 million.
    def text(rng: random.Random) -> str:
        return f"k, {_calls(rng, IN_ORDER)} FROM s {_window(rng, kind, ', RETENTION 30 DAYS')} GROUP BY k EMIT FINAL"

    return Kind(("s",), text, late_ms=9000, has_null_values=False)


def _grace(rng: random.Random) -> str:
    # ksqlDB writes a row at once that comes later than its window, which the order between two topics may decide.
    return f"WITHIN {rng.choice((10, 20))} SECONDS GRACE PERIOD 30 SECONDS"


KINDS: Mapping[str, Kind] = {
    "groups": Kind(("s",), lambda rng: f"k, {_calls(rng, IN_ORDER)} FROM s GROUP BY k", late_ms=9000),
    "regrouped": Kind(
        ("s",),
        lambda rng: f"c, {_calls(rng, ANY_ORDER)} FROM s GROUP BY c{rng.choice(('', ' HAVING COUNT(*) > 2'))}",
        late_ms=9000,
    ),
    "two_columns": Kind(
        ("s",),
        lambda rng: f"k, c, {_calls(rng, ANY_ORDER)} FROM s GROUP BY k, c",
        late_ms=9000,
        properties=", KEY_FORMAT='JSON'",
    ),
    "tumbling": _windowed("TUMBLING"),
    "hopping": _windowed("HOPPING"),
    "sessions": _windowed("SESSION"),
    "final_tumbling": _final("TUMBLING"),
    "final_hopping": _final("HOPPING"),
    "table_groups": Kind(
        ("t",),
        lambda rng: f"c, {_calls(rng, ('COUNT(*)', 'SUM(v)', 'AVG(v)', 'COUNT(v)'))} FROM t GROUP BY c",
        is_timed=False,
    ),
    "table": Kind(("t",), lambda rng: f"k, v, c FROM t WHERE v > {rng.randrange(5)}"),
    "tables": Kind(
        ("t", "t2"),
        lambda rng: f"t.k AS k, t.v, t2.w FROM t {rng.choice(('', 'LEFT '))}JOIN t2 ON t.k = t2.k",
        is_timed=False,
    ),
    "foreign": Kind(
        ("t", "t2"),
        lambda rng: f"t.k AS k, t.v, t2.w FROM t {rng.choice(('', 'LEFT '))}JOIN t2 ON t.c = t2.k",
        is_timed=False,
        has_tables_in_turn=True,
    ),
    "looked_up": Kind(
        ("s", "t"),
        lambda rng: f"s.k AS k, s.v, t.c FROM s {rng.choice(('', 'LEFT '))}JOIN t ON s.k = t.k",
        sink="STREAM",
    ),
    "looked_up_twice": Kind(
        ("s", "t", "t2"),
        lambda rng: "s.k AS k, s.v, t.c, t2.w FROM s LEFT JOIN t ON s.k = t.k LEFT JOIN t2 ON s.k = t2.k",
        sink="STREAM",
    ),
    "looked_up_elsewhere": Kind(
        ("s", "t2"),
        lambda rng: f"s.c AS c, s.v, t2.w FROM s {rng.choice(('', 'LEFT '))}JOIN t2 ON s.c = t2.k",
        sink="STREAM",
    ),
    "joined": Kind(
        ("s", "s2"),
        lambda rng: f"s.k AS k, s.v, s2.w FROM s {rng.choice(('', 'LEFT '))}JOIN s2 {_grace(rng)} ON s.k = s2.k",
        sink="STREAM",
        late_ms=900,
    ),
    "joined_fully": Kind(
        ("s", "s2"),
        lambda rng: f"ROWKEY AS k, s.v, s2.w FROM s FULL JOIN s2 {_grace(rng)} ON s.k = s2.k",
        sink="STREAM",
        late_ms=900,
    ),
    "joined_elsewhere": Kind(
        ("s", "s2"),
        lambda rng: f"s.c AS c, s.v, s2.w FROM s JOIN s2 {_grace(rng)} ON s.c = s2.k",
        sink="STREAM",
    ),
    "filtered": Kind(("s",), lambda rng: f"* FROM s WHERE v > {rng.randrange(5)}", sink="STREAM", late_ms=9000),
    "rekeyed": Kind(("s",), lambda rng: "* FROM s WHERE c IS NOT NULL PARTITION BY c", sink="STREAM", late_ms=9000),
}


@dataclass(slots=True)
class Run:
    """One query with topics, records and a comparison of its own; all of it comes from `seed` and `number`."""

    seed: int
    number: int
    now: int
    """The time (ms) of its next record."""
    begun: int = field(init=False)
    """The time (ms) before its first record."""
    rng: random.Random = field(init=False)
    name: str = field(init=False)
    kind: Kind = field(init=False)
    text: str = field(init=False)
    partitions: int = field(init=False)
    format: str = field(init=False)
    cache: str = field(init=False)
    is_trimmed: bool = field(init=False)
    written: list[Row] = field(default_factory=list)
    """Its records so far."""

    def __post_init__(self) -> None:
        """Choose what the run is; the kinds take turns."""
        self.begun = self.now
        rng = self.rng = random.Random(f"{self.seed}-{self.number}")
        self.name = [*KINDS][self.number % len(KINDS)]
        self.kind = KINDS[self.name]
        self.text = self.kind.text(rng)
        self.partitions = rng.choice((1, 2, 2, 3))
        self.format = rng.choice(("JSON", "JSON", "AVRO", "JSON_SR"))
        self.cache = rng.choice(("0", "10485760"))
        self.is_trimmed = rng.random() < 0.5

    def __str__(self) -> str:
        """What it is, for people."""
        return (
            f"{self.number} ({self.name}): SELECT {self.text}; {self.partitions} partitions, {self.format}, cache"
            f" {self.cache}{', trimmed' if self.is_trimmed else ''}"
        )

    def names(self, prefix: str) -> dict[str, str]:
        """The names of its sources and their topics."""
        return {source: f"{prefix}{self.number}_{source}" for source in self.kind.sources}

    def statements(self, prefix: str, service: str) -> str:
        """The statements that declare its sources and create its query, whose sink is that of a service."""
        made, text = [], f" {self.text} "
        for source, name in self.names(prefix).items():
            what = "STREAM" if source.startswith("s") else "TABLE"
            made.append(
                f"CREATE {what} {name} ({COLUMNS[source]}) WITH (KAFKA_TOPIC='{name}', VALUE_FORMAT='{self.format}');"
            )
        sources = self.names(prefix)
        for source in sources:
            text = text.replace(f" {source}.", f" {sources[source]}.").replace(f" {source} ", f" {sources[source]} ")
        text = text.strip()
        with_ = f"WITH (KAFKA_TOPIC='{service}{self.number}'{self.kind.properties})"
        return "\n".join([*made, f"CREATE {self.kind.sink} {prefix}{self.number}_q {with_} AS SELECT {text};"])

    def table_rows(self) -> list[Row]:
        """Changes of its tables, tombstones among them."""
        rows: list[Row] = []
        tables = [each for each in self.kind.sources if each.startswith("t")]
        if self.kind.has_tables_in_turn and self.now > self.begun:
            tables = [self.rng.choice(tables)]
        for source in tables:
            keys = KEYS if source == "t" else "abcx"
            chosen = self.rng.sample(keys, len(keys) - 1)
            rows += [self._row(source, key, gone=self.rng.random() < 0.15) for key in chosen]
        return rows

    def stream_rows(self, count: int) -> list[Row]:
        """Records of its streams, with late and equal times, null keys, null values and nulls in columns."""
        streams = [each for each in self.kind.sources if each.startswith("s")]
        if not streams:
            return self.table_rows()
        rows = []
        for _ in range(count):
            source = self.rng.choice(streams)
            key = None if self.rng.random() < 0.03 else self.rng.choice(KEYS)
            gone = self.kind.has_null_values and self.rng.random() < 0.04
            rows.append(self._row(source, key, gone=gone, late_ms=self.kind.late_ms))
        return rows

    def closing_rows(self) -> list[Row]:
        """Rows of each partition of its streams, so much later that windows close."""
        self.now += 100_000
        streams = [each for each in self.kind.sources if each.startswith("s")]
        rows = [self._row(source, key) for source in streams for key in (*KEYS, *"ghijklmnop")]
        # At one time: ksqlDB does not look again for windows that the last ones would close.
        return [(source, columns, self.now) for source, columns, _ in rows]

    def _row(self, source: str, key: str | None, *, gone: bool = False, late_ms: int = 0) -> Row:
        rng = self.rng
        self.now += rng.choice((0, 0, 1, 40, 200, 700))
        time = self.now - (rng.randrange(late_ms) if late_ms and rng.random() < 0.2 else 0)
        values = {
            "s": {
                "V": rng.choice((None, 1, 2, 5, 7)),
                "C": rng.choice((None, *"abxy")),
                "D": rng.choice((0.5, -2.0, None)),
            },
            "s2": {"W": rng.choice((None, 1, 3))},
            "t": {"V": rng.choice((None, 1, 2, 5, 7)), "C": rng.choice((None, *"abcx"))},
            "t2": {"W": rng.randrange(9)},
        }[source]
        return source, {"K": key, **({} if gone else values)}, time
