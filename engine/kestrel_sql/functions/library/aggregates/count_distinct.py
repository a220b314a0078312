"""COUNT_DISTINCT: exact for small groups, a HyperLogLog estimate in bounded memory for large ones."""

from __future__ import annotations

from collections.abc import Iterable
from hashlib import blake2b
from math import log
from typing import TypedDict

from kestrel_sql.functions.declaration import AggregateCall, Aggregator, aggregate
from kestrel_sql.java.utf16 import encodable
from kestrel_sql.types.sql_types import INTEGER, Array

_REGISTER_BITS = 14
_REGISTERS = 1 << _REGISTER_BITS
_RANK_BITS = 64 - _REGISTER_BITS
_UNIT = _RANK_BITS + 1
_EXACT = 1024
"""The highest number of values for which the state holds their hashes; above it, it holds one byte per register."""


def _canonical_text(value: object) -> str:
    """Return a string that values share which count as equal: ksqlDB goes by Java's text of a value.

    So bytes are equal if they have the same length, and items are not told from their text.
    """
    return repr(encodable(value)) if isinstance(value, str) else encodable(_text(value))


def _text(value: object) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(sorted(f"{_text(key)}={_text(item)}" for key, item in value.items())) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(_text, value)) + "]"
    if isinstance(value, bytes):
        return f"{len(value)} bytes"
    return "null" if value is None else value if isinstance(value, str) else repr(value)


def _hash(value: object) -> int:
    return int.from_bytes(blake2b(_canonical_text(value).encode(), digest_size=8).digest())


def _register_and_rank(hash_: int) -> tuple[int, int]:
    """Return the register of a hash and the position of the first 1 bit in the rest of the hash."""
    return hash_ >> _RANK_BITS, _RANK_BITS - (hash_ & ((1 << _RANK_BITS) - 1)).bit_length() + 1


class _State(TypedDict, total=False):
    hashes: dict[int, None]
    registers: bytes
    zeros: int
    weight: int


def _sketch(hashes: Iterable[int]) -> _State:
    registers = bytearray(_REGISTERS)
    for hash_ in hashes:
        register, rank = _register_and_rank(hash_)
        registers[register] = max(registers[register], rank)
    return _state_of(bytes(registers))


def _state_of(registers: bytes) -> _State:
    """Return the state of registers: also their count of zeros and their sum of 2^-register, as a multiple of 2^-51."""
    return {
        "registers": registers,
        "zeros": registers.count(0),
        "weight": sum(1 << (_UNIT - rank) for rank in registers),
    }


def _include(state: _State, value: object) -> _State:
    if value is None:
        return state
    hash_ = _hash(value)
    hashes = state.get("hashes")
    if hashes is not None:
        hashes[hash_] = None
        return state if len(hashes) <= _EXACT else _sketch(hashes)
    registers = state["registers"]
    register, rank = _register_and_rank(hash_)
    current = registers[register]
    if current >= rank:
        return state
    return {
        "registers": registers[:register] + bytes([rank]) + registers[register + 1 :],
        "zeros": state["zeros"] - (current == 0),
        "weight": state["weight"] - (1 << (_UNIT - current)) + (1 << (_UNIT - rank)),
    }


def _merge(state: _State, other: _State) -> _State:
    if "hashes" in state and "hashes" in other:
        merged = {**state["hashes"], **other["hashes"]}
        return {"hashes": merged} if len(merged) <= _EXACT else _sketch(merged)
    mine, theirs = (current if "registers" in current else _sketch(current["hashes"]) for current in (state, other))
    return _state_of(bytes(map(max, mine["registers"], theirs["registers"])))


def _estimate(state: _State) -> int:
    if "hashes" in state:
        return len(state["hashes"])
    alpha = 0.7213 / (1 + 1.079 / _REGISTERS)
    estimate = alpha * _REGISTERS**2 / (state["weight"] / (1 << _UNIT))
    if estimate <= 2.5 * _REGISTERS and state["zeros"]:
        return round(_REGISTERS * log(_REGISTERS / state["zeros"]))
    return round(estimate)


@aggregate("(value T) -> BIGINT", undoable=False, intermediate=lambda _: Array(INTEGER))
def count_distinct(call: AggregateCall) -> Aggregator:
    """Count the distinct values that are not NULL; above 1024 the count is an estimate (about 1 % error).

    Example: COUNT_DISTINCT(X) over 5, NULL, 5 -> 1
    """
    return Aggregator(initialize=lambda: {"hashes": {}}, aggregate=_include, merge=_merge, result=_estimate)
