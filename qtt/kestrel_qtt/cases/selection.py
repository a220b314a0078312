"""Choose cases: by an expression over names, every n-th of each file, and by shards."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TypeAlias

import msgspec

from kestrel_qtt.cases.model import Case

Predicate: TypeAlias = "Callable[[str], bool]"

_TOKEN = re.compile(r"\s*(\(|\)|\"[^\"]*\"|'[^']*'|[^\s()]+)")


class SelectionError(ValueError):
    """An expression or shard that cannot be read."""


class NoCaseError(SelectionError):
    """Nothing is selected."""


class EmptyShardError(NoCaseError):
    """Cases are selected, but none is in this shard."""


def parse_expression(text: str) -> Predicate:
    """Read an expression of parts of names, `and`, `or`, `not` and parentheses; names are compared without case.

    Raises:
        SelectionError: the expression is not complete.
    """
    tokens = _TOKEN.findall(text)
    predicate, rest = _or(tokens)
    if rest:
        raise SelectionError(f"unexpected {rest[0]!r} in the expression {text!r}")
    return predicate


def _or(tokens: Sequence[str]) -> tuple[Predicate, Sequence[str]]:
    left, tokens = _and(tokens)
    if tokens and tokens[0] == "or":
        right, tokens = _or(tokens[1:])
        return (lambda name: left(name) or right(name)), tokens
    return left, tokens


def _and(tokens: Sequence[str]) -> tuple[Predicate, Sequence[str]]:
    left, tokens = _not(tokens)
    if tokens and tokens[0] == "and":
        right, tokens = _and(tokens[1:])
        return (lambda name: left(name) and right(name)), tokens
    return left, tokens


def _not(tokens: Sequence[str]) -> tuple[Predicate, Sequence[str]]:
    if not tokens:
        raise SelectionError("the expression is incomplete")
    head, rest = tokens[0], tokens[1:]
    if head == "not":
        inner, rest = _not(rest)
        return (lambda name: not inner(name)), rest
    if head == "(":
        inner, rest = _or(rest)
        if not rest or rest[0] != ")":
            raise SelectionError("a closing parenthesis is missing in the expression")
        return inner, rest[1:]
    if head in (")", "and", "or"):
        raise SelectionError(f"expected a name before {head!r} in the expression")
    part = head.strip("\"'").lower()
    return (lambda name: part in name), rest


def matches(predicate: Predicate, case: Case) -> bool:
    """Say whether the id or the name of `case` satisfies the expression."""
    return predicate(f"{case.id}\n{case.name}".lower())


def parse_shard(text: str) -> tuple[int, int]:
    """Read `i/n` with 1 <= i <= n; raise SelectionError."""
    found = re.fullmatch(r"(\d+)/(\d+)", text)
    if not found or not 1 <= int(found[1]) <= int(found[2]):
        raise SelectionError(f"expected a shard i/n with i from 1 to n, got {text!r}")
    return int(found[1]), int(found[2])


def every_of_each_file(cases: Iterable[Case], step: int) -> list[Case]:
    """Every `step`-th case of each file, the first among them: a share in which no file is missing."""
    seen: Counter[Path] = Counter()
    chosen = []
    for case in cases:
        if seen[case.file] % step == 0:
            chosen.append(case)
        seen[case.file] += 1
    return chosen


class Selection(msgspec.Struct, frozen=True):
    """Which cases are wanted.

    Those that satisfy the expression, of these every n-th of each file, and of these a shard.
    """

    expression: str | None = None
    shard: str | None = None
    every: int = 1

    def of(self, cases: Iterable[Case]) -> list[Case]:
        """Choose among the cases.

        Raises:
            EmptyShardError: all chosen cases are in other shards.
            SelectionError: the expression or the shard cannot be read.
        """
        chosen = list(cases)
        if self.expression:
            predicate = parse_expression(self.expression)
            chosen = [case for case in chosen if matches(predicate, case)]
        chosen = every_of_each_file(chosen, self.every)
        if not self.shard:
            return chosen
        index, count = parse_shard(self.shard)
        mine = chosen[index - 1 :: count]
        if chosen and not mine:
            raise EmptyShardError(f"the shard {self.shard} has none of the {len(chosen)} selected cases")
        return mine
