"""Tests an edited script with an old checkpoint: which queries resume, start, or are refused."""

from __future__ import annotations

import pytest

from kestrel_sql.errors import StatementError
from kestrel_sql.kafka.run.manifest import Manifest, StoredQuery
from kestrel_sql.kafka.run.resume import NamedQuery, document_of, gone, named_queries, order, relevant, resumed
from kestrel_sql.session.session import Session

SOURCES = """
CREATE STREAM S (K STRING KEY, V INT) WITH (KAFKA_TOPIC='s', VALUE_FORMAT='JSON', PARTITIONS=1);
CREATE TABLE T (K STRING PRIMARY KEY, N INT) WITH (KAFKA_TOPIC='t', VALUE_FORMAT='JSON', PARTITIONS=1);
"""


def application(text: str) -> list[NamedQuery]:
    session = Session()
    statements = session.parse(SOURCES + text)
    for parsed in statements:
        session.execute(parsed)
    return named_queries(session.queries, session.catalog, statements)


def checkpoint(text: str) -> Manifest:
    manifest = Manifest()
    for named in application(text):
        query = named.query
        manifest = manifest.with_query(
            StoredQuery(
                name=named.name,
                id=query.id,
                statement=query.statement_text,
                plan=document_of(query, query.plan),
                settings=relevant(query.config, query.plan),
                reading="plain",
                sources={},
                start={},
                pages=1,
            )
        )
    return manifest


def test_a_query_is_found_whatever_statements_precede_it() -> None:
    old = checkpoint("CREATE STREAM A AS SELECT * FROM S WHERE V > 1;")
    new = application("CREATE STREAM B AS SELECT * FROM S; CREATE STREAM A AS SELECT * FROM S WHERE V > 1;")
    again = next(named for named in new if named.name in old.queries)
    assert again.query.id == "CSAS_A_1"
    assert resumed(again, old.queries[again.name]).query_id == "CSAS_A_0"


def test_a_changed_query_is_refused_with_its_changes() -> None:
    old = checkpoint("CREATE STREAM A AS SELECT * FROM S WHERE V > 1;")
    (new,) = application("CREATE STREAM A AS SELECT * FROM S WHERE V > 2;")
    with pytest.raises(StatementError, match=r"(?s)CSAS_A_0.*V > 1.*V > 2") as caught:
        resumed(new, old.queries[new.name])
    assert "CREATE OR REPLACE" in str(caught.value.hint)


def test_or_replace_resumes_a_query_whose_state_matches() -> None:
    old = checkpoint("CREATE STREAM A AS SELECT * FROM S WHERE V > 1;")
    (new,) = application("CREATE OR REPLACE STREAM A AS SELECT * FROM S WHERE V > 2;")
    assert resumed(new, old.queries[new.name]).query_id == "CSAS_A_0"


def test_or_replace_does_not_resume_a_query_whose_state_does_not_match() -> None:
    old = checkpoint("CREATE TABLE A AS SELECT K, COUNT(*) AS C FROM S GROUP BY K;")
    (new,) = application("CREATE OR REPLACE TABLE A AS SELECT K, SUM(V) AS C FROM S GROUP BY K;")
    with pytest.raises(StatementError, match="StreamAggregate must have matching"):
        resumed(new, old.queries[new.name])


def test_a_setting_that_changes_the_meaning_of_a_query_counts() -> None:
    old = checkpoint("CREATE STREAM A AS SELECT * FROM S;")
    (new,) = application("SET 'ksql.timestamp.throw.on.invalid' = 'true'; CREATE STREAM A AS SELECT * FROM S;")
    with pytest.raises(StatementError, match=r"ksql\.timestamp\.throw\.on\.invalid"):
        resumed(new, old.queries[new.name])


@pytest.mark.rules("O9.4")
def test_the_cache_counts_under_any_name_for_time_windows_that_are_final() -> None:
    none = "SET 'cache.max.bytes.buffering' = '0';"
    same = "SET 'ksql.streams.statestore.cache.max.bytes' = '0'; SET 'ksql.streams.num.stream.threads' = '2';"
    counts = "CREATE TABLE A AS SELECT K, COUNT(*) AS N FROM S WINDOW {} GROUP BY K EMIT {};"
    final = counts.format("TUMBLING (SIZE 1 SECOND)", "FINAL")
    old = checkpoint(none + final)
    (again,) = application(same + final)
    assert resumed(again, old.queries[again.name]).query_id == "CTAS_A_0"
    (cached,) = application(final)
    with pytest.raises(StatementError, match=r"(?s)CTAS_A_0.*cache\.max\.bytes\.buffering\n  - 0\n  \+ None"):
        resumed(cached, old.queries[cached.name])
    for window, emit in (("TUMBLING (SIZE 1 SECOND)", "CHANGES"), ("SESSION (1 SECOND)", "FINAL")):
        text = counts.format(window, emit)
        (other,) = application(text)
        assert resumed(other, checkpoint(none + text).queries[other.name]).query_id == "CTAS_A_0"


def test_a_query_that_left_the_script_is_reported() -> None:
    old = checkpoint("CREATE STREAM A AS SELECT * FROM S; CREATE STREAM B AS SELECT * FROM S;")
    assert [stored.id for stored in gone(old, application("CREATE STREAM B AS SELECT * FROM S;"))] == ["CSAS_A_0"]


def test_two_inserts_into_one_stream_have_names_of_their_own() -> None:
    text = (
        "CREATE STREAM A AS SELECT * FROM S; INSERT INTO A SELECT * FROM S WHERE V = 1; INSERT INTO A SELECT * FROM S"
        " WHERE V = 2;"
    )
    names = [named.name for named in application(text)]
    assert names == ["CREATE STREAM A", "INSERT INTO A FROM S", "INSERT INTO A FROM S (2)"]


def test_queries_come_after_those_that_write_their_sources() -> None:
    text = """
    CREATE STREAM A AS SELECT * FROM S;
    CREATE STREAM B AS SELECT * FROM A;
    INSERT INTO A SELECT * FROM S WHERE V = 1;
    """
    assert [named.name for named in order(application(text))] == [
        "CREATE STREAM A",
        "INSERT INTO A FROM S",
        "CREATE STREAM B",
    ]


def test_a_circle_of_queries_has_an_order_too() -> None:
    text = (
        "CREATE STREAM A AS SELECT * FROM S; CREATE STREAM B AS SELECT * FROM A; INSERT INTO A SELECT * FROM B WHERE V"
        " = 1;"
    )
    assert sorted(named.name for named in order(application(text))) == [
        "CREATE STREAM A",
        "CREATE STREAM B",
        "INSERT INTO A FROM B",
    ]


def test_settings_of_the_processing_log_do_not_change_a_query() -> None:
    text = "CREATE STREAM A AS SELECT * FROM S WHERE V > 1;"
    old = checkpoint(f"SET 'ksql.logging.processing.rows.include'='true'; {text}")
    (new,) = application(text)
    assert resumed(new, old.queries[new.name]).query_id == "CSAS_A_0"
