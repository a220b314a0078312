from __future__ import annotations

from kestrel_sql.operators.tables.stream_time import StreamTime
from tests.engine.operators.row_forms.row_operator import Row
from tests.engine.operators.state_replay import brief, key_bytes, replay


def test_a_tombstone_gets_the_largest_timestamp_of_all_inputs() -> None:
    rows = [
        Row(0, ("a",), (1,), 5),
        Row(1, None, None, 9),
        Row(0, ("a",), None, 6),
        Row(0, ("b",), (2,), 7),
        Row(2, ("z",), (0,), 8),
        Row(0, ("b",), None, 12),
    ]
    outputs = brief(replay(StreamTime(key_bytes=key_bytes), rows))
    assert outputs == [[("a", (1,), 5)], [], [("a", None, 9)], [("b", (2,), 7)], [], [("b", None, 12)]]
