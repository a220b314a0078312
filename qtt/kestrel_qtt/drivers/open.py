"""Open the drivers. They are imported on first use, because they import Spark."""

from __future__ import annotations

import os

from kestrel_qtt.drivers.driver import PlanningDriver


def run_cold() -> None:
    """Make this process start its own Spark and leave none to later runs; call it before a driver runs anything."""
    from kestrel_qtt.drivers.warm.lease import COLD_VARIABLE

    os.environ[COLD_VARIABLE] = "1"


def end_jvms() -> None:
    """Kill the JVMs that drivers have started; call it when a user has interrupted their work."""
    from kestrel_sql.spark.runtime import interrupted

    interrupted.end_jvms()


def open_driver(carrier: str = "spark") -> PlanningDriver:
    """Open the driver of all forms of cases; those of records run on one of `CARRIERS`.

    Spark starts with the first case.
    """
    from kestrel_qtt.drivers.full import FullDriver

    if carrier == "process":
        from kestrel_qtt.drivers.records.process_topics import ProcessTopics

        return FullDriver(ProcessTopics())
    from kestrel_qtt.drivers.records.memory_topics import MemoryTopics

    return FullDriver(MemoryTopics())


def open_kafka_driver(servers: str) -> PlanningDriver:
    """Open the driver that runs cases on the broker at HOST:PORT.

    Raises:
        DriverError: the broker does not answer, or Spark cannot be started.
    """
    from kestrel_qtt.drivers.kafka.case_topics import BrokerTopics
    from kestrel_qtt.drivers.records.driver import RecordDriver

    return RecordDriver(BrokerTopics(servers))


def open_remote_driver(url: str, servers: str, registry: str | None, at_once: int, *, cached: bool) -> PlanningDriver:
    """Open the driver that runs cases on the server at a URL and its broker, some at a time.

    Raises:
        DriverError: the server, the broker or the schema registry does not answer.
    """
    from kestrel_qtt.drivers.remote.driver import RemoteDriver, RemoteSettings
    from kestrel_sql.formats.registry.remote import open_registry

    schemas = None if registry is None else open_registry(registry, {})
    return RemoteDriver(RemoteSettings(url=url, servers=servers, registry=schemas, at_once=at_once, cached=cached))


def open_server_driver(servers: str | None = None) -> PlanningDriver:
    """Open the driver that runs cases over a socket, in memory or on a broker; Spark starts with the first case."""
    from kestrel_qtt.drivers.socket import SocketDriver

    return SocketDriver(servers)
