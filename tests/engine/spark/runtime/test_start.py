from __future__ import annotations

from typing import Any

import pytest
from pyspark.sql import SparkSession

from kestrel_sql.errors import EngineError
from kestrel_sql.spark.runtime.start import SparkStart, warm


def test_what_hinders_the_session_is_raised_where_it_is_waited_for() -> None:
    def refuse() -> SparkSession:
        raise EngineError("no Java")

    opening = SparkStart(refuse)
    for _ in range(2):
        with pytest.raises(EngineError, match="no Java"):
            opening.session()


def test_a_session_that_is_stopped_meanwhile_is_no_error() -> None:
    class Stopped:
        def __getattr__(self, name: str) -> Any:
            raise RuntimeError("Cannot call methods on a stopped SparkContext.")

    stopped: Any = Stopped()
    warm(stopped)
