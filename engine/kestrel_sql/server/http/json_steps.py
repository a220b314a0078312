"""Reads JSON in steps of Python, so that other threads go on meanwhile."""

from __future__ import annotations

from json import JSONDecoder
from json.decoder import JSONArray, JSONObject, scanstring  # type: ignore[attr-defined]
from json.scanner import py_make_scanner  # type: ignore[attr-defined]
from typing import Any, NoReturn


def _string(text: str, end: int, strict: bool) -> tuple[str, int]:
    value, end = scanstring(text, end, strict)
    # Half of a surrogate pair is no character.
    value.encode()
    return value, end


def _members(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = {}
    # One call for half a million members takes 0.1 s.
    for name, value in pairs:
        found[name] = value  # noqa: PERF403
    return found


def _refuse_constant(text: str) -> NoReturn:
    raise ValueError(f"{text} is not a JSON number")


_DECODER: Any = JSONDecoder(parse_constant=_refuse_constant, object_pairs_hook=_members)
_DECODER.parse_object, _DECODER.parse_array, _DECODER.parse_string = JSONObject, JSONArray, _string
# That of C, which the decoder has by default, reads the whole text in one call.
_DECODER.scan_once = py_make_scanner(_DECODER)


def read_in_steps(text: bytes | str) -> Any:
    """Read a text that is one JSON value.

    Raises:
        ValueError: it is none, or nests too deep.
    """
    try:
        return _DECODER.decode(text if isinstance(text, str) else text.decode())
    except RecursionError:
        raise ValueError("it nests too deep") from None
