from __future__ import annotations

import json

import pytest

from kestrel_sql.importer.command_backup import CommandRecord, read_backup

COMMAND = {
    "statement": "CREATE STREAM A …",
    "plan": None,
    "originalProperties": {"x": "1", "y": None},
    "streamsProperties": {"z": 2},
}
READ = CommandRecord("stream/A/create", "CREATE STREAM A …", configured={"x": "1"}, properties={"z": 2})


@pytest.mark.parametrize(
    "line",
    [
        '"stream/A/create":' + json.dumps(COMMAND),
        "stream/A/create:" + json.dumps(COMMAND),
        json.dumps({"key": "stream/A/create", "value": COMMAND}),
        json.dumps({"key": {"type": "STREAM", "entity": "A", "action": "CREATE"}, "value": json.dumps(COMMAND)}),
        json.dumps({"commandId": "stream/A/create", **COMMAND}),
    ],
    ids=["backup", "bare key", "record", "structured key", "command"],
)
def test_all_spellings_of_a_command_are_read(line: str) -> None:
    assert list(read_backup(f"\n{line}\n")) == [READ]


def test_only_a_line_feed_ends_a_line() -> None:
    (record,) = read_backup(json.dumps({"statement": "a\u2028b\x85c"}, ensure_ascii=False))
    assert record.statement == "a\u2028b\x85c"


def test_the_plan_of_a_command_is_kept() -> None:
    (record,) = read_backup('"k":{"plan":{"@type":"ksqlPlanV1"},"newer":1}')
    assert (record.statement, record.plan, record.problem) == ("", {"@type": "ksqlPlanV1"}, None)


def test_a_deleted_command_is_skipped() -> None:
    assert list(read_backup('"stream/A/create":null')) == []


@pytest.mark.parametrize(
    "line", ["rubbish", '"k"', '"k":{', "{}", '"k":[]', '"k":{"plan":1}', '"k":{"statement":1}', "[" * 100_000]
)
def test_a_line_that_is_not_a_command_is_an_error(line: str) -> None:
    first, second = read_backup(f"{line}\n" + '"k":{"statement":"X"}')
    assert first.problem
    assert second.problem is None
