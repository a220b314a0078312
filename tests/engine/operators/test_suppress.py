from __future__ import annotations

from typing import Any

import pytest

from kestrel_sql.operators.aggregates.suppress import TableSuppress
from tests.engine.operators.row_forms.row_operator import Row
from tests.engine.operators.state_replay import brief, final_state, key_bytes, replay


def row(key: str, value: Any, timestamp: int, window: tuple[int, int]) -> Row:
    return Row(0, (key,), None if value is None else (value,), timestamp, window=window)


@pytest.mark.rules("P6.5.2")
def test_the_last_result_of_a_window_is_emitted_when_the_window_has_closed() -> None:
    rows = [
        row("b", 1, 2, (0, 10)),
        row("b", 2, 9, (0, 10)),
        row("a", 1, 3, (0, 10)),
        row("b", 1, 14, (10, 20)),
        row("b", 2, 15, (10, 20)),
    ]
    outputs = brief(replay(TableSuppress(key_bytes=key_bytes, grace_ms=5), rows))
    assert outputs == [[], [], [], [], [("a", (1,), 3, (0, 10)), ("b", (2,), 9, (0, 10))]]


def test_sessions_that_were_merged_are_not_emitted() -> None:
    operator = TableSuppress(key_bytes=key_bytes, grace_ms=0)
    rows = [row("a", 1, 2, (2, 2)), row("a", None, 2, (2, 2)), row("a", 2, 4, (2, 4))]
    assert brief(replay(operator, rows))[-1] == [("a", (2,), 4, (2, 4))]
    assert final_state(operator, rows)["rows"] == {}
