"""Stored rows of a table take the columns that ALTER … ADD COLUMN gave its source."""

from __future__ import annotations

import pytest

from kestrel_sql.errors import QueryError
from kestrel_sql.operators.state_codec import dump_state
from kestrel_sql.spark.state.level import PLAN, load_page
from kestrel_sql.spark.state.widening import widenings

OLD = "1 Materialise(STRUCT<`k`:STRUCT<`K`:INT>,`v`:STRUCT<`V`:INT,`ROWTIME`:BIGINT>>)"
NEW = "1 Materialise(STRUCT<`k`:STRUCT<`K`:INT>,`v`:STRUCT<`V`:INT,`a b`:STRUCT<`X`:INT>,`ROWTIME`:BIGINT>>)"
STORE = "2 TableStore(STRUCT<`k`:STRUCT<`K`:INT>>)"

pytestmark = pytest.mark.rules("L5.30")


def test_a_stored_row_has_null_for_a_new_column() -> None:
    blob = dump_state({PLAN: [OLD, STORE], "1": {"rows": {b"x": [7, 5]}}, "2": {"rows": {}}})
    assert load_page(blob, [NEW, STORE])["1"] == {"rows": {b"x": [7, None, 5]}}


@pytest.mark.parametrize(
    "needed",
    [
        [NEW],
        [STORE, NEW],
        [NEW.replace("1 M", "3 M"), STORE],
        [NEW.replace("`K`:INT", "`K`:BIGINT"), STORE],
        [NEW.replace("`V`:INT", "`V`:BIGINT"), STORE],
        [NEW.replace("Materialise", "TableJoin"), STORE],
        [NEW, STORE.replace("INT", "BIGINT")],
    ],
)
def test_another_plan_does_not_take_the_state(needed: list[str]) -> None:
    assert widenings([OLD, STORE], needed) is None
    with pytest.raises(QueryError, match="another plan wrote the checkpoint"):
        load_page(dump_state({PLAN: [OLD, STORE]}), needed)


def test_columns_are_never_dropped() -> None:
    assert widenings([NEW], [OLD]) is None


@pytest.mark.parametrize("state", [{"rows": {b"x": [7]}}, {"rows": {b"x": 7}}, {"rows": 7}, 7])
def test_a_damaged_state_is_refused(state: object) -> None:
    with pytest.raises(QueryError, match="damaged"):
        load_page(dump_state({PLAN: [OLD], "1": state}), [NEW])
