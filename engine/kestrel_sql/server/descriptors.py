"""Room for files and sockets: a server that has none left says so, in place of waiting for what cannot be opened."""

from __future__ import annotations

import errno
import os

from kestrel_sql.server.errors import NOT_READY, ApiError
from kestrel_sql.systems import most_files

RESERVE = 32
"""How many descriptors must be free before a query starts: what it opens itself, and what running ones need."""

_NONE_LEFT = (errno.EMFILE, errno.ENFILE)


def check_descriptors() -> None:
    """Check that a query can open its files and sockets.

    Raises:
        ApiError: fewer than `RESERVE` descriptors are free.
    """
    limits = most_files()
    if limits is None:
        return
    try:
        free = limits[0] - len(os.listdir("/dev/fd"))
    except OSError as error:
        # To list them takes one.
        free = 0 if error.errno in _NONE_LEFT else RESERVE
    if free < RESERVE:
        raise out_of_descriptors()


def out_of_descriptors() -> ApiError:
    """The answer of a server that cannot open another file or socket."""
    return ApiError(
        NOT_READY,
        "The server has too many files and sockets open.\n"
        "Close push queries and connections, or start it with a higher limit (ulimit -n).",
    )


def is_out_of_descriptors(error: BaseException | None) -> bool:
    """Whether an error, or what it came from, is that no file or socket could be opened."""
    while error is not None:
        if isinstance(error, OSError) and error.errno in _NONE_LEFT:
            return True
        error = error.__cause__ or error.__context__
    return False
