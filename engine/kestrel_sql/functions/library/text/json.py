"""Functions of JSON in a STRING; a string that is not JSON is an error unless the function says otherwise."""

from __future__ import annotations

import re
from decimal import Decimal
from functools import lru_cache
from typing import Any

from kestrel_sql.functions.declaration import CallTypes, Nulls, scalar
from kestrel_sql.java import jackson
from kestrel_sql.java.hash_order import java_hash_order
from kestrel_sql.types.sql_types import BIGINT, BOOLEAN, DOUBLE, INTEGER, STRING, SqlType

_INT_LIMITS: dict[SqlType, int] = {INTEGER: 2**31, BIGINT: 2**63}

_MOST_PLACES = 9_999


_PATH_STEP = re.compile(r'\.([\w:@]+)|\[(?:"((?:[^"\\]|\\["\\])*)"|(\w+))\]')
_PATH_ESCAPE = re.compile(r"\\(.)")
_LONGEST_PATH = 10_000


@lru_cache(maxsize=1000)
def path_tokens(path: str) -> tuple[str, ...]:
    """Split a path, `$` with any number of `.name`, `[3]` or `["any name"]`, into its names and indexes.

    Raises:
        ValueError: the path is malformed.
    """
    if not path.startswith("$") or len(path) > _LONGEST_PATH:
        raise ValueError(f"Invalid JSON path: '{path[:100]}'")
    tokens = []
    at = 1
    while at < len(path):
        step = _PATH_STEP.match(path, at)
        if not step:
            raise ValueError(f"Invalid JSON path: '{path[:100]}'")
        name, quoted, plain = step.groups()
        tokens.append(name or plain or _PATH_ESCAPE.sub(r"\1", quoted or ""))
        at = step.end()
    return tuple(tokens)


@scalar("(input STRING, path STRING) -> STRING", display_name="extractjsonfield")
def extractjsonfield(json: str, path: str) -> str | None:
    """Return the value at a path such as `$.orders[0].id`: strings without quotes, other values as JSON.

    The result is NULL if the path leads to nothing. The whole of a blank string, `$`, is an empty string.

    Example: EXTRACTJSONFIELD('{"a": {"b": [10, 2.50]}}', '$.a.b[1]') -> '2.50'
    """
    node = _document(json)
    for token in path_tokens(path):
        node = _step(node, token)
        if node is jackson.MISSING:
            return None
    # ksqlDB takes a blank text for a missing value, whose own text is empty.
    return "" if node is jackson.MISSING else _json_text(node)


def _document(json: str) -> object:
    """Parse JSON that nobody changes: several fields of one document are mostly wanted."""
    return _short_document(json) if len(json) <= _SHORT else jackson.parse_json(json)


_SHORT, _DOCUMENTS = 1_000, 4_096
_short_document = lru_cache(maxsize=_DOCUMENTS)(jackson.parse_json)
"""Holds more documents than a batch has rows."""


def _step(node: object, token: str) -> object:
    if isinstance(node, dict):
        return node.get(token, jackson.MISSING)
    if isinstance(node, list):
        index = int(token) if token.isdecimal() and len(token) <= 10 else -1
        return node[index] if 0 <= index < len(node) else jackson.MISSING
    return jackson.MISSING


def _json_text(node: object) -> str:
    return node if isinstance(node, str) else jackson.write_json(node)


@scalar("(input STRING) -> BOOLEAN", nulls=Nulls.BODY)
def is_json_string(json: str | None) -> bool:
    """Return whether a string is JSON, including JSON scalars; false for NULL.

    Example: IS_JSON_STRING('[1, 2]') -> TRUE
    """
    if json is None:
        return False
    try:
        return jackson.parse_json(json) is not jackson.MISSING
    except (ValueError, RecursionError):
        return False


@scalar("(jsonArray STRING, val T) -> BOOLEAN", nulls=Nulls.BODY, with_types=True)
def json_array_contains(types: CallTypes, json: str | None, wanted: object) -> bool:
    """Return whether a JSON array contains a value of the same kind; false if the string is not a JSON array.

    INT and BIGINT match integers, DOUBLE matches numbers with a point or an exponent.

    Example: JSON_ARRAY_CONTAINS('["a", 1]', 'a') -> TRUE
    """
    if json is None:
        raise ValueError("json must not be NULL")
    start = jackson.skip_whitespace(json, 0)
    if json[start : start + 1] != "[":
        return False
    try:
        return any(_equals(node, wanted, types.arguments[1]) for node in jackson.read_items(json, start))
    except (ValueError, RecursionError):
        return False


