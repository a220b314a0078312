"""What is proposed to people whose statements are nearly right, or were right in another release or editor."""

from __future__ import annotations

import pytest

from kestrel_sql.errors import EngineError
from kestrel_sql.session.session import Session

SOURCE = (
    "CREATE STREAM s (k STRING KEY, i INT, l BIGINT, d DOUBLE, m DECIMAL(4, 2), t STRING, a DATE, b BYTES)"
    " WITH (kafka_topic='s', value_format='JSON');"
)


def hint(statement: str) -> str | None:
    session = Session()

    def execute(text: str) -> None:
        for parsed in session.parse(text):
            session.execute(parsed)

    execute(SOURCE)
    with pytest.raises(EngineError) as caught:
        execute(statement)
    return caught.value.hint


@pytest.mark.parametrize(
    ("then", "other", "said"),
    [
        ("i", "d", "write CAST(I AS DOUBLE)"),
        ("d", "i", "write CAST(I AS DOUBLE)"),
        ("i", "l", "write CAST(I AS BIGINT)"),
        ("i", "t", "write CAST(I AS STRING)"),
        ("t", "i", "write CAST(I AS STRING)"),
        ("i", "m", "write CAST(I AS DECIMAL(12, 2)) and CAST(M AS DECIMAL(12, 2))"),
        ("m", "d", "write CAST(M AS DOUBLE)"),
        ("a", "t", "write CAST(A AS STRING)"),
        ("b", "i", None),
    ],
)
def test_the_cast_for_a_case_loses_nothing(then: str, other: str, said: str | None) -> None:
    assert hint(f"CREATE STREAM o AS SELECT k, CASE WHEN i = 1 THEN {then} ELSE {other} END AS x FROM s;") == said
    assert (
        hint(f"CREATE STREAM o AS SELECT k, CASE WHEN i = 1 THEN {then} WHEN i = 2 THEN {other} END AS x FROM s;")
        == said
    )


@pytest.mark.parametrize(
    ("statement", "said"),
    [
        ("CREATE STREAM o (x INT) WITH (kafka_topic='o', value_format='JSON', KEY='x');", "ID STRING KEY"),
        ("CREATE STREAM o (x INT) WITH (kafka_topi='o', value_format='JSON');", "did you mean KAFKA_TOPIC?"),
        ("CREATE STREAM o AS SELECT ROWKEY, i FROM s;", "there is no ROWKEY"),
        ("CREATE STREAM o AS SELECT * FROM s WHERE rowkey = 'a';", "there is no ROWKEY"),
        (
            "CREATE TABLE o AS SELECT k, WINDOWSTART() AS w FROM s;",
            "WINDOWSTART is a column: write it without parentheses",
        ),
        ("CREATE STREAM o \\\n AS SELECT * FROM s;", "remove the backslash"),
        ("CREATE STREAM o WITH (kafka_topic=\u2018o\u2019) AS SELECT * FROM s;", "U+2018 at 1:35: use '"),
        ("CREATE STREAM o WITH (kafka_topic=\u201co\u201d) AS SELECT * FROM s;", "U+201C at 1:35: use '"),
        ("CREATE\u00a0STREAM o AS SELECT * FROM s;", "U+00A0 at 1:7: use a plain space"),
        ("CREATE \u200bSTREAM o AS SELECT * FROM s;", "U+200B at 1:8: remove it"),
        ("SELECT i \u2013 1 FROM s;", "U+2013 at 1:10: use -"),
        ("SHOW STREAMS\uff1b", "U+FF1B at 1:13: use ;"),
        ("SELECT i FROM s WHERE i \u2265 1;", "U+2265 at 1:25: use >="),
        ("\u0421REATE STREAM o AS SELECT * FROM s;", "U+0421 at 1:1: cyrillic capital letter es; a name with"),
        ("SELECT i \u2026 FROM s;", "U+2026 at 1:10: horizontal ellipsis means nothing here"),
    ],
)
def test_what_to_write_instead(statement: str, said: str) -> None:
    assert said in (hint(statement) or "")
