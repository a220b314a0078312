"""The clients that a process keeps open from batch to batch: connecting takes longer than a small batch."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from threading import Lock
from typing import Generic, TypeVar

from kestrel_sql.kafka.client.config import KafkaConfig

Client = TypeVar("Client")
Key = TypeVar("Key", bound=Hashable)


class Kept(Generic[Key, Client]):
    """Clients by key, all of one broker, the oldest of them closed if there are too many.

    To keep a client of another broker closes all. A process of Spark may outlive a broker, and librdkafka's threads
    never cease to look for one that is gone.
    """

    def __init__(self, most: int) -> None:
        """Keep so many clients at most."""
        self._most = most
        self._config: KafkaConfig | None = None
        self._clients: dict[Key, Client] = {}
        # Each query of a run asks in a thread of its own.
        self._lock = Lock()

    def __iter__(self) -> Iterator[Key]:
        """Iterate over the keys of the clients, the oldest first."""
        return iter([*self._clients])

    def get(self, config: KafkaConfig, key: Key, make: Callable[[], Client]) -> Client:
        """Return the client of a broker with this key, made now if there is none."""
        with self._lock:
            found = self._clients.get(key) if config == self._config else None
        if found is None:
            found = make()
        self.keep(config, key, found)
        return found

    def take(self, config: KafkaConfig, key: Key) -> Client | None:
        """Return the client of a broker, which is no longer kept: it is closed when nothing refers to it."""
        with self._lock:
            return self._clients.pop(key, None) if config == self._config else None

    def keep(self, config: KafkaConfig, key: Key, client: Client) -> None:
        """Keep a client of a broker as the youngest."""
        with self._lock:
            if config != self._config:
                self._clients.clear()
                self._config = config
            self._clients.pop(key, None)
            self._clients[key] = client
            while len(self._clients) > self._most:
                del self._clients[next(iter(self._clients))]
