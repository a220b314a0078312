from __future__ import annotations

import pytest

from kestrel_sql.errors import SqlSyntaxError
from kestrel_sql.sql.format.statements import format_statement
from kestrel_sql.sql.keywords import KAFKA_KEYWORDS
from kestrel_sql.sql.nodes.kafka_source import CreateKafkaSource, EnvelopeClause, Included, IncludeItem
from kestrel_sql.sql.parse.parser import parse_expression, parse_script, parse_statement

HEAD = "CREATE SOURCE S FROM KAFKA (TOPIC 't') FORMAT TEXT"

FORMS = [
    HEAD,
    (
        "CREATE SOURCE IF NOT EXISTS S (A, `b`, `FORMAT`) FROM KAFKA BROKER 'h:9092' TOPIC 't' START OFFSET "
        "(1, 0) FORMAT BYTES"
    ),
    (
        "CREATE SOURCE S FROM KAFKA CONNECTION C (TOPIC 't', START OFFSET (9223372036854775807)) KEY FORMAT "
        "TEXT VALUE FORMAT JSON"
    ),
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
def test_canonical_text_round_trips(text: str) -> None:
    statement = parse_statement(text)
    assert format_statement(statement) == text
    assert parse_statement(format_statement(parse_statement(text.lower()))) == parse_statement(text.lower())


def test_clauses_become_fields_of_the_node() -> None:
    statement = parse_statement(
        f"{HEAD} INCLUDE headers AS h, HEADER 'x' BYTES AS b, HEADER 'y' AS c ENVELOPE upsert (VALUE DECODING "
        "ERRORS = INLINE AS e)"
    )
    assert isinstance(statement, CreateKafkaSource)
    assert statement.topic.name == "t"
    assert statement.include == (
        IncludeItem(Included.HEADERS, "H"),
        IncludeItem(Included.HEADER, "B", "x", True),
        IncludeItem(Included.HEADER, "C", "y", False),
    )
    assert statement.envelope == EnvelopeClause("UPSERT", True, "E")


@pytest.mark.parametrize("keyword", sorted(KAFKA_KEYWORDS))
def test_its_keywords_are_identifiers_in_other_statements(keyword: str) -> None:
    assert parse_expression(f"{keyword.lower()} + 1") == parse_expression(f"`{keyword}` + 1")
    assert parse_statement(f"CREATE SOURCE {keyword} FROM KAFKA (TOPIC 't') FORMAT TEXT INCLUDE KEY AS {keyword}")
    assert parse_statement(f"CREATE SOURCE STREAM {keyword} ({keyword} INT) WITH (kafka_topic='t');")


def test_scripts_and_explain_accept_the_statement() -> None:
    assert len(parse_script(f"{HEAD}; EXPLAIN {HEAD}; SELECT text FROM s EMIT CHANGES;")) == 3


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("CREATE SOURCE S FROM POSTGRES (TOPIC 't') FORMAT TEXT", "KAFKA"),
        (f"{HEAD} INCLUDE HEADER 'x'", "Syntax error"),
        (f"{HEAD} INCLUDE HEADERS HEADERS", "Syntax Error"),
        ("CREATE SOURCE S FROM KAFKA (TOPIC 't')", "Syntax error"),
        ("CREATE SOURCE S FROM KAFKA (TOPIC 't', START OFFSET (1.5)) FORMAT TEXT", "an integer is needed"),
        ("CREATE SOURCE S FROM KAFKA (TOPIC 't') FORMAT XML", "Syntax Error"),
    ],
)
def test_invalid_statements_are_rejected(text: str, message: str) -> None:
    with pytest.raises(SqlSyntaxError, match=message):
        parse_statement(text)
