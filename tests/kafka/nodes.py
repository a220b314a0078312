"""A Kafka cluster of three nodes for tests: each is a broker and a controller, in a process and a folder of its own."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from confluent_kafka import KafkaException

from kestrel_sql.kafka.broker.broker import HOST, SETTINGS, die_with_parent, free_port, identity, java_command
from kestrel_sql.kafka.client.admin import admin_client
from kestrel_sql.kafka.client.config import KafkaConfig
from kestrel_sql.kafka.connector.jars import broker_jars

NODES = (1, 2, 3)
_REPLICATED = {
    "offsets.topic.replication.factor": "3",
    "transaction.state.log.replication.factor": "3",
    "transaction.state.log.min.isr": "2",
    "min.insync.replicas": "2",
    # A node that is gone is noticed sooner than in production, where this is nine seconds.
    "broker.session.timeout.ms": "4000",
    "broker.heartbeat.interval.ms": "1000",
}
_WAIT_S = 120


@dataclass(slots=True)
class Nodes:
    """The nodes by number, which may be killed and come back with their data."""

    folder: Path
    ports: Mapping[int, int] = field(default_factory=lambda: {node: free_port() for node in NODES})
    controllers: Mapping[int, int] = field(default_factory=lambda: {node: free_port() for node in NODES})
    processes: dict[int, subprocess.Popen[bytes]] = field(default_factory=dict)

    @property
    def servers(self) -> str:
        return ",".join(f"{HOST}:{port}" for port in self.ports.values())

    def start(self, node: int) -> None:
        with (self.folder / f"node{node}.log").open("ab") as log:
            self.processes[node] = subprocess.Popen(
                [*java_command(broker_jars()), "kafka.Kafka", str(self._settings(node))],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                preexec_fn=die_with_parent,
                process_group=0,
            )

    def kill(self, node: int) -> None:
        self.processes[node].kill()
        self.processes[node].wait()

    def leader(self, topic: str, partition: int = 0) -> int:
        """The number of the node that leads a partition; it may be gone."""
        found = admin_client(KafkaConfig(servers=self.servers)).list_topics(topic, timeout=30)
        return int(found.topics[topic].partitions[partition].leader)

    def await_leader(self, topic: str, other_than: int) -> int:
        """Wait until another node leads the first partition of a topic."""
        deadline = time.monotonic() + _WAIT_S
        while (found := self.leader(topic)) in (other_than, -1):
            assert time.monotonic() < deadline, f"nobody leads {topic} in place of node {other_than}"
            time.sleep(0.2)
        return found

    def await_replicas(self, topic: str) -> None:
        """Wait until all nodes have all records of a topic."""
        deadline = time.monotonic() + _WAIT_S
        while not self._is_replicated(topic):
            assert time.monotonic() < deadline, f"not all nodes have {topic}"
            time.sleep(0.2)

    def _is_replicated(self, topic: str) -> bool:
        with suppress(KafkaException):
            found = admin_client(KafkaConfig(servers=self.servers)).list_topics(topic, timeout=10)
            partitions = found.topics[topic].partitions.values()
            return all(len(partition.isrs) == len(NODES) for partition in partitions)
        return False

    def format(self) -> None:
        """Give the folders of all nodes the identity of one cluster."""
        cluster = identity()
        voters = ",".join(f"{node}@{HOST}:{port}:{identity()}" for node, port in self.controllers.items())
        words = ["format", "-t", cluster, "--initial-controllers", voters]
        for node in NODES:
            command = [*java_command(broker_jars()), "kafka.tools.StorageTool", *words, "-c", str(self._settings(node))]
            subprocess.run(command, check=True, capture_output=True)

    def await_all(self) -> None:
        deadline = time.monotonic() + _WAIT_S
        while not self._are_up():
            assert time.monotonic() < deadline, f"not all nodes have come up: see {self.folder}"
            time.sleep(0.2)

    def _are_up(self) -> bool:
        with suppress(KafkaException):
            client = admin_client(KafkaConfig(servers=self.servers))
            return len(client.list_topics(timeout=5).brokers) == len(NODES)
        return False

    def _settings(self, node: int) -> Path:
        listeners = f"PLAINTEXT://{HOST}:{self.ports[node]},CONTROLLER://{HOST}:{self.controllers[node]}"
        settings = {
            **SETTINGS,
            **_REPLICATED,
            "node.id": str(node),
            "listeners": listeners,
            "advertised.listeners": listeners,
            "controller.quorum.bootstrap.servers": ",".join(f"{HOST}:{port}" for port in self.controllers.values()),
            "log.dirs": str(self.folder / f"log{node}"),
        }
        path = self.folder / f"node{node}.properties"
        path.write_text("".join(f"{name}={value}\n" for name, value in settings.items()), encoding="utf-8")
        return path


@contextmanager
def three_nodes(folder: Path) -> Iterator[Nodes]:
    """Run a cluster until the end of the block."""
    folder.mkdir(parents=True)
    nodes = Nodes(folder)
    nodes.format()
    with ExitStack() as stack:
        for node in NODES:
            nodes.start(node)
            stack.callback(nodes.kill, node)
        nodes.await_all()
        yield nodes
