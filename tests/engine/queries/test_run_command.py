"""`kestrel run` and `kestrel shell` over topics in memory: what they say, where, and how they end."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from kestrel_sql.cli.main import ExitCode, main

SCRIPT = """
CREATE STREAM S (K STRING KEY, V INT) WITH (KAFKA_TOPIC='s', VALUE_FORMAT='JSON');
CREATE STREAM A AS SELECT K, 10 / V AS X FROM S;
CREATE STREAM L (K STRING KEY, V INT) WITH (KAFKA_TOPIC='l', VALUE_FORMAT='JSON', PARTITIONS=1);
CREATE TABLE W AS SELECT K, COUNT(*) AS N FROM L WINDOW TUMBLING (SIZE 10 SECONDS, GRACE PERIOD 0 SECONDS) GROUP BY K;
"""
LATE_MS = (0, 100_000, 1_000, 2_000, 200_000, 3_000)
INPUT = '{"key": "a", "value": {"V": 5}}\n{"key": "b", "value": {"V": "many"}}\n{"key": "c", "value": {"V": 0}}\n'


@pytest.fixture
def files(tmp_path: Path) -> tuple[str, str]:
    script, data = tmp_path / "app.sql", tmp_path / "s.jsonl"
    script.write_text(SCRIPT, encoding="utf-8")
    data.write_text(INPUT, encoding="utf-8")
    return str(script), f"s={data}"


@pytest.mark.spark
@pytest.mark.rules("E12.1", "E12.2", "E12.2.1", "E12.3", "E12.9")
def test_a_run_names_bad_and_late_records_and_fails_on_them_if_asked_to(
    files: tuple[str, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    script, data = files
    progress, late = tmp_path / "progress.json", tmp_path / "l.jsonl"
    late.write_text("".join(f'{{"key": "a", "value": {{}}, "timestamp": {at}}}\n' for at in LATE_MS), encoding="utf-8")
    command = ["run", script, "--input", data, "--input", f"l={late}", "--json-progress", str(progress)]
    assert main(command) == ExitCode.OK
    out, said = capsys.readouterr()
    assert [json.loads(line)["value"] for line in out.splitlines()] == [{"X": 2}, {"X": None}, *[{"N": 1}] * 3]
    lines = said.splitlines()
    assert lines[0] == f"running {script} over topics in memory"
    assert [line.split(": ")[1].partition(" (more")[0] for line in lines if "only counted" in line] == [
        "the record at s, partition 0, offset 1, cannot be read",
        "the record at s, partition 0, offset 2, cannot be computed",
        "the record at l, partition 0, offset 2, comes too late",
    ]
    window = "timestamp=[1000] window=[0,10000] grace=[0] streamTime=[100000]"
    first = f"the record at l, partition 0, offset 2, comes too late: Skipping record for expired window. {window}"
    assert lines[-1] == f"2 bad records: CSAS_A_0 2; 3 late records: CTAS_W_1 3; CTAS_W_1: {first}"
    ends = {each["query"]: each for each in map(json.loads, progress.read_text(encoding="utf-8").splitlines())}
    assert (ends["CSAS_A_0"]["bad_records"], ends["CTAS_W_1"]["late_records"]) == (2, 3)
    assert ends["CTAS_W_1"]["first_late"] == f"CTAS_W_1: {first}"
    assert main([*command, "--fail-on", "bad-records"]) == ExitCode.REFUSED
    capsys.readouterr()
    assert main([*command, "--max-bad", "10%"]) == ExitCode.REFUSED
    out, said = capsys.readouterr()
    assert not out
    assert "CSAS_A_0: 2 of 3 records are bad, and --max-bad allows 10%" in said


@pytest.mark.spark
@pytest.mark.rules("E12.1", "E12.3")
def test_a_shell_does_so_too(files: tuple[str, str], capsys: pytest.CaptureFixture[str]) -> None:
    script, data = files
    command = ["shell", "--file", script, "--input", data, "--execute", "SELECT * FROM A EMIT CHANGES;"]
    assert main(command) == ExitCode.OK
    assert "CSAS_A_0: the record at s, partition 0, offset 1, cannot be read (" in capsys.readouterr().err
    assert main([*command, "--fail-on", "bad-records"]) == ExitCode.REFUSED


def test_the_version(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["--version"])
    assert ended.value.code == ExitCode.OK
    assert capsys.readouterr().out.startswith("kestrel 0.")
