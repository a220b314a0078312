"""Reads the values of a WITH clause by type."""

from __future__ import annotations

import decimal
from collections.abc import Collection, Mapping

from kestrel_sql.errors import PropertyError, SqlSyntaxError, did_you_mean
from kestrel_sql.java.numbers import parse_long
from kestrel_sql.sql.nodes.statements import Properties, PropertyValue
from kestrel_sql.types.time_units import UNIT_MS

CONNECTOR_KEYS = frozenset({"SOURCE_CONNECTOR", "SOURCED_BY_CONNECTOR"})
WINDOW_KEYS = frozenset({"WINDOW_TYPE", "WINDOW_SIZE"})
COMMON_KEYS = frozenset(
    {
        "KAFKA_TOPIC",
        "PARTITIONS",
        "REPLICAS",
        "RETENTION_MS",
        "CLEANUP_POLICY",
        "FORMAT",
        "KEY_FORMAT",
        "VALUE_FORMAT",
        "KEY_DELIMITER",
        "VALUE_DELIMITER",
        "WRAP_SINGLE_VALUE",
        "TIMESTAMP",
        "TIMESTAMP_FORMAT",
        "KEY_SCHEMA_ID",
        "VALUE_SCHEMA_ID",
        "KEY_SCHEMA_FULL_NAME",
        "VALUE_SCHEMA_FULL_NAME",
        "VALUE_AVRO_SCHEMA_FULL_NAME",
        "KEY_PROTOBUF_NULLABLE_REPRESENTATION",
        "VALUE_PROTOBUF_NULLABLE_REPRESENTATION",
    }
)
SOURCE_KEYS = COMMON_KEYS | WINDOW_KEYS | CONNECTOR_KEYS
SINK_KEYS = COMMON_KEYS | {"HEADERS"}
INSERT_KEYS = frozenset({"QUERY_ID"})


_KEY_HINT = "leave KEY out and mark the column that is the key, as in ID STRING KEY or ID STRING PRIMARY KEY"


class WithClause:
    """The properties of one WITH clause by name; a property that is NULL counts as absent."""

    __slots__ = ("_values",)

    def __init__(self, properties: Properties, known: Collection[str]) -> None:
        """Take the clause of a statement that allows the properties `known`.

        Raises:
            PropertyError: the clause has another property (rules L6).
        """
        self._values: Mapping[str, PropertyValue] = {name.upper(): value for name, value in properties}
        unknown = [name for name in self._values if name not in known]
        if unknown:
            raise PropertyError(
                f"Failed to prepare statement: Invalid config variable(s) in the WITH clause: {','.join(unknown)}",
                hint=_KEY_HINT if unknown == ["KEY"] else did_you_mean(unknown[0], known),
            )

    def __contains__(self, name: str) -> bool:
        return self._values.get(name) is not None

    def text(self, name: str) -> str | None:
        """Return a property that is a string.

        Raises:
            PropertyError: the value is a number or a boolean.
        """
        value = self._values.get(name)
        if value is None or isinstance(value, str):
            return value
        written = str(value).lower() if isinstance(value, bool) else str(value)
        raise PropertyError(
            f"Failed to prepare statement: Invalid value {written} for configuration {name}: "
            f"Expected value to be a string, but it was a {'boolean' if isinstance(value, bool) else 'number'}",
            hint=f"write {name} = '{written}'",
        )

    def integer(self, name: str, bits: int = 32) -> int | None:
        """Return an integer property of at most `bits` bits; a string of digits counts.

        Raises:
            PropertyError: the value is not such an integer.
        """
        value = self._values.get(name)
        if value is None:
            return None
        number = _whole(value)
        if number is None or not -(2 ** (bits - 1)) <= number < 2 ** (bits - 1):
            kind = {16: "SHORT", 32: "INT", 64: "LONG"}[bits]
            raise PropertyError(
                f"Failed to prepare statement: Invalid value {value} for configuration {name}: "
                f"Not a number of type {kind}"
            )
        return number

    def boolean(self, name: str) -> bool | None:
        """Return a boolean property; the strings "true" and "false" count.

        Raises:
            PropertyError: the value is neither true nor false.
        """
        value = self._values.get(name)
        if value is None or isinstance(value, bool):
            return value
        lower = str(value).strip().lower()
        if lower not in ("true", "false"):
            raise PropertyError(
                f"Failed to prepare statement: Invalid value {value} for configuration {name}: "
                "Expected value to be either true or false"
            )
        return lower == "true"

    def choice(self, name: str, choices: Collection[str]) -> str | None:
        """Return the member of `choices`, which are upper case, that the value names in any case.

        Raises:
            PropertyError: the value is none of them.
        """
        value = self.text(name)
        if value is None:
            return None
        if value.upper() not in choices:
            raise PropertyError(
                f"Failed to prepare statement: Invalid value {value} for configuration {name}: "
                f"String must be one of: {', '.join(choices)}"
            )
        return value.upper()


def _whole(value: PropertyValue) -> int | None:
    if isinstance(value, bool | float):
        return None
    if isinstance(value, decimal.Decimal):
        return int(value) if value == value.to_integral_value() else None
    try:
        return parse_long(str(value).strip())
    except ValueError:
        return None


def invalid(name: str, reason: str) -> PropertyError:
    """Make the error for a property whose value has the right type but is invalid."""
    return PropertyError(f"Failed to prepare statement: Configuration {name} is invalid: {reason}")


def parse_duration(text: str) -> int:
    """Parse `'<n> <unit>'` into ms; units are those of the WINDOW clause, singular or plural, in any case.

    Raises:
        ValueError: the text is not a duration; the message says why.
    """
    parts = text.split()
    if len(parts) != 2:
        raise ValueError(
            f"Invalid duration: '{text}'. Expected a number and a time unit. Example valid value: '10 SECONDS'"
        )
    unit = parts[1].upper()
    millis = UNIT_MS.get(unit, UNIT_MS.get(f"{unit}S"))
    if millis is None:
        raise ValueError(f"Invalid duration: '{text}'. Unknown time unit: '{unit}'")
    try:
        number = parse_long(parts[0])
    except ValueError:
        raise ValueError(f"Invalid duration: '{text}'. Not a number: '{parts[0]}'") from None
    if number <= 0:
        raise ValueError(f"Invalid duration: '{text}'. Must be greater than 0")
    return number * millis


def parse_identifier(text: str) -> str:
    """Parse a column name in a property; it becomes upper case unless it has back-ticks or double quotes.

    Raises:
        SqlSyntaxError: the closing quote is missing.
    """
    name = text.strip()
    quote = name[:1]
    if quote not in ("`", '"'):
        return name.upper()
    if len(name) < 2 or name[-1] != quote:
        raise SqlSyntaxError(f"Syntax error in column name: {text}")
    return name[1:-1].replace(quote * 2, quote)


def check_delimiter(name: str, value: str) -> None:
    """Check that a delimiter is a single character, TAB or SPACE.

    Raises:
        PropertyError: it is not, or it is blank.
    """
    if not value.strip():
        raise invalid(
            name,
            "Delimiter cannot be empty, if you meant to have a tab or space for delimiter, "
            "please use the special values 'TAB' or 'SPACE'\nExample valid value: ';'",
        )
    if len(value) != 1 and value not in ("TAB", "SPACE"):
        raise invalid(
            name,
            f"Invalid delimiter value: '{value}'. Delimiter must be a single character or TAB,SPACE\n"
            "Example valid value: ';'",
        )
