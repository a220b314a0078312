from __future__ import annotations

from pathlib import Path

import pytest

from kestrel_qtt.cases.discovery import case_file
from kestrel_qtt.cases.model import CaseFileError, FormatInfo, SerdeInfo
from kestrel_qtt.judge.judge import serde_failures
from kestrel_qtt.load import case_of_spec

JSON = FormatInfo(format="JSON")
OUT = SerdeInfo(schema="`K` INTEGER KEY, `V` STRING", key_format=JSON, value_format=JSON)


def test_equal_serdes_are_equal_however_they_are_written() -> None:
    assert (
        serde_failures(
            {"Q.OUT": OUT}, {"Q.OUT": SerdeInfo(schema="`K` INT KEY,`V` VARCHAR", key_format=JSON, value_format=JSON)}
        )
        == []
    )


def test_differences_are_named() -> None:
    windowed = FormatInfo(format="JSON", window_type="TUMBLING", window_size=1000)
    found = serde_failures(
        {"Q.A": OUT, "Q.OUT": OUT}, {"Q.B": OUT, "Q.OUT": SerdeInfo(schema="`K` INTEGER KEY", key_format=windowed)}
    )
    assert [text.partition("\n")[0].partition(",")[0] for text in found] == [
        "schemas: Q.A is expected",
        "schemas: Q.B is written",
        "schemas: Q.OUT: schema is",
        "schemas: Q.OUT: key format is ('JSON'",
        "schemas: Q.OUT: value format is absent",
    ]


@pytest.mark.rules("Q16.2")
def test_the_schemas_of_a_spec_are_read() -> None:
    entry = {"schema": "`V` STRING", "valueFormat": {"format": "JSON", "features": ["UNWRAP_SINGLES"]}}
    case = case_of_spec(
        case_file(Path("spec.json")),
        {"testCase": {"name": "n", "statements": ["A"], "outputs": []}, "schemas": {"Q.OUT": entry}},
    )
    assert case.serdes == {
        "Q.OUT": SerdeInfo(
            schema="`V` STRING", value_format=FormatInfo(format="JSON", features=frozenset({"UNWRAP_SINGLES"}))
        )
    }
    with pytest.raises(CaseFileError, match="schema"):
        case_of_spec(
            case_file(Path("spec.json")),
            {"testCase": {"name": "n", "statements": ["A"], "outputs": []}, "schemas": {"Q.OUT": {}}},
        )
