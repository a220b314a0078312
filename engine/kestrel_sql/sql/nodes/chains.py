"""Keeps recursive functions flat along chains such as `a + b + c`, which nest to the left and may have many terms."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any, Concatenate, ParamSpec, Protocol, Self, TypeVar, cast


class Chained(Protocol):
    """What may be a link of a chain: a node, or a node with types."""

    def continued(self) -> Self | None:
        """The link that this one continues, None if it is the first or no link."""


N = TypeVar("N", bound=Chained)
P = ParamSpec("P")
T = TypeVar("T")


def chain(end: N) -> Sequence[N]:
    """The links of a chain by its last one, the first one first; the node alone if it ends none."""
    found = [end]
    while (link := found[-1].continued()) is not None:
        found.append(link)
    return found[::-1]


class _Results(threading.local):
    def __init__(self) -> None:
        self.of: dict[int, Any] = {}


def along_chains(function: Callable[Concatenate[N, P], T]) -> Callable[Concatenate[N, P], T]:
    """Decorate a function that recurses into the parts of a node: it is called for the links of a chain in turn.

    What it returns for a link is there when it asks for it as a part of the next one.
    """
    results = _Results()

    def call(node: N, *args: P.args, **kwargs: P.kwargs) -> T:
        known = results.of
        if known and id(node) in known:
            found: T = known.pop(id(node))
            return found
        if node.continued() is None:
            return function(node, *args, **kwargs)
        *inner, last = chain(node)
        try:
            for link in inner:
                known[id(link)] = function(link, *args, **kwargs)
            return function(last, *args, **kwargs)
        finally:
            for link in inner:
                known.pop(id(link), None)

    return cast("Callable[Concatenate[N, P], T]", wraps(function)(call))
