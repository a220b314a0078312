"""Finds the queries of a checkpoint folder, to look into their state while no run needs to be there."""

from __future__ import annotations

from kestrel_sql.errors import CheckpointError, did_you_mean
from kestrel_sql.functions.registry import Registry
from kestrel_sql.kafka.run.manifest import MANIFEST, CheckpointFolder
from kestrel_sql.kafka.run.manifest import StoredQuery as ManifestQuery
from kestrel_sql.kafka.run.resume import plan_of
from kestrel_sql.planner.config import Config
from kestrel_sql.spark.state.checkpoint_path import CheckpointPath
from kestrel_sql.spark.state_tools.stored_query import StoredQuery, open_stored


def stored_queries(folder: CheckpointPath, functions: Registry, wanted: str | None = None) -> list[StoredQuery]:
    """Open the queries of a checkpoint that have committed a batch or may do so.

    Args:
        folder: the folder of `--checkpoint`, or Spark's checkpoint of one query.
        functions: the functions of their expressions.
        wanted: the id or the name of the only query to open.

    Raises:
        CheckpointError: there is no checkpoint or no such query, or a file is damaged or of another release.
        EngineError: the manifest cannot be read.
    """
    if (folder / MANIFEST).is_file():
        checkpoint = CheckpointFolder(folder)
        begun = [query for query in checkpoint.load().queries.values() if checkpoint.folder_of(query).is_dir()]
        return [_opened(checkpoint, query, functions) for query in _chosen(folder, begun, wanted)]
    if not (folder / "offsets").is_dir():
        reason = f"has no {MANIFEST}" if folder.is_dir() else "does not exist"
        raise CheckpointError(
            f"there is no checkpoint in {folder}: it {reason}", hint="name the folder of --checkpoint of a run"
        )
    found = open_stored(folder, functions)
    if wanted is not None and wanted != found.id:
        raise _unknown(folder, wanted, [found.id])
    return [found]


def _opened(checkpoint: CheckpointFolder, query: ManifestQuery, functions: Registry) -> StoredQuery:
    return open_stored(
        checkpoint.folder_of(query),
        functions,
        name=query.name,
        query_id=query.id,
        plans=[plan_of(query)],
        settings=Config.of(query.settings),
    )


def _chosen(folder: CheckpointPath, queries: list[ManifestQuery], wanted: str | None) -> list[ManifestQuery]:
    if wanted is None:
        return queries
    chosen = [query for query in queries if wanted.upper() in (query.id.upper(), query.name.upper())]
    if not chosen:
        raise _unknown(folder, wanted, [query.id for query in queries])
    return chosen


def _unknown(folder: CheckpointPath, wanted: str, known: list[str]) -> CheckpointError:
    return CheckpointError(
        f"the checkpoint {folder} has no query {wanted}",
        hint=did_you_mean(wanted.upper(), known) or f"its queries are {', '.join(known) or 'none'}",
    )
