"""Errors as the API tells them: an HTTP status, ksqlDB's code, and a message."""

from __future__ import annotations

from kestrel_sql.errors import (
    AccessError,
    ConnectError,
    EngineError,
    PropertyError,
    QueryError,
    RegistryMissingError,
    StatementError,
    TargetError,
)
from kestrel_sql.server.secrets import Masked, told, without_values

BAD_REQUEST = 40000
BAD_STATEMENT = 40001
QUERY_ENDPOINT = 40002
TOO_MANY_PUSH_QUERIES = 40003
HTTP2_REQUIRED = 40004
UNAUTHORIZED = 40100
FORBIDDEN = 40300
KAFKA_FORBIDDEN = 40301
UNKNOWN_COMMAND = 40400
ASSERTION_FAILED = 41700
MISDIRECTED = 42100
NO_REGISTRY = 42801
TOO_MANY_REQUESTS = 42900
SERVER_ERROR = 50000
SEQUENCE_TIMEOUT = 50301
NOT_READY = 50302
TERMINATING = 50303
TERMINATED = 50304


class ApiError(Exception):
    """An answer other than success.

    `code` is ksqlDB's error code, `status` the HTTP status, by default the first three digits of the code. With
    `statement` the answer is a `statement_error`.
    """

    def __init__(
        self,
        code: int,
        message: str,
        *,
        status: int | None = None,
        statement: str | None = None,
        headers: dict[str, str] | None = None,
    ) -> None:
        super().__init__(message)
        self.code = code
        self.status = code // 100 if status is None else status
        self.message = message
        self.statement = None if statement is None else without_values(statement)
        self.headers = headers or {}

    @property
    def body(self) -> dict[str, object]:
        """The JSON object of the answer."""
        if self.statement is None:
            return {"@type": "generic_error", "error_code": self.code, "message": self.message}
        return {
            "@type": "statement_error",
            "error_code": self.code,
            "message": self.message,
            "statementText": self.statement,
            "entities": [],
        }


def api_error(error: EngineError, statement: str, text: str | None = None) -> ApiError:
    """Tell an error of the engine about a statement; `text` is the whole text that its position counts in."""
    message = Masked.of(statement).message(told(error, text))
    match error:
        case AccessError():
            return ApiError(KAFKA_FORBIDDEN, message)
        case RegistryMissingError():
            return ApiError(NO_REGISTRY, message)
        case ConnectError():
            return ApiError(error.status * 100, error.message)
        case TargetError():
            return ApiError(BAD_REQUEST, message)
        case PropertyError() if not statement:
            return ApiError(BAD_REQUEST, message)
        case QueryError():
            return ApiError(SERVER_ERROR, message)
        case _ if isinstance(error, StatementError) or error.code == "SYNTAX":
            return ApiError(BAD_STATEMENT, message, statement=statement)
        case _:
            return ApiError(SERVER_ERROR, message, statement=statement)


def internal_error(error: BaseException) -> ApiError:
    """Tell a failure that nobody foresaw, without its trace: that goes to the server's log."""
    return ApiError(SERVER_ERROR, f"The server failed ({type(error).__name__}); see its log.")
