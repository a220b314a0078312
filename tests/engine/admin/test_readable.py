from __future__ import annotations

import pytest

from kestrel_sql.admin.readable import readable
from kestrel_sql.types.sql_types import BIGINT, DATE, STRING, TIME, TIMESTAMP, Array, Field, Map, Struct


@pytest.mark.rules("R2.1")
def test_times_become_strings_in_nested_values_too() -> None:
    assert readable(10, DATE) == "1970-01-11"
    assert readable(1000, TIMESTAMP) == "1970-01-01T00:00:01.000"
    assert readable(1000, TIME) == "00:00:01"
    assert readable(None, TIME) is None
    assert readable(10, BIGINT) == 10
    assert readable([0, None], Array(DATE)) == ["1970-01-01", None]
    assert readable({"a": 0}, Map(STRING, DATE)) == {"a": "1970-01-01"}
    assert readable({"X": 0, "Y": 5}, Struct((Field("X", DATE), Field("Y", BIGINT)))) == {"X": "1970-01-01", "Y": 5}
