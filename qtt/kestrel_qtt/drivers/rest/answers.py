"""Write the answers of the engine as the responses of a server that a case expects."""

from __future__ import annotations

from collections.abc import Iterator

from kestrel_qtt.cases.model import Actual
from kestrel_qtt.drivers.rest.protobuf import proto_elements
from kestrel_qtt.ksqldb.rest_cases import Answer
from kestrel_sql.admin import answer as told
from kestrel_sql.admin.readable import readable
from kestrel_sql.queries.pull import schema_text
from kestrel_sql.queries.transient import QueryKind


def admin_answer(statement: str, answer: told.Answer) -> Answer:
    """Return the response to a statement that is not a query: its entity, the lines of PRINT, or its success."""
    if answer.lines:
        return Answer("admin", ({"lines": list(answer.lines)},))
    status: Actual = {"status": "SUCCESS", "message": answer.message}
    success: Actual = {"@type": "currentStatus", "statementText": statement, "commandStatus": status}
    return Answer("admin", (answer.entity or success,))


def query_answer(query_id: str, kind: QueryKind, answer: told.Answer) -> Answer:
    """The response to a query: a header, the rows, and how it ended."""
    schema = schema_text(answer.columns)
    header: Actual = {"header": {"schema": schema, "queryId": query_id}}
    return Answer("query", (header, *({"row": content} for content in _contents(answer)), *_end(kind, answer)))


def proto_answer(kind: QueryKind, answer: told.Answer) -> Answer:
    """The same response in protobuf.

    Raises:
        FormatError: a column of a type that protobuf does not have.
    """
    return Answer("queryProto", (*proto_elements(answer.columns, answer.rows), *_end(kind, answer)))


def _contents(answer: told.Answer) -> Iterator[dict[str, Actual]]:
    """The rows of an answer as JSON has them."""
    types = [column.type for column in answer.columns]
    for at, row in enumerate(answer.rows):
        columns = [readable(value, sql_type) for value, sql_type in zip(row, types, strict=True)]
        yield {"columns": columns, "tombstone": True} if at in answer.tombstones else {"columns": columns}


def _end(kind: QueryKind, answer: told.Answer) -> Iterator[Actual]:
    if kind is not QueryKind.PULL_TABLE:
        yield {"finalMessage": "Limit Reached" if answer.limited else "Query Completed"}
