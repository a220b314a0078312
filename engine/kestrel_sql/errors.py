"""Defines every error that a user can act on, and renders it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from difflib import get_close_matches
from typing import ClassVar

import msgspec


class Span(msgspec.Struct, frozen=True):
    """A range in a text. Lines and columns count from 1; the end is exclusive."""

    line: int
    column: int
    end_line: int
    end_column: int


def position(span: Span | None) -> str:
    """Return the position as ksqlDB begins a message with it."""
    return f"Line: {span.line}, Col: {span.column}: " if span else ""


class EngineError(Exception):
    """Base class of all errors that a user can act on.

    `message` is one sentence that names the thing, `span` is its position in the statement text, and `hint` says
    what to try. `public` is the message without the values of the user that it repeats, None if it repeats none.
    """

    code: ClassVar[str] = "ENGINE_ERROR"

    def __init__(
        self, message: str, *, span: Span | None = None, hint: str | None = None, public: str | None = None
    ) -> None:
        super().__init__(message)
        self.message = message
        self.public = public
        self.span = span
        self.hint = hint

    def render(self, text: str | None = None) -> str:
        """Render the error; underline the offending part of `text` if the error has a span."""
        where = f" at {self.span.line}:{self.span.column}" if self.span else ""
        return "\n".join([f"{self.code}{where}: {self._bare()}", *self.details(text)])

    def _bare(self) -> str:
        """Return the message without what `render` says beside it: ksqlDB's position and text of the statement."""
        return self.message.replace(position(self.span), "", 1)

    def details(self, text: str | None = None) -> list[str]:
        """Return the lines below the message: the offending part of `text`, underlined, and the hint."""
        lines = underline(text, self.span) if self.span and text is not None else []
        return [*lines, f"  hint: {self.hint}"] if self.hint else lines


def underline(text: str, span: Span) -> list[str]:
    """Return the line of `text` where a span begins, without its indentation, and carets under the span."""
    # Not splitlines(): the parser counts line feeds only, and a string literal may hold other line separators.
    source = text.split("\n")
    if not 0 < span.line <= len(source):
        return []
    line = source[span.line - 1].removesuffix("\r")
    end = span.end_column if span.end_line == span.line else len(line) + 1
    width = max(1, end - span.column)
    before = line[: span.column - 1].ljust(span.column - 1)
    # Of several statements in one line, those before this one are blanks here.
    start = len(before) - len(before.lstrip())
    indent = "".join("\t" if character == "\t" else " " for character in before[start:])
    return [f"    {line[start:]}", f"    {indent}{'^' * width}"]


@contextmanager
def attach_span(span: Span) -> Iterator[None]:
    """Give an error without a span the span of the statement it is about."""
    try:
        yield
    except EngineError as error:
        error.span = error.span or span
        raise


def unreadable(error: OSError | UnicodeDecodeError) -> str:
    """Return why a text file cannot be read, without its name."""
    return error.strerror or "unreadable" if isinstance(error, OSError) else "it is not UTF-8"


def did_you_mean(name: str, known: Iterable[str]) -> str | None:
    """Return a hint with the known name most similar to `name`, or None if no name is similar."""
    near = get_close_matches(name, list(known), n=1)
    return f"did you mean {near[0]}?" if near else None


def column_hint(name: str, known: Iterable[str]) -> str | None:
    """Return a hint for the name of a column that does not exist."""
    if name.upper() == "ROWKEY":
        return "there is no ROWKEY: a key has the name of its column, declared as in ID STRING KEY"
    return did_you_mean(name, known)


def other_case(name: str, known: Iterable[str], noun: str) -> str:
    """Return a line for a message that names what differs from `name` in case only; empty if nothing does.

    `noun` says what the names are of, such as `source`.
    """
    close = sorted(other for other in known if other != name and other.upper() == name.upper())
    if not close:
        return ""
    if close == [name.upper()]:
        return f"\nDid you mean {close[0]}? Hint: try removing double quotes from the {noun} name."
    quoted = " or ".join(f'"{other}"' for other in close)
    return f"\nDid you mean {quoted}? Hint: wrap the {noun} name in double quotes to make it case-sensitive."


