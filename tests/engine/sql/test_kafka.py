from __future__ import annotations

import pytest

from kestrel_sql.errors import SqlSyntaxError
from kestrel_sql.sql.format.statements import format_statement
from kestrel_sql.sql.keywords import KAFKA_WORDS
from kestrel_sql.sql.nodes.kafka_source import CreateKafkaSource, EnvelopeClause, Included, IncludeItem
from kestrel_sql.sql.parse.parser import parse_expression, parse_script, parse_statement

HEAD = "CREATE SOURCE S FROM KAFKA (TOPIC 't') FORMAT TEXT"

FORMS = [
    HEAD,
    "CREATE SOURCE IF NOT EXISTS S (A, `b`, `FORMAT`) FROM KAFKA BROKER 'h:9092' TOPIC 't' START OFFSET (1, 0) FORMAT BYTES",
    "CREATE SOURCE S FROM KAFKA CONNECTION C (TOPIC 't', START OFFSET (9223372036854775807)) KEY FORMAT TEXT VALUE FORMAT JSON",
    "CREATE SOURCE S FROM KAFKA (TOPIC 't') FORMAT CSV WITH 3 COLUMNS DELIMITED BY ';'",
    "CREATE SOURCE S FROM KAFKA (TOPIC 't') FORMAT CSV WITH HEADER (A, `TEXT`)",
    "CREATE SOURCE S FROM KAFKA (TOPIC 't') FORMAT REGEX '(?P<a>it''s)'",
    "CREATE SOURCE S FROM KAFKA (TOPIC 't') FORMAT AVRO USING CONFLUENT SCHEMA REGISTRY",
    "CREATE SOURCE S FROM KAFKA (TOPIC 't') FORMAT PROTOBUF MESSAGE 'm' USING SCHEMA 'message m {}'",
    f"{HEAD} INCLUDE KEY, PARTITION, OFFSET, TIMESTAMP, TOPIC, HEADERS",
    f"{HEAD} INCLUDE KEY AS K, PARTITION AS `OFFSET`, HEADER 'a''b' AS `MiXed`, HEADER '' AS E BYTES",
    f"{HEAD} ENVELOPE UPSERT",
    f"{HEAD} ENVELOPE UPSERT (VALUE DECODING ERRORS = (INLINE))",
    f"{HEAD} ENVELOPE UPSERT (VALUE DECODING ERRORS = (INLINE AS FLAW))",
    f"{HEAD} ENVELOPE MATERIALIZE",
    "CREATE SOURCE S FROM LOAD GENERATOR COUNTER INCLUDE HEADERS",
]


@pytest.mark.parametrize("text", FORMS)
def test_the_normal_form_is_read_back(text: str) -> None:
    statement = parse_statement(text)
    assert format_statement(statement) == text
    assert parse_statement(format_statement(parse_statement(text.lower()))) == parse_statement(text.lower())


def test_the_parts_of_a_statement() -> None:
    statement = parse_statement(
        f"{HEAD} INCLUDE headers AS h, HEADER 'x' BYTES AS b, HEADER 'y' AS c ENVELOPE upsert (VALUE DECODING ERRORS = INLINE AS e)"
    )
    assert isinstance(statement, CreateKafkaSource)
    assert statement.place.topic == "t"
    assert statement.include == (
        IncludeItem(Included.HEADERS, "H"),
        IncludeItem(Included.HEADER, "B", "x", True),
        IncludeItem(Included.HEADER, "C", "y", False),
    )
    assert statement.envelope == EnvelopeClause("UPSERT", True, "E")


@pytest.mark.parametrize("word", sorted(KAFKA_WORDS))
def test_a_word_of_this_statement_is_a_name_everywhere_else(word: str) -> None:
    assert parse_expression(f"{word.lower()} + 1") == parse_expression(f"`{word}` + 1")
    assert parse_statement(f"CREATE SOURCE {word} FROM KAFKA (TOPIC 't') FORMAT TEXT INCLUDE KEY AS {word}")
    assert parse_statement(f"CREATE SOURCE STREAM {word} ({word} INT) WITH (kafka_topic='t');")


def test_explain_takes_it_and_a_script_too() -> None:
    assert len(parse_script(f"{HEAD}; EXPLAIN {HEAD}; SELECT text FROM s EMIT CHANGES;")) == 3


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("CREATE SOURCE S FROM POSTGRES (TOPIC 't') FORMAT TEXT", "KAFKA"),
        (f"{HEAD} INCLUDE HEADER 'x'", "Syntax error"),
        (f"{HEAD} INCLUDE HEADERS HEADERS", "Syntax Error"),
        ("CREATE SOURCE S FROM KAFKA (TOPIC 't')", "Syntax error"),
        ("CREATE SOURCE S FROM KAFKA (TOPIC 't', START OFFSET (1.5)) FORMAT TEXT", "whole number"),
        ("CREATE SOURCE S FROM KAFKA (TOPIC 't') FORMAT XML", "Syntax Error"),
    ],
)
def test_what_is_no_such_statement(text: str, message: str) -> None:
    with pytest.raises(SqlSyntaxError, match=message):
        parse_statement(text)
