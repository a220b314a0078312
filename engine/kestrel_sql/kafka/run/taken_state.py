"""Lets a query begin with the state that ksqlDB left: its first checkpoint, and the records of the work in flight."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path

import msgspec
from pyspark.sql import SparkSession

from kestrel_sql.formats.serde import SerdeSpec
from kestrel_sql.formats.windowed_key import window_bytes
from kestrel_sql.kafka.client.config import KafkaConfig
from kestrel_sql.kafka.client.offsets import BrokerOffsets, from_members, to_json, to_members
from kestrel_sql.kafka.run.manifest import StoredQuery
from kestrel_sql.kafka.run.rescaling import sync
from kestrel_sql.kafka.takeover.broker import write_in_flight
from kestrel_sql.kafka.takeover.left import Left
from kestrel_sql.kafka.takeover.take_over import Taken
from kestrel_sql.operators.state_codec import load_state
from kestrel_sql.spark.checkpoint.metadata import CheckpointMetadata
from kestrel_sql.spark.pipeline.pipeline import Pipeline
from kestrel_sql.spark.state.checkpoint_path import CheckpointPath, remove_folder, write_whole
from kestrel_sql.spark.state_tools.first_checkpoint import SETTINGS, FirstState, write_first

_IN_FLIGHT = "in-flight.json"
"""Beside a checkpoint, the offsets behind the work in flight that its state counts."""


class Place(msgspec.Struct, frozen=True, kw_only=True):
    """Where a state goes.

    Attributes:
        folder: the checkpoint of the query, which does not count yet.
        spark: the session that is to read it.
        serde: completes a spec with the schemas of the registry.
    """

    folder: CheckpointPath
    spark: Callable[[], SparkSession]
    serde: Callable[[SerdeSpec], SerdeSpec]


def write_taken(
    config: KafkaConfig, stored: StoredQuery, pipeline: Pipeline, taken: Taken, group: str, place: Place
) -> None:
    """Write the first checkpoint of a query, and then what the work in flight gives.

    The offsets behind that work tell a start after a kill whether it is written, and so whether the checkpoint counts.

    Raises:
        QueryError: the broker does not take the results.
    """
    remove_folder(place.folder)
    conf = place.spark().conf
    found = {name: conf.get(name, None) for name in SETTINGS}
    first = FirstState(
        pipeline=pipeline,
        metadata=CheckpointMetadata.of(
            pipeline,
            stored.pages,
            pipeline.tasks(stored.partitions),
            has_task_pages=stored.has_task_pages,
            pages_by_task=stored.pages_by_task,
        ),
        states={at: load_state(blob) for at, blob in taken.states.items()},
        offsets=to_json(stored.start),
        settings={name: value for name, value in found.items() if value is not None},
    )
    write_first(first, place.folder)
    if taken.drained:
        write_whole(place.folder / _IN_FLIGHT, json.dumps(to_members(taken.drained)))
    if isinstance(place.folder, Path):
        sync(place.folder)
    if taken.drained:
        write_in_flight(config, group, taken.records, taken.drained, _sinks(config, pipeline))


def is_written(folder: CheckpointPath, left: Left) -> bool:
    """Return whether a checkpoint counts work in flight that is written."""
    file = folder / _IN_FLIGHT
    if not file.is_file():
        return False
    behind = from_members(json.loads(file.read_text(encoding="utf-8")))
    return all(position in left.committed and left.committed[position].offset >= at for position, at in behind.items())


def _sinks(config: KafkaConfig, pipeline: Pipeline) -> Mapping[str, tuple[int, int]]:
    topics = BrokerOffsets(config).topics({sink.topic for sink in pipeline.sinks})
    return {sink.topic: (topics[sink.topic].partitions, window_bytes(sink.window)) for sink in pipeline.sinks}
