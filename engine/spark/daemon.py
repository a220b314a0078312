"""The process that Spark forks its Python workers from: everything heavy is imported here, once.

Named by `spark.python.daemon.module`. A worker forked from Spark's own daemon imports pandas, pyarrow and the engine anew, which
costs more than all the rows of a test.
"""

from __future__ import annotations

import pandas  # noqa: F401
import pyarrow.compute  # noqa: F401
import pyspark.sql.streaming.stateful_processor_util  # noqa: F401
import pyspark.worker  # noqa: F401
from pyspark.daemon import manager

import engine.spark.host  # noqa: F401
import engine.spark.wire  # noqa: F401

if __name__ == "__main__":
    manager()
