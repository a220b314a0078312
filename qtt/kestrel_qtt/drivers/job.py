"""A query of a case with what it is to be run over, and what came of it."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence

import msgspec

from kestrel_qtt.cases import model
from kestrel_sql.dataflow.log_entries import FATAL
from kestrel_sql.dataflow.query_run import QueryRun
from kestrel_sql.dataflow.rows import Output
from kestrel_sql.functions.registry import Registry
from kestrel_sql.plan.step import WindowInfo
from kestrel_sql.topics.records import Record


class Job(msgspec.Struct, kw_only=True):
    """A query to run over records in feed order.

    Afterwards it has an `output`, or an `outcome` that says why there is none.

    `partitions` are those of the topics that it reads, as far as they matter to it; `window` is that of the key that it
    writes. `number` is that of the query in the pipeline of its group.
    """

    run: QueryRun
    functions: Registry
    feed: Sequence[Record]
    partitions: Mapping[str, int] = {}
    depth: int = 0
    window: WindowInfo | None = None
    output: Output | None = None
    outcome: model.Rejected | model.Crashed | None = None
    seconds: float = 0.0
    number: int = 0

    @property
    def shared(self) -> Hashable:
        """Equal for jobs that can be one query of a pipeline, which reads the records of all of them."""
        return id(self)


def failure(output: Output) -> model.Failed | None:
    """Say why a query died, None if it did not."""
    fatal = next((entry for entry in output.log if entry.kind == FATAL), None)
    if fatal is None:
        return None
    return model.Failed(f"{fatal.text} ({fatal.logger}, {fatal.topic}-{fatal.partition} at offset {fatal.offset})")


def crashed(error: BaseException) -> model.Crashed:
    """What an exception means that is none of the engine's refusals: a bug, or a failure of Spark."""
    text = str(error).partition("\n\nJVM stacktrace")[0][:2000]
    return model.Crashed(f"{type(error).__name__}: {text}")
