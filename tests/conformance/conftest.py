"""The driver that all shards of a process share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from kestrel_qtt.drivers.driver import Driver
from kestrel_qtt.drivers.open import open_driver


@pytest.fixture(scope="session")
def spark_driver() -> Iterator[Driver]:
    """Our own engine, opened for the first shard."""
    driver = open_driver()
    yield driver
    driver.close()
