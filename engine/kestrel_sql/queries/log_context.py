"""What the messages of a moment are about: structured logs show it beside the message."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar

_ABOUT: ContextVar[Mapping[str, object]] = ContextVar("kestrel_about", default={})  # noqa: B039 - never changed in place


@contextmanager
def about(**fields: object) -> Iterator[None]:
    """Give the messages within the block these fields, such as `query` and `batch`; None is left out."""
    token = _ABOUT.set({**_ABOUT.get(), **{name: value for name, value in fields.items() if value is not None}})
    try:
        yield
    finally:
        _ABOUT.reset(token)


def fields_now() -> Mapping[str, object]:
    """The fields of the blocks that this thread is in."""
    return _ABOUT.get()
