from __future__ import annotations

import pytest
from pyspark.sql import SparkSession

from engine.errors import EngineError
from engine.kafka.opening import Opening


def test_what_hinders_the_session_is_raised_where_it_is_waited_for() -> None:
    def refuse() -> SparkSession:
        raise EngineError("no Java")

    opening = Opening(refuse)
    for _ in range(2):
        with pytest.raises(EngineError, match="no Java"):
            opening.session()
