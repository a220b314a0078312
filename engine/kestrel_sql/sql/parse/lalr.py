"""Runs the tables of lark's parser over tokens, with less work for each token than lark's own loop."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import msgspec
from lark import Lark
from lark.grammar import Rule
from lark.parsers.lalr_analysis import Shift

END = "$END"
"""The type of the token behind the last one."""


class Tables(msgspec.Struct, frozen=True):
    """The tables of a grammar for texts of one of its rules.

    Attributes:
        states: by state and type of token or name of rule: Shift and the next state, or Reduce and the rule to reduce.
        builders: what makes one value of those of a rule, by the id of the rule, which is slow to hash; None where a
            rule has one value, which is its own.
        start: the first state.
        end: the last one.
    """

    states: Mapping[int, Mapping[str, tuple[object, Any]]]
    builders: Mapping[int, Callable[[list[Any]], Any] | None]
    start: int
    end: int


def tables_of(grammar: Lark, start: str) -> Tables:
    """The tables for texts of the rule `start`."""
    conf = grammar.parse_interactive(start=start).parser_state.parse_conf
    callbacks: Mapping[Any, Callable[[list[Any]], Any]] = conf.callbacks
    builders = {id(rule): None if _has_the_value_of_its_part(rule) else build for rule, build in callbacks.items()}
    return Tables(conf.states, builders, conf.start_state, conf.end_state)


def _has_the_value_of_its_part(rule: Rule) -> bool:
    # A part whose name begins with `_` may stand for several.
    return bool(
        rule.options.expand1
        and not rule.alias
        and len(rule.expansion) == 1
        and not rule.expansion[0].name.startswith("_")
    )


class Stacks:
    """What was parsed so far: a state for each value, and the first one."""

    def __init__(self, tables: Tables) -> None:
        self._tables = tables
        self._states = [tables.start]
        self._builds = True
        self.values: list[Any] = []

    def feed(self, kind: str, value: object) -> bool:
        """Take a token; False if none of its type may follow, and then the stacks are of no more use."""
        states, values, table, builders = self._states, self.values, self._tables.states, self._tables.builders
        while True:
            action, to = table[states[-1]].get(kind, (None, None))
            if action is None:
                return False
            if action is Shift:
                states.append(to)
                values.append(value)
                return True
            build = builders[id(to)]
            if build is None:
                states.pop()
            else:
                at = len(values) - len(to.expansion)
                parts = values[at:]
                del states[at + 1 :], values[at:]
                values.append(build(parts) if self._builds else None)
            states.append(table[states[-1]][to.origin.name][1])
            if kind == END and states[-1] == self._tables.end:
                return True

    def accepts(self) -> frozenset[str]:
        """The types of tokens that may follow."""
        kinds = filter(str.isupper, self._tables.states[self._states[-1]])
        return frozenset(kind for kind in kinds if self._without_values().feed(kind, None))

    def accepts_after(self, kind: str) -> frozenset[str]:
        """The types of tokens that may follow one that may follow."""
        after = self._without_values()
        after.feed(kind, None)
        return after.accepts()

    def _without_values(self) -> Stacks:
        copy = Stacks(self._tables)
        copy._states, copy._builds, copy.values = self._states[:], False, self.values[:]
        return copy
