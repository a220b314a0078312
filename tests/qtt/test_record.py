"""Masks, and the order of a sample; `tests/kafka/test_record.py` takes one from a broker."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path

import pytest

from kestrel_qtt.cases.model import ActualRecord
from kestrel_qtt.cli.main import ExitCode, main
from kestrel_qtt.drivers.driver import DriverError
from kestrel_qtt.drivers.kafka.mask import Mask
from kestrel_qtt.drivers.kafka.sample import Sampler, Wishes, in_order
from kestrel_sql.session.session import Session

APP = "CREATE STREAM S (ID INT KEY, EMAIL STRING) WITH (kafka_topic='s', value_format='JSON', partitions=1);\n"


def test_equal_values_become_equal_masks_of_their_type() -> None:
    columns = ["EMAIL", "AGE", "PAID", "SEEN", "TAGS"]
    value = {"EMAIL": "a@b.c", "AGE": 41, "PAID": Decimal("12.50"), "SEEN": True, "TAGS": ["a@b.c", None]}
    masked = value
    for name in columns:
        masked = Mask.of(f"value.{name}").applied(masked, columns)  # type: ignore[assignment]
    assert masked["EMAIL"] == masked["TAGS"][0] != value["EMAIL"]  # type: ignore[index]
    assert len(str(masked["EMAIL"])) % 4 == 0, "base64 text"
    assert isinstance(masked["AGE"], int)
    assert 0 <= masked["AGE"] < 10
    assert isinstance(masked["PAID"], Decimal)
    assert masked["PAID"].as_tuple().exponent == -2
    assert masked["SEEN"] is True
    assert Mask.of("value.EMAIL", "secret").applied(value, columns) != Mask.of("value.EMAIL").applied(value, columns)


def test_fields_keys_and_values_that_are_one_text() -> None:
    nested = {"ADDRESS": {"STREET": "x", "TOWN": "y"}}
    masked = Mask.of("value.ADDRESS.STREET").applied(nested, ["ADDRESS"])
    assert masked == {"ADDRESS": {"STREET": Mask.of("key").applied("x", ["ID"]), "TOWN": "y"}}
    assert Mask.of("key.ID").applied(12, ["ID"]) == Mask.of("key").applied(12, ["ID"]) != 12
    assert Mask.of("key.OTHER").applied(12, ["ID"]) == 12
    with pytest.raises(ValueError, match=r"value\.EMAIL cannot be masked, because the columns are parts of one text"):
        Mask.of("value.EMAIL").applied("1,a@b.c", ["N", "EMAIL"])


def sample_of(*masks: str) -> Sampler:
    statements = (
        "CREATE STREAM S (ID STRING KEY, DRIVER_ID STRING, N INT, NOTES ARRAY<STRING>)"
        " WITH (kafka_topic='s', value_format='JSON'); CREATE STREAM T (ID STRING KEY, A STRING, B STRING)"
        " WITH (kafka_topic='t', value_format='DELIMITED');"
    )
    session = Session()
    for parsed in session.parse(statements):
        session.execute(parsed)
    sample = Sampler.__new__(Sampler)
    sample.session, sample.tell = session, print
    sample.wishes = Wishes(servers="b:1", last={}, masks=[Mask.of(mask) for mask in masks])
    return sample


def test_a_value_that_is_masked_is_masked_wherever_it_stands() -> None:
    value = {"DRIVER_ID": "d-17", "N": 4711, "NOTES": ["d-17", "other"]}
    headers = (("driver", b"d-17"), ("n", b"4711"), ("x", None))
    first = "s", ActualRecord(key="d-17", value=value, headers=headers)
    second = "t", ActualRecord(key="d-17", value="x,y")
    hidden = Mask.of("key").hidden("d-17")
    (_, one), (_, other) = sample_of("value.DRIVER_ID")._masked([first, second])
    assert (one.key, other.key) == (hidden, hidden)
    assert one.value == {"DRIVER_ID": hidden, "N": 4711, "NOTES": [hidden, "other"]}
    assert one.headers == (("driver", str(hidden).encode()), ("n", b"4711"), ("x", None))


@pytest.mark.parametrize(
    "second",
    [
        ActualRecord(value="x,d-17"),
        ActualRecord(value={"A": "the driver d-17 was late"}),
        ActualRecord(value={"A": [{"d-17": 1}]}),
        ActualRecord(headers=(("from", b"driver=d-17"),)),
    ],
)
def test_a_masked_value_that_stands_within_another_is_refused(second: ActualRecord) -> None:
    first = "s", ActualRecord(key="d-17", value={"DRIVER_ID": "d-17", "N": 1, "NOTES": None})
    with pytest.raises(DriverError, match="topic t, partition 0, offset 0: a text or name contains a masked value"):
        list(sample_of("value.DRIVER_ID")._masked([first, ("t", second)]))


def test_a_late_record_stays_behind_the_one_before_it() -> None:
    def record(time: int, offset: int, partition: int = 0) -> tuple[str, ActualRecord]:
        return "s", ActualRecord(timestamp=time, offset=offset, partition=partition)

    given = [record(50, 2), record(10, 3), record(20, 1), record(30, 7, partition=1)]
    assert [(each.partition, each.offset) for _, each in in_order(given)] == [(0, 1), (1, 7), (0, 2), (0, 3)]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--topic", "s=last:5"], "the broker 127.0.0.1:1 does not answer: "),
        (["--topic", "z=last:5"], "app.sql does not read the topic z; it reads s"),
        (["--topic", "s=last:5", "--mask", "value.EMIAL"], "no source has the column value.EMIAL; did you mean EMAIL?"),
        (["--topic", "s=last:5", "--mask", "EMAIL"], "--mask: EMAIL is not a column; write it as value.EMAIL"),
    ],
)
def test_what_cannot_be_recorded_is_one_sentence(
    arguments: list[str], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    script = tmp_path / "app.sql"
    script.write_text(f"{APP}CREATE STREAM T AS SELECT ID, UCASE(EMAIL) AS EMAIL FROM S;")
    code = main(["record", "--kafka", "127.0.0.1:1", "--app", str(script), *arguments])
    said = capsys.readouterr().err
    assert (code, message in said, said.count("\n")) == (ExitCode.USAGE, True, 1), said


def test_an_error_of_the_script_names_its_position(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    script = tmp_path / "app.sql"
    script.write_text(f"{APP}CREATE STREAM T AS SELECT UCAS(EMAIL) AS EMAIL FROM S;")
    assert main(["record", "--kafka", "127.0.0.1:1", "--app", str(script), "--topic", "s=last:5"]) == ExitCode.USAGE
    assert f"at {script}:2:27" in capsys.readouterr().err


def test_a_sample_that_nobody_can_read_is_refused_before_the_broker_is_asked(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with pytest.raises(SystemExit):
        main(["record", "--kafka", "h:1", "--app", "x.sql", "--topic", "s=newest:5"])
    assert "expected NAME=last:N, such as orders=last:50, got 's=newest:5'" in capsys.readouterr().err
