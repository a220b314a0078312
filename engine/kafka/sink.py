"""The transactional sink: the records of a micro-batch reach their topics once, whatever dies in between (docs/adr/0016)."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from pyspark.sql import DataFrame

from engine.kafka.config import KafkaConfig
from engine.topics.records import LogEntry


class Delivery(StrEnum):
    """What `--delivery` promises."""

    EXACTLY_ONCE = "exactly-once"
    AT_LEAST_ONCE = "at-least-once"


@dataclass(frozen=True, slots=True, kw_only=True)
class Written:
    """What a batch came to.

    `records` is how many records are now in their topics thanks to this call: a replayed batch that was committed before counts 0.
    `entries` are the rows of the processing log (all of them, in place order), a replayed batch's as well.
    """

    records: int
    entries: tuple[tuple[int, LogEntry], ...]
    """Each with the number of its query, `q`."""


def write_batch(
    frame: DataFrame, batch_id: int, *, query: str, config: KafkaConfig, delivery: Delivery = Delivery.EXACTLY_ONCE, run: int = 0
) -> Written:
    """Write the records of a micro-batch (columns of `WIRE_OUTPUT`) to their topics, to be called from `foreachBatch`.

    The frame is computed once. Records of one topic-partition are written in the order of `place`. `query` names the consumer group and the
    transactional ids, so it must be unique to a checkpoint and stay the same over restarts. `run` counts the starts on that checkpoint:
    a writer of an older run is refused as soon as a newer one has committed.

    Raises:
        QueryError: the broker or a record's size forbids the write; names topic, partition and offset of the source record.
    """
    raise NotImplementedError