class SqlSyntaxError(EngineError):
    """The text is not a statement of the language."""

    code = "SYNTAX"

    def _bare(self) -> str:
        lines = self.message.partition("\nStatement: ")[0].split("\n")
        if len(lines) > 1 and lines[0].endswith(": Syntax Error"):
            del lines[0]
        at = f" at line {self.span.line}:{self.span.column}" if self.span else ""
        # Where ksqlDB says nothing of what it expected, its message has an empty line.
        return "\n".join(line.removesuffix(at) for line in lines) or "Syntax error"


class StatementError(EngineError):
    """A statement that parses but cannot be planned or executed."""

    code = "STATEMENT"


class UnsupportedError(StatementError):
    """A part of the language that is parsed and not run."""

    code = "UNSUPPORTED"


class UnknownColumnError(StatementError):
    """A column reference that no source of the query defines."""

    code = "UNKNOWN_COLUMN"


class UnknownSourceError(StatementError):
    """A stream or table that does not exist."""

    code = "UNKNOWN_SOURCE"


class TargetError(StatementError):
    """A topic that is not there, or a stream or table that takes no rows: of ksqlDB's answers a general error."""

    code = "TARGET"


class TypeMismatchError(StatementError):
    """An expression whose operand types do not fit."""

    code = "TYPE"


class FunctionError(StatementError):
    """A function that does not exist, or not for these arguments."""

    code = "FUNCTION"


class PropertyError(StatementError):
    """A property of a WITH clause or of the session that is unknown or has a bad value."""

    code = "PROPERTY"


class FormatError(StatementError):
    """A format that is unknown or cannot hold a schema."""

    code = "FORMAT"


class RegistryError(StatementError):
    """A schema that the schema registry does not have or does not accept."""

    code = "REGISTRY"


class ConnectError(StatementError):
    """A request that Kafka Connect refused with an HTTP status, or did not answer."""

    code = "CONNECT"
    status: int = 500


class RegistryUnavailableError(RegistryError):
    """The schema registry did not answer in time; the statement or record that needed it may be correct."""

    code = "REGISTRY_UNAVAILABLE"


class RegistryMissingError(RegistryError):
    """A statement that needs a schema registry, where none is configured."""

    code = "REGISTRY_MISSING"


class PlanError(EngineError):
    """A plan that does not decode; `path` is the JSON path of the offending value."""

    code = "PLAN"

    def __init__(self, message: str, *, path: str = "$", hint: str | None = None) -> None:
        super().__init__(f"{path}: {message}", hint=hint)
        self.path = path


class NewerPlanError(PlanError):
    """A plan with a step, field, value or version that this release does not know; most likely a newer one wrote it.

    `part` names the unknown part.
    """

    code = "PLAN_NEWER"

    def __init__(self, message: str, *, path: str, part: str, hint: str | None = None) -> None:
        super().__init__(message, path=path, hint=hint)
        self.part = part


class SerdeError(EngineError):
    """A key or value of one record that a format cannot decode or encode."""

    code = "SERDE"


class QueryError(EngineError):
    """A running query that failed; the message names query, operator, topic, partition and offset."""

    code = "QUERY"


class AccessError(QueryError):
    """The broker refuses what the ACLs of the user do not allow."""

    code = "ACCESS"


class KafkaConfigError(QueryError):
    """A property that a client of Kafka refuses; `reason` is its sentence."""

    code = "KAFKA_CONFIG"

    def __init__(self, reason: str) -> None:
        hint = "see the properties of --kafka-config, and the files that they name"
        super().__init__(f"the Kafka configuration is invalid: {reason}", hint=hint)


class CheckpointError(EngineError):
    """A checkpoint that a query cannot resume; the message names both and says what does not match."""

    code = "CHECKPOINT"


class CheckpointInUseError(EngineError):
    """Another process holds the lock of a checkpoint."""

    code = "CHECKPOINT_IN_USE"


class AssertionFailedError(EngineError):
    """An assertion of a script does not hold."""

    code = "ASSERTION"


class InputError(EngineError):
    """A file of records that cannot be read."""

    code = "INPUT"


class UsageError(EngineError):
    """Options of a command that do not go together."""

    code = "USAGE"
