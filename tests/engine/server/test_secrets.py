"""What the server repeats of a statement: everything but the values of INSERT VALUES."""

from __future__ import annotations

import pytest

from kestrel_sql.errors import EngineError, attach_span
from kestrel_sql.formats.serde import ConversionError, failure
from kestrel_sql.functions.table import FUNCTIONS
from kestrel_sql.server.errors import api_error
from kestrel_sql.server.json_values import read_value
from kestrel_sql.server.secrets import Masked, told, without_secrets
from kestrel_sql.session.insert_values import Constants, insert_record
from kestrel_sql.session.session import Session
from kestrel_sql.types.schema import Column
from kestrel_sql.types.sql_types import Decimal

SOURCE = """CREATE STREAM s (id INT KEY, v STRING, de DECIMAL(4, 2), dt DATE, a ARRAY<INT>)
            WITH (kafka_topic='s', value_format='JSON', partitions=1);"""


@pytest.mark.rules("R4.2")
@pytest.mark.parametrize(
    ("text", "masked"),
    [
        ("INSERT INTO s VALUES (1, 'it''s');", "INSERT INTO s VALUES ('[value]', '[value]');"),
        (
            "insert into s (id, v) values (-1, UCASE('x', (2)) || 'y') ; SHOW TOPICS;",
            "insert into s (id, v) values ('[value]', '[value]') ; SHOW TOPICS;",
        ),
        ("INSERT INTO s VALUES (ARRAY[1, 2],\n MAP('k':='v'))", "INSERT INTO s VALUES ('[value]',\n '[value]')"),
        ("INSERT INTO s VALUES (1, 'open);", "INSERT INTO s VALUES ('[value]', '[value]'"),
        ("INSERT INTO s VALUES (1), ('x', 2);", "INSERT INTO s VALUES ('[value]'), ('[value]', '[value]');"),
        ('INSERT INTO s (v) VALUS (1.5e+3, "x");', "INSERT INTO s (v) VALUS ('[value]', '[value]');"),
        ("CREATE STREAM o AS SELECT 'values (' AS v FROM s WHERE id = 1;", None),
        ("INSERT INTO o SELECT 'x' AS v FROM s;", None),
        ("SET 'a'='b'; /* ; */ INSERT INTO s VALUES (1);", "SET 'a'='b'; /* ; */ INSERT INTO s VALUES ('[value]');"),
    ],
)
def test_values_are_masked_where_they_stand(text: str, masked: str | None) -> None:
    assert without_secrets(text) == (text if masked is None else masked)


def insert(session: Session, text: str) -> None:
    (parsed,) = session.parse(text)
    constants = Constants(FUNCTIONS, {})
    with attach_span(parsed.span):
        found = session.execute(parsed).insert
        assert found is not None
        insert_record(found, constants, session.serde(), lambda: 0)


@pytest.mark.rules("R4.2")
@pytest.mark.parametrize(
    ("values", "says", "line", "carets"),
    [
        ("(id) VALUES ('geheim')", "Expected type INTEGER for field `ID` but got STRING", "('[value]');", "^"),
        ("(id) VALUES (LCASE('GEHEIM'))", "Expected type INTEGER for field `ID` but got STRING", "", "^"),
        ("(a) VALUES (ARRAY['geheim'])", "Expected type ARRAY<INTEGER> for field `A` but got ARRAY<STRING>", "", "^"),
        ("(de) VALUES (123.456)", "for field `DE` but got DECIMAL(6, 3)\n", "", "the number has more than 2 decimals"),
        ("(dt) VALUES ('geheim')", "for field `DT` but got STRING\n", "", "a DATE is written as 2020-05-26"),
        ("(v, rowtime) VALUES ('x', 'geheim')", "Failed to parse timestamp. Required", "", "^"),
        ('(v) VALUES ("geheim")', "Column `[value]` cannot be resolved", "(v) VALUES ('[value]');", "       ^^^^^^^^^"),
        ("(v) VALUES (1 + 'geheim')", "expression: ([value] + [value])", "", ""),
        ("(v) VALUES ('geheim' geheim)", "Syntax Error", "(v) VALUES ('[value]');", "        ^^^^^^^^^"),
        ("(v) VALUES (${x})", "Illegal argument at line 1:27.\n", "", ""),
    ],
)
def test_an_error_of_an_insert_repeats_no_value(values: str, says: str, line: str, carets: str) -> None:
    session = Session(variables={"x": "ge heim geheim"})
    for parsed in session.parse(SOURCE):
        session.execute(parsed)
    text = f"INSERT INTO s {values};"
    with pytest.raises(EngineError) as caught:
        insert(session, text)
    answer = str(api_error(caught.value, text, text).body)
    assert "geheim" not in answer.lower()
    assert "123" not in answer
    said = told(caught.value, text)
    assert says in said
    assert line in said
    assert carets in said


@pytest.mark.rules("R4.2")
def test_carets_stand_under_the_masked_text() -> None:
    text = "SHOW TOPICS;\nINSERT INTO s VALUES ('first', 'second') x;"
    with pytest.raises(EngineError) as caught:
        Session().parse(text)
    source, carets = told(caught.value, text).split("\n")[-2:]
    assert source.strip() == "INSERT INTO s VALUES ('[value]', '[value]') x;"
    assert carets == " " * source.index("x;") + "^"
    assert Masked.of("INSERT INTO s VALUES ()").values == ()


@pytest.mark.rules("R10.4")
@pytest.mark.parametrize("value", ["geheim", "1e999999999999", "NaN", "1" * 200])
def test_a_row_that_does_not_fit_is_refused_without_its_value(value: str) -> None:
    with pytest.raises(EngineError) as caught:
        read_value(value, Column("D", Decimal(4, 2)))
    assert str(value) not in told(caught.value)
    assert "decimal." not in told(caught.value)
    assert "DECIMAL(4, 2)" in told(caught.value)


@pytest.mark.rules("R4.2")
@pytest.mark.parametrize("error", [ValueError("4111"), ConversionError("no '4111'", ".A"), OverflowError("4111")])
def test_what_a_format_says_of_a_value_is_not_repeated(error: Exception) -> None:
    found = failure("Error serializing message to topic: s", error)
    assert "4111" in found.message
    assert "4111" not in told(found)
