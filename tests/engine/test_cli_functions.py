"""Functions of a user's own file, from the command line into Spark's workers, which cannot import that file."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from kestrel_sql.cli.main import ExitCode, main
from tests.engine.functions.test_user import GOOD

SCRIPT = """
CREATE STREAM S (K STRING KEY, ITEMS ARRAY<INT>) WITH (KAFKA_TOPIC='s', VALUE_FORMAT='JSON', PARTITIONS=1);
CREATE STREAM ITEMS WITH (KAFKA_TOPIC='items') AS SELECT K, TRIPLE(EACH(ITEMS)) AS V FROM S;
CREATE TABLE LASTS WITH (KAFKA_TOPIC='lasts') AS SELECT K, LAST_SEEN(CAST(ITEMS[1] AS BIGINT)) AS V FROM S GROUP BY K;
"""


@pytest.fixture
def mine(tmp_path: Path) -> Path:
    path = tmp_path / "mine.py"
    path.write_text(GOOD, encoding="utf-8")
    return path


def test_functions_of_a_file_are_described(mine: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["functions", "TRIPLE", "--functions", str(mine)]) == ExitCode.OK
    assert "Multiply by three." in capsys.readouterr().out


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (GOOD.replace("def triple", "def abs"), "functions of *mine.py: *ABS*"),
        ("x = 1", "declares no functions"),
        ("import nothing_of_the_kind", "Cannot load functions from"),
    ],
)
def test_a_file_that_cannot_be_used(mine: Path, capsys: pytest.CaptureFixture[str], text: str, message: str) -> None:
    mine.write_text(text, encoding="utf-8")
    assert main(["functions", "--functions", str(mine)]) == ExitCode.REFUSED
    said = " ".join(capsys.readouterr().err.split())
    assert all(part in said for part in message.split("*")), said
    assert "Traceback" not in said


RAISING = '''
from kestrel_sql.functions.declaration import scalar

@scalar("(value INT) -> INT")
def upto(value):
    """Gives small numbers back."""
    if value > 7:
        raise ValueError(f"{value} is too much")
    return value
'''


@pytest.mark.spark
def test_functions_of_a_file_run_in_spark(mine: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    script, records = tmp_path / "app.sql", tmp_path / "s.jsonl"
    script.write_text(SCRIPT, encoding="utf-8")
    records.write_text(
        "".join(json.dumps({"key": "a", "value": {"ITEMS": [n, n + 1]}, "timestamp": n}) + "\n" for n in (1, 5))
    )
    out = tmp_path / "out"
    assert (
        main(["run", str(script), "--input", f"s={records}", "--output", str(out), "--functions", str(mine)])
        == ExitCode.OK
    )
    lines = {topic: (out / f"{topic}.jsonl").read_text().splitlines() for topic in ("items", "lasts")}
    written = {topic: [json.loads(line)["value"]["V"] for line in found] for topic, found in lines.items()}
    assert written == {"items": [3, 6, 15, 18], "lasts": [1, 5]}, capsys.readouterr().err


@pytest.mark.spark
@pytest.mark.rules("E12.6")
def test_a_function_that_raises_is_named_once_with_its_trace(
    mine: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    script, records = tmp_path / "app.sql", tmp_path / "s.jsonl"
    mine.write_text(RAISING, encoding="utf-8")
    script.write_text(
        "CREATE STREAM S (V INT) WITH (KAFKA_TOPIC='s', VALUE_FORMAT='JSON');"
        "CREATE STREAM O AS SELECT V, UPTO(V) AS U FROM S;"
    )
    records.write_text("".join(json.dumps({"value": {"V": n}}) + "\n" for n in (1, 8, 9)))
    assert main(["run", str(script), "--input", f"s={records}", "--functions", str(mine)]) == ExitCode.OK
    out, said = capsys.readouterr()
    assert [json.loads(line)["value"]["U"] for line in out.splitlines()] == [1, None, None]
    assert said.count("UPTO raised ValueError: 8 is too much") == 1
    assert said.count("Traceback (most recent call last):") == 1
    assert 'raise ValueError(f"{value} is too much")' in said
    assert f'File "{mine}", line 8, in upto' in said
    assert "2 bad records: CSAS_O_0 2" in said
