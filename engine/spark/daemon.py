"""The process that Spark forks its Python workers from: everything heavy is imported here, once.

Named by `spark.python.daemon.module`. A worker forked from Spark's own daemon imports pandas, pyarrow and the engine anew, which
costs more than all the rows of a test.
"""

from __future__ import annotations

import gc
import importlib

from pyspark.daemon import manager

PRELOADED = (
    "pandas",
    "pyarrow.compute",
    "pyspark.worker",
    "pyspark.sql.streaming.stateful_processor_util",
    "engine.spark.host",
    "engine.spark.wire",
    "engine.functions.table",
    "engine.kafka.share",
    "engine.kafka.reader",
)

if __name__ == "__main__":
    for module in PRELOADED:
        importlib.import_module(module)
    # What is imported never dies: kept out of collections, its pages stay shared between the workers.
    gc.collect()
    gc.freeze()
    manager()
