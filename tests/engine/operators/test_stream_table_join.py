from __future__ import annotations

from kestrel_sql.operators.joins.stream_table import StreamTableJoin
from kestrel_sql.sql.nodes.statements import JoinType
from tests.engine.operators.row_forms.row_operator import Row
from tests.engine.operators.state_replay import brief, final_state, key_bytes, replay


def join(join_type: JoinType) -> StreamTableJoin:
    return StreamTableJoin(join_type=join_type, key_bytes=key_bytes)


ROWS = [
    Row(0, ("k",), ("early",), 5),
    Row(1, ("k",), ("t", 1), 9),
    Row(0, ("k",), ("met",), 6),
    Row(1, ("k",), None, 7),
    Row(0, ("k",), ("gone",), 8),
    Row(0, None, ("nobody",), 9),
    Row(0, ("k",), None, 10),
    Row(1, None, ("t", 2), 11),
]


def test_inner_emits_matches_with_the_streams_timestamp() -> None:
    assert brief(replay(join(JoinType.INNER), ROWS, (1, 2))) == [
        [],
        [],
        [("k", ("met", "t", 1), 6)],
        [],
        [],
        [],
        [],
        [],
    ]


def test_left_pads_rows_without_a_match() -> None:
    assert brief(replay(join(JoinType.LEFT), ROWS, (1, 2))) == [
        [("k", ("early", None, None), 5)],
        [],
        [("k", ("met", "t", 1), 6)],
        [],
        [("k", ("gone", None, None), 8)],
        [(None, ("nobody", None, None), 9)],
        [],
        [],
    ]


def test_windowed_rows_match_on_their_window() -> None:
    rows = [
        Row(1, ("k",), ("t", 1), 0, window=(0, 5)),
        Row(0, ("k",), ("a",), 1, window=(5, 10)),
        Row(0, ("k",), ("b",), 2, window=(0, 5)),
    ]
    assert brief(replay(join(JoinType.INNER), rows)) == [[], [], [("k", ("b", "t", 1), 2, (0, 5))]]


def test_deleted_table_rows_leave_no_state() -> None:
    assert final_state(join(JoinType.LEFT), ROWS) == {"rows": {}}
