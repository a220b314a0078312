from __future__ import annotations

from pathlib import Path

import pytest

from kestrel_qtt.cases.model import Case, FormatInfo, LogEntry, Produced, SourceState, Status, TopicState
from kestrel_qtt.cli.review import can_be_accepted, differences_of, text_of, write
from kestrel_qtt.judge.judge import judge
from kestrel_qtt.load import load

YAML = """\
tests:
  - name: a case
    statements: [X]
    outputs: []
    log:
      # the first
      - {type: error, message: first}   # kept
      - {type: warning, message: second, topic: IN, offset: 2}
      - message: third
        offset: 3   # of the third
    post:
      sources:
        - {name: A, type: stream, schema: 'K INT KEY'}   # its schema changes
        - {name: GONE, type: table}
        - name: B
          type: table
          keyFormat: {format: KAFKA}
      topics:
        blacklist: .*secret.*
        topics:
          - name: T
            keyFormat: {format: KAFKA}
            valueFormat: {format: JSON}
            keySchemaId: 4
            partitions: 1
"""
JSON = """\
{"tests": [{
  "name": "a case", "statements": ["X"], "outputs": [],
  "log": [
    // the first
    {"type": "error", "message": "first"},
    {"type": "warning", "message": "second", "topic": "IN", "offset": 2},
    {"message": "third", "offset": 3}
  ],
  "post": {
    "sources": [
      {"name": "A", "type": "stream", "schema": "K INT KEY"},
      {"name": "GONE", "type": "table"},
      {"name": "B", "type": "table", "keyFormat": {"format": "KAFKA"}}
    ],
    "topics": {"blacklist": ".*secret.*", "topics": [
      {"name": "T", "keyFormat": {"format": "KAFKA"}, "valueFormat": {"format": "JSON"}, "keySchemaId": 4,
       "partitions": 1}
    ]}
  }
}]}
"""
KAFKA = FormatInfo(format="KAFKA")
AVRO = FormatInfo(format="AVRO", features=frozenset({"UNWRAP_SINGLES"}), window_type="TUMBLING", window_size=1500)
PRODUCED = Produced(
    {},
    sources=(
        SourceState(name="A", kind="stream", schema="`K` BIGINT KEY", key_format="KAFKA", value_format="JSON"),
        SourceState(
            name="B",
            kind="table",
            schema="`K` INTEGER KEY",
            key_format="JSON",
            value_format="JSON",
            key_window=("TUMBLING", 1000),
        ),
    ),
    topics=(TopicState(name="T", key_format=KAFKA, value_format=AVRO, partitions=3),),
    log=(
        LogEntry("error", "the first of all", "IN", 0),
        LogEntry("error", "new", "IN", 1),
        LogEntry("error", "second", "IN", 2),
        LogEntry("error", "3rd", "IN", 3),
    ),
)


def case_of(path: Path, text: str) -> Case:
    path.write_text(text)
    (case,) = load(path).cases
    return case


@pytest.mark.parametrize(("name", "text"), [("x.yaml", YAML), ("x.json", JSON)])
def test_log_and_final_state_can_be_accepted(tmp_path: Path, name: str, text: str) -> None:
    case = case_of(tmp_path / name, text)
    differences = list(differences_of(case, PRODUCED))
    assert [text_of(each, case.file).splitlines()[0] for each in differences] == [
        "processing log, entry 1 as written is not expected: type error, message new, topic IN, offset 1",
        "processing log, entry 1: type is error, expected warning",
        "processing log, entry 2: the message '3rd' does not contain 'third'",
        "post: source A: schema is",
        "post: there is no source GONE; there are A, B",
        "post: source B: key window is TUMBLING of 1000 ms, expected absent; key format is JSON, expected KAFKA",
        (
            "post: topic T: value format is {'format': 'AVRO', 'properties': {}, 'features': ['UNWRAP_SINGLES'], "
            "'window': 'TUMBLING of 1500 ms'}, expected {'format': 'JSON', 'properties': {}, 'features': [], "
            "'window': 'absent'}; key schema id is None, expected 4; partitions is 3, expected 1"
        ),
    ]
    write(case, differences)
    (after,) = load(case.file).cases
    assert judge(after, PRODUCED).status is Status.PASSED
    assert len(after.post.sources) == 2 if after.post else False
    written = case.file.read_text()
    assert "the first" in written
    assert "keySchemaId" not in written
    assert '"size": 1.5' in written
    if name.endswith("yaml"):
        assert "- {type: error, message: first}   # kept" in written
        assert "offset: 3   # of the third" in written
        assert 'schema: "`K` BIGINT KEY"}   # its schema changes' in written


@pytest.mark.parametrize(("name", "text"), [("x.yaml", YAML), ("x.json", JSON)])
def test_each_difference_can_be_accepted_alone(tmp_path: Path, name: str, text: str) -> None:
    count = len(list(differences_of(case_of(tmp_path / name, text), PRODUCED)))
    for number in range(count):
        case = case_of(tmp_path / name, text)
        write(case, [list(differences_of(case, PRODUCED))[number]])
        (after,) = load(case.file).cases
        assert len(list(differences_of(after, PRODUCED))) == count - 1


def test_entries_that_are_missing_or_elsewhere(tmp_path: Path) -> None:
    case = case_of(tmp_path / "x.yaml", YAML[: YAML.index("    post:")])
    first, new, second, third = PRODUCED.log
    produced = Produced({}, log=(LogEntry("error", "third", "IN", 3), LogEntry("warning", "second", "IN", 2)))
    differences = list(differences_of(case, produced))
    assert [text_of(each, case.file) for each in differences] == [
        "processing log, entry 0 is missing: type error, message first",
        "processing log, entry 1 is missing: type warning, message second, topic IN, offset 2",
        "processing log, entry 1 as written is not expected: type warning, message second, topic IN, offset 2",
    ]
    write(case, differences)
    (after,) = load(case.file).cases
    assert judge(after, produced).status is Status.PASSED
    write(after, list(differences_of(after, Produced({}))))
    assert load(case.file).cases[0].log == ()
    (empty,) = load(case.file).cases
    write(empty, list(differences_of(empty, Produced({}, log=(first, new, second, third)))))
    (full,) = load(case.file).cases
    assert [entry.message for entry in full.log or ()] == ["the first of all", "new", "second", "3rd"]


def test_a_forbidden_topic_is_not_for_review(tmp_path: Path) -> None:
    case = case_of(tmp_path / "x.yaml", YAML)
    secret = TopicState(name="my-secrets", key_format=KAFKA, value_format=KAFKA)
    produced = Produced({}, topics=(*PRODUCED.topics, secret))
    refused = [each for each in differences_of(case, produced) if not can_be_accepted(each)]
    assert [text_of(each, case.file) for each in refused] == [
        "post: the topics my-secrets match the blacklist .*secret.*"
    ]
