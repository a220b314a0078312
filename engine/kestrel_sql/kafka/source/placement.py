"""Whether the records of a topic are in the partitions of their keys, where Java's default partitioner puts them.

Only then does a partition of a sink get what one partition of the source gives, in order. librdkafka, with which most
producers outside of Java write, has another partitioner by default.
"""

from __future__ import annotations

from kestrel_sql.kafka.client.consume import last_records
from kestrel_sql.kafka.client.offsets import BrokerOffsets
from kestrel_sql.topics.partitioner import partition_of

_LOOKED_AT = 100
"""How many records of a partition are looked at, the last ones."""

_TAILS = (0, 8, 16)
"""The lengths in bytes of a window at the end of a key, which does not count for its partition."""


def is_placed_by_key(offsets: BrokerOffsets, topic: str, partitions: int) -> bool:
    """Whether the last records of each partition of a topic have keys of this partition, or none.

    Raises:
        EngineError: the broker does not answer.
    """
    positions = [(topic, number) for number in range(partitions)]
    if partitions == 1 or offsets.first(positions) == offsets.ends(positions):
        return True
    keys = [(record.key, record.partition) for record in last_records(offsets.config, topic, _LOOKED_AT) if record.key]
    return any(
        all(partition_of(key[: len(key) - tail], partitions) == partition for key, partition in keys) for tail in _TAILS
    )
