"""One server without Spark and one with it for each module."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from kestrel_sql.server.open import Running
from tests.engine.server.servers import spark_server, sparkless_server


@pytest.fixture(scope="module")
def idle() -> Iterator[Running]:
    """A server whose queries never get anything done."""
    with sparkless_server() as running:
        yield running


@pytest.fixture(scope="module")
def server() -> Iterator[Running]:
    """A server that runs queries."""
    with spark_server() as running:
        yield running