def _equals(node: object, wanted: object, sql_type: SqlType | None) -> bool:
    if wanted is None or node is None:
        return node is None and wanted is None
    if isinstance(node, bool) or sql_type == BOOLEAN:
        return isinstance(node, bool) and sql_type == BOOLEAN and node == wanted
    if isinstance(node, int) and sql_type in _INT_LIMITS:
        if not -_INT_LIMITS[sql_type] <= node < _INT_LIMITS[sql_type]:
            raise ValueError("Numeric value out of range")
        return bool(node == wanted)
    if isinstance(node, Decimal):
        return sql_type == DOUBLE and float(node) == wanted
    return isinstance(node, str) and sql_type == STRING and node == wanted


@scalar("(jsonArray STRING) -> INT")
def json_array_length(json: str) -> int | None:
    """Return the number of elements of a JSON array; NULL if the string is not a JSON array.

    Example: JSON_ARRAY_LENGTH('[1, 2, 3]') -> 3
    """
    node = jackson.parse_json(json)
    return len(node) if isinstance(node, list) else None


@scalar("(jsonStrings STRING...) -> STRING", nulls=Nulls.BODY)
def json_concat(*parts: str | None) -> str | None:
    """Merge JSON objects, or concatenate JSON arrays.

    Of equal members the last one wins. Any other JSON value counts as an array of one element. Numbers are written
    without an exponent.

    Example: JSON_CONCAT('{"a": 1}', '{"b": 2, "a": 3}') -> '{"a":3,"b":2}'
    """
    nodes: list[Any] = []
    for part in parts:
        node = jackson.MISSING if part is None else jackson.parse_json(part)
        if node is jackson.MISSING:
            return None
        nodes.append(node)
    if len(nodes) == 1:
        return jackson.write_json(nodes[0], _plain)
    if not nodes:
        raise ValueError("JSON_CONCAT needs an argument")
    if all(isinstance(node, dict) for node in nodes):
        return jackson.write_json({key: value for node in nodes for key, value in node.items()}, _plain)
    return jackson.write_json([item for node in nodes for item in (node if isinstance(node, list) else [node])], _plain)


def _plain(number: int | Decimal) -> str:
    """Write a number without an exponent, as ksqlDB's mapper does, but no node of its own.

    Raises:
        ValueError: the number has too many places for it.
    """
    if isinstance(number, Decimal) and abs(int(number.as_tuple().exponent)) > _MOST_PLACES:
        raise ValueError(f"{number} has more than {_MOST_PLACES} places")
    return f"{number:f}" if isinstance(number, Decimal) else str(number)


@scalar("(jsonItems STRING) -> ARRAY<STRING>")
def json_items(json: str) -> list[str]:
    """Return the elements of a JSON array as JSON strings, with quotes; an error if the string is not a JSON array.

    Example: JSON_ITEMS('[{"a": 1}, "b"]') -> ARRAY['{"a":1}', '"b"']
    """
    node = jackson.parse_json(json)
    if not isinstance(node, list):
        raise ValueError("not a JSON array")
    return [jackson.write_json(item) for item in node]


@scalar("(jsonObj STRING) -> ARRAY<STRING>")
def json_keys(json: str) -> list[str] | None:
    """Return the member names of a JSON object in their order; NULL if the string is not a JSON object.

    Example: JSON_KEYS('{"b": 1, "a": {"c": 2}}') -> ARRAY['b', 'a']
    """
    node = jackson.parse_json(json)
    return list(node) if isinstance(node, dict) else None


@scalar("(jsonObj STRING) -> MAP<STRING, STRING>")
def json_records(json: str) -> dict[str, str] | None:
    """Return the members of a JSON object as a map: strings without quotes, other values as JSON.

    The result is NULL if the string is not a JSON object.

    Example: JSON_RECORDS('{"a": "x", "b": [1]}') -> MAP('a':='x', 'b':='[1]')
    """
    node = jackson.parse_json(json)
    if not isinstance(node, dict):
        return None
    return {key: _json_text(node[key]) for key in java_hash_order(node, len(node))}


@scalar("(input T) -> STRING", nulls=Nulls.BODY, with_types=True)
def to_json_string(types: CallTypes, value: object) -> str:
    """Write any value as JSON: members sorted, dates and times as strings, bytes in base64, NULL as `null`.

    Example: TO_JSON_STRING(STRUCT(b := 1, a := ARRAY['x'])) -> '{"A":["x"],"B":1}'
    """
    return jackson.write_value(value, types.arguments[0])
