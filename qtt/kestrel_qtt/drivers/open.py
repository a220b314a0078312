"""Open a driver by what it runs cases on. Drivers are imported here on first use: they bring Spark along."""

from __future__ import annotations

import os

from kestrel_qtt.drivers.driver import PlanningDriver
from kestrel_qtt.drivers.warm.lease import COLD_VARIABLE


def run_cold() -> None:
    """Have this process start a Spark of its own, and leave none to others; called before a driver runs anything."""
    os.environ[COLD_VARIABLE] = "1"


def open_driver() -> PlanningDriver:
    """Open the driver that runs cases over topics in memory; Spark starts with the first case."""
    from kestrel_qtt.drivers.full import FullDriver

    return FullDriver()


def open_kafka_driver(servers: str) -> PlanningDriver:
    """Open the driver that runs cases on the broker at HOST:PORT.

    Raises:
        DriverError: the broker does not answer, or Spark cannot be started.
    """
    from kestrel_qtt.drivers.kafka.case_topics import BrokerTopics
    from kestrel_qtt.drivers.records.driver import RecordDriver

    return RecordDriver(BrokerTopics(servers))


def open_server_driver() -> PlanningDriver:
    """Open the driver that runs cases of REST answers over a socket; Spark starts with the first case."""
    from kestrel_qtt.drivers.socket import SocketDriver

    return SocketDriver()
