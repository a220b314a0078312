"""Checkpoints on a store: which stores there are, and what Spark needs to reach them."""

from __future__ import annotations

from kestrel_sql.kafka.connector.jars import s3_jars
from kestrel_sql.spark.state.checkpoint_path import manager_settings

STORES = ("s3a", "hdfs")
"""The schemes of the stores of `--checkpoint`."""


def store_settings(uri: str) -> dict[str, str]:
    """Return the settings of Spark for a checkpoint on a store, among them `spark.jars` if it needs some.

    Raises:
        EngineError: no repository has the jars.
    """
    jars = {"spark.jars": s3_jars().setting} if uri.startswith("s3a:") else {}
    return {**jars, **manager_settings(uri)}
