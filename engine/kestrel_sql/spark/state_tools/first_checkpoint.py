"""Writes the checkpoint from which a query begins with a state that it did not compute, as after a first batch."""

from __future__ import annotations

import json
import time
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from uuid import uuid4

import msgspec

from kestrel_sql.operators.operator import Scope, State
from kestrel_sql.operators.state_codec import dump_state
from kestrel_sql.spark.checkpoint.metadata import CheckpointMetadata, write_metadata
from kestrel_sql.spark.pipeline.pipeline import Pipeline
from kestrel_sql.spark.state.checkpoint_path import CheckpointPath, StorePath
from kestrel_sql.spark.state.level import PLAN
from kestrel_sql.spark.state.packing import task_page
from kestrel_sql.spark.state.stored_rows import StoredPage
from kestrel_sql.spark.state_tools.rescale import by_page, write_partitions
from kestrel_sql.spark.state_tools.stored_query import StoredStep

SETTINGS = (
    "spark.sql.streaming.stateStore.providerClass",
    "spark.sql.dropDuplicates.deterministicKeyOrder.enabled",
    "spark.sql.streaming.stateStore.rocksdb.mergeOperatorVersion",
    "spark.sql.streaming.stateStore.rocksdb.formatVersion",
    "spark.sql.streaming.queryEvolution.enableSourceEvolution",
    "spark.sql.streaming.stateStore.encodingFormat",
    "spark.sql.streaming.statefulOperator.useStrictDistribution",
    "spark.sql.streaming.flatMapGroupsWithState.stateFormatVersion",
    "spark.sql.streaming.multipleWatermarkPolicy",
    "spark.sql.streaming.stateStore.rowChecksum.enabled",
    "spark.sql.streaming.statefulOperator.alwaysNullableOutput.enabled",
    "spark.sql.streaming.aggregation.stateFormatVersion",
    "spark.sql.function.protobufExtensions.enabled",
    "spark.sql.shuffle.partitions",
    "spark.sql.streaming.join.stateFormatVersion",
    "spark.sql.streaming.stateStore.compression.codec",
    "spark.sql.optimizer.pruneFiltersCanPruneStreamingSubplan",
)
"""The settings that Spark keeps with each batch; for one that is missing it takes the default of an older release."""

_VERSION = 1
"""The version of a state after its first batch."""

_PROPERTIES = {
    "timeMode": "NoTime",
    "outputMode": "Update",
    "stateVariables": [{"stateName": "page", "stateVariableType": "ValueState", "ttlEnabled": False}],
}

_COLUMNS = {"task": "integer", "page": "integer"}, {"blob": "binary"}
"""The columns of the key and of the value of the only state variable."""


class FirstState(msgspec.Struct, frozen=True, kw_only=True):
    """A query and the state that it is to begin with.

    Attributes:
        pipeline: its pipeline.
        metadata: what its checkpoint says of it.
        states: the state of its operators, by the number of their output and task.
        offsets: the offsets from which it reads, as its source writes them.
        settings: the values of `SETTINGS`.
    """

    pipeline: Pipeline
    metadata: CheckpointMetadata
    states: Mapping[tuple[int, int], State]
    offsets: str
    settings: Mapping[str, str]


def write_first(first: FirstState, target: CheckpointPath) -> None:
    """Write a checkpoint into a folder that does not exist; on a store, it is made on this machine first.

    Raises:
        OSError: the folder or the store cannot be written.
    """
    with TemporaryDirectory(prefix="kestrel-first-") as name:
        local = Path(name) / target.name if isinstance(target, StorePath) else target
        place = str(target) if isinstance(target, StorePath) else f"file:{target.absolute()}"
        local.mkdir(parents=True)
        for level in range(1, first.pipeline.depth):
            # Spark counts from the end of the query.
            _write_level(first, level, local, place, first.pipeline.depth - 1 - level)
        _write(local / "metadata", json.dumps({"id": str(uuid4())}))
        about = {"batchWatermarkMs": 0, "batchTimestampMs": int(time.time() * 1000), "conf": dict(first.settings)}
        _write(local / "offsets" / "0", f"v1\n{json.dumps(about)}\n{first.offsets}")
        _write(local / "commits" / "0", f"v1\n{json.dumps({'nextBatchWatermarkMs': 0})}")
        write_metadata(local, first.metadata)
        if isinstance(target, StorePath):
            target.put(local)


def _write_level(first: FirstState, level: int, local: Path, place: str, operator: int) -> None:
    folder, schema = local / "state" / str(operator), f"_stateSchema/default/0_{uuid4()}"
    partitions = int(first.settings["spark.sql.shuffle.partitions"])
    (folder / schema).parent.mkdir(parents=True)
    (folder / schema).write_bytes(_schema())
    store = {
        "storeName": "default",
        "numColsPrefixKey": 0,
        "numPartitions": partitions,
        "stateSchemaFilePaths": [f"{place}/state/{operator}/{schema}"],
    }
    document = {
        "operatorInfo": {"operatorId": operator, "operatorName": "transformWithStateInPySparkExec"},
        "stateStoreInfo": [store],
        "operatorPropertiesJson": json.dumps(_PROPERTIES, separators=(",", ":")),
    }
    _write(folder / "_metadata" / "v2" / "0", f"v2\n{json.dumps(document, separators=(',', ':'))}")
    write_partitions(folder, _VERSION, _pages(first, level), partitions)


def _pages(first: FirstState, level: int) -> list[StoredPage]:
    """The pages of a level."""
    plans, metadata = first.pipeline.graph.plans, first.metadata
    found: dict[tuple[int, int], State] = defaultdict(dict)
    tasks = max(metadata.tasks)
    for stateful in first.pipeline.level(level).operators:
        step = StoredStep(level, stateful, plans[stateful.query].query_id)
        for (number, task), own in first.states.items():
            if number != stateful.output.number:
                continue
            if stateful.operator.scope is Scope.KEY:
                for page, part in by_page(step, own, metadata.pages).items():
                    found[task, metadata.page(task, page)][step.relation] = part
            else:
                page = task_page(task) if metadata.has_task_pages and tasks > 1 else 0
                found[task, page][step.relation] = own
    fingerprint = first.pipeline.level(level).fingerprint()
    return [StoredPage(task, page, dump_state({PLAN: fingerprint, **state})) for (task, page), state in found.items()]


def _schema() -> bytes:
    """The file in which Spark keeps the schema of a state variable: version, name, key, value and encodings."""
    key, value = (_text(json.dumps(_struct(columns), separators=(",", ":"))) for columns in _COLUMNS)
    encoder = _text('{"keyStateEncoderType":"NoPrefixKeyStateEncoderSpec"}')
    count, number, one = (1).to_bytes(4), bytes(2), (1).to_bytes(4)
    parts = (
        _text("v3"),
        count,
        _text("page"),
        number,
        one,
        key,
        number,
        one,
        value,
        one,
        encoder,
        one,
        _text("{    }"),
    )
    return b"".join(parts)


def _struct(columns: Mapping[str, str]) -> object:
    fields = [{"name": name, "type": kind, "nullable": True, "metadata": {}} for name, kind in columns.items()]
    return {"type": "struct", "fields": fields}


def _text(text: str) -> bytes:
    data = text.encode()
    return len(data).to_bytes(2) + data


def _write(file: Path, text: str) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text, encoding="utf-8")
