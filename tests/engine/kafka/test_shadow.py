"""When a side of a shadow run is judged, and how much it keeps in memory."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest
from confluent_kafka import KafkaError

from kestrel_sql.cli.main import main
from kestrel_sql.errors import RegistryUnavailableError
from kestrel_sql.formats.registry.memory import MemoryRegistry, RegisteredSchema, RegistryView
from kestrel_sql.kafka.client.config import KafkaConfig
from kestrel_sql.kafka.shadow.matching import Difference, Matcher, StreamMatcher, TableMatcher
from kestrel_sql.kafka.shadow.shelf import Entry, Shelf
from kestrel_sql.kafka.shadow.side import Side
from kestrel_sql.kafka.shadow.written import Reader, Written
from kestrel_sql.session.session import Session

APP = """
CREATE STREAM S (K STRING KEY, N BIGINT) WITH (KAFKA_TOPIC='s', VALUE_FORMAT='JSON', PARTITIONS=1);
CREATE TABLE T AS SELECT K, SUM(N) AS N FROM S GROUP BY K;
"""
PATIENCE_S = 100
LEFT, RIGHT = 0, 1


class Scene:
    """A matcher that is fed by hand."""

    def __init__(self, kind: type[Matcher], sink: str) -> None:
        session = Session()
        for parsed in session.parse(APP):
            session.execute(parsed)
        source = session.catalog.sources[sink]
        left, right = (Reader.of(side, source, source.topic, MemoryRegistry()) for side in (LEFT, RIGHT))
        self.found: list[str] = []
        self.matcher = kind(sink=source, readers=(left, right), report=self.report, patience=PATIENCE_S)
        self.offset = 0

    def report(self, difference: Difference) -> None:
        self.found.append(difference.kind)

    def write(self, side: int, at: float, *values: int, key: str = "a") -> None:
        for value in values:
            self.offset += 1
            data = b'{"N":%d}' % value
            self.matcher.take(Written(side, (data, value, ()), key.encode(), data, 0, self.offset, at))

    def judge(self, now: float, left: float | None = None, right: float | None = None) -> list[str]:
        reached = [now if each is None else each for each in (left, right)]
        self.matcher.judge(reached, now)
        self.matcher.end()
        return self.found


@pytest.fixture
def stream() -> Scene:
    return Scene(StreamMatcher, "S")


@pytest.fixture
def table() -> Scene:
    return Scene(TableMatcher, "T")


def test_patience_begins_when_the_other_side_has_been_read(stream: Scene) -> None:
    stream.write(LEFT, 0, 1)
    assert stream.judge(99) == []
    assert stream.judge(150, right=99) == []
    assert stream.judge(150, left=0) == ["only left"]
    assert stream.matcher.waiting == [0, 0]


def test_a_side_that_works_off_its_inputs_is_waited_for(stream: Scene) -> None:
    for number in range(10):
        stream.write(LEFT, 0, number, key=f"k{number}")
    for number in range(9):
        stream.write(RIGHT, 60 + number * 60, number, key=f"k{number}")
        assert stream.judge(61 + number * 60) == []
    assert stream.judge(639) == []
    assert stream.judge(641) == ["only left"]


def test_records_after_the_last_equal_one_may_still_be_answered(stream: Scene) -> None:
    stream.write(LEFT, 0, 1, 2)
    stream.write(RIGHT, 1, 2)
    stream.write(LEFT, 90, 3)
    assert stream.judge(102) == ["only left"]
    stream.write(RIGHT, 103, 3)
    assert (stream.judge(500), stream.matcher.matched, len(stream.matcher.open)) == (["only left"], 2, 0)


def test_many_records_of_a_key_are_aligned_at_once(stream: Scene) -> None:
    stream.write(LEFT, 0, *range(100))
    stream.write(RIGHT, 0, *range(50), *range(51, 115))
    assert stream.found == []
    stream.write(LEFT, 0, *range(100, 116))
    stream.matcher.end()
    assert (stream.found, stream.matcher.matched) == (["only left"], 114)
    assert stream.matcher.waiting == [1, 0]


def test_the_last_values_of_a_table_agree_before_and_after_intermediate_ones(table: Scene) -> None:
    table.write(LEFT, 0, *range(2000))
    table.write(RIGHT, 1, 700)
    assert table.matcher.waiting == [1299, 0]
    table.write(RIGHT, 2, 1999)
    assert (table.judge(1000), table.matcher.waiting, len(table.matcher.open)) == ([], [0, 0], 0)


def test_a_key_that_never_agrees_differs_though_it_changes_all_the_time(table: Scene) -> None:
    for at in range(101):
        table.write(LEFT, at, at * 2)
        table.write(RIGHT, at, at * 2 + 1)
    assert table.judge(101) == ["value.N"]


def test_what_is_on_disk_is_judged_too(stream: Scene) -> None:
    stream.matcher.open.most = 10
    for number in range(50):
        stream.write(LEFT, number / 100, 1, key=f"k{number}")
    for _ in range(15):
        stream.judge(101)
    assert (stream.found, stream.matcher.open.since()) == (["only left"] * 50, float("inf"))
    stream.matcher.close()


class Message:
    """A message of a partition, or its end."""

    def __init__(self, partition: int, *, is_end: bool = False) -> None:
        self._partition, self._error = partition, self if is_end else None

    def error(self) -> Message | None:
        return self._error

    def code(self) -> int:
        return int(KafkaError._PARTITION_EOF)

    def topic(self) -> str:
        return "t"

    def partition(self) -> int:
        return self._partition

    def offset(self) -> int:
        return 0


def test_a_side_is_read_up_to_the_time_at_which_nothing_was_left(monkeypatch: pytest.MonkeyPatch) -> None:
    now, chunks = [100.0], [[Message(0), Message(0, is_end=True)], [Message(1, is_end=True)], [], [Message(0)], []]
    monkeypatch.setattr("kestrel_sql.kafka.shadow.side.time.monotonic", lambda: now[0])
    consumer = SimpleNamespace(consume=lambda *_: chunks.pop(0))
    positions = dict.fromkeys([("t", 0), ("t", 1)], float("-inf"))
    side = Side(KafkaConfig(servers="h:1"), {"t": 2}, consumer, _ended=positions)
    reached = []
    for now[0] in (100.0, 101.0, 110.0, 150.0, 151.0):
        side.read()
        reached.append(side.reached())
    # What came after a pause may have been there since its beginning, in other partitions, too.
    assert reached == [float("-inf"), 100, 109, 109, 109]


def test_entries_on_disk_are_found_again() -> None:
    shelf = Shelf(most=10)
    written = Written(LEFT, (b"v", 1, (("h", None),)), b"k", b"v", 1, 2, 3.0)
    for number in range(100):
        shelf.put(b"%d" % number, Entry(float(number), ([written], []), written))
    assert (len(shelf), len([*shelf.near()]), shelf.since()) == (100, 10, float("-inf"))
    assert shelf.get(b"3") == Entry(3.0, ([written], []), written)
    assert shelf.get(b"100") is None
    for number in range(100):
        assert shelf.get(b"%d" % number) is not None
        shelf.remove(b"%d" % number)
    assert (len(shelf), shelf.since()) == (0, float("inf"))
    shelf.close()


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["h:1/t", "h:1/t"], "both sides are the same"),
        (["h:1", "h:1"], "both sides are the same"),
        (["h:1/t", "g:1"], "name a topic on both sides, or on none"),
        (["h:1/a", "h:1/b"], "the topics a and b may be of T, OUT"),
        (["h:1/a", "h:1/b", "--sink", "OTU"], "did you mean OUT?"),
    ],
)
def test_what_does_not_go_together_is_wrong_usage(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], options: list[str], said: str
) -> None:
    script = tmp_path / "app.sql"
    script.write_text(f"{APP} CREATE STREAM OUT AS SELECT * FROM S;", encoding="utf-8")
    left, right, *more = options
    assert main(["shadow", "--left", left, "--right", right, "--app", str(script), *more]) == 2
    assert said in capsys.readouterr().err
    script.write_text("CREATE STREAM S (N INT) WITH (KAFKA_TOPIC='s', VALUE_FORMAT='JSON', PARTITIONS=1);")
    assert main(["shadow", "--left", "h:1/a", "--right", "h:1/b", "--app", str(script)]) == 2
    assert "no query" in capsys.readouterr().err


def test_a_registry_that_does_not_answer_is_no_difference() -> None:
    class Away(MemoryRegistry):
        def snapshot(self) -> RegistryView:
            return RegistryView(by_id=_Away(), latest={}, versions={})

    class _Away(dict[int, RegisteredSchema]):
        def __missing__(self, key: int) -> RegisteredSchema:
            raise RegistryUnavailableError("the registry did not answer")

    session = Session()
    for parsed in session.parse(APP.replace("'JSON'", "'AVRO'")):
        session.execute(parsed)
    reader = Reader.of(LEFT, session.catalog.sources["S"], "s", Away())
    message = SimpleNamespace(value=lambda: b"\0\0\0\0\1x", headers=lambda: None)
    with pytest.raises(RegistryUnavailableError):
        reader.written(message, 0)
