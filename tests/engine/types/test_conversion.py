from __future__ import annotations

import pytest

from kestrel_sql.types.conversion import can_cast, can_implicitly_cast, wider_number
from kestrel_sql.types.sql_types import (
    BIGINT,
    BOOLEAN,
    BYTES,
    DATE,
    DOUBLE,
    INTEGER,
    STRING,
    TIME,
    TIMESTAMP,
    Array,
    Decimal,
    Field,
    Map,
    Struct,
)


@pytest.mark.rules("L4.6.12")
@pytest.mark.parametrize(
    ("source", "target", "possible"),
    [
        (INTEGER, INTEGER, True),
        (INTEGER, Decimal(4, 1), True),
        (Decimal(4, 1), INTEGER, True),
        (Decimal(4, 1), Decimal(3, 1), True),
        (BOOLEAN, STRING, True),
        (BOOLEAN, INTEGER, False),
        (STRING, BYTES, True),
        (BYTES, STRING, False),
        (TIMESTAMP, DATE, True),
        (DATE, TIME, False),
        (TIME, STRING, True),
        (Array(INTEGER), Array(STRING), True),
        (Array(INTEGER), STRING, True),
        (STRING, Array(INTEGER), False),
        (Map(STRING, INTEGER), Map(STRING, BOOLEAN), False),
        (Struct((Field("A", INTEGER),)), Struct((Field("A", STRING), Field("B", DATE))), True),
        (Struct((Field("A", BOOLEAN),)), Struct((Field("A", DATE),)), False),
    ],
)
def test_casts(source, target, possible):
    assert can_cast(source, target) is possible


@pytest.mark.parametrize(
    ("source", "target", "possible"),
    [
        (INTEGER, BIGINT, True),
        (BIGINT, INTEGER, False),
        (BIGINT, Decimal(19, 0), True),
        (Decimal(5, 2), DOUBLE, True),
        (Decimal(5, 2), Decimal(5, 3), False),
        (Decimal(5, 2), Decimal(6, 3), True),
        (STRING, TIMESTAMP, True),
        (STRING, INTEGER, False),
    ],
)
def test_implicit_casts(source, target, possible):
    assert can_implicitly_cast(source, target) is possible


def test_the_wider_number():
    assert wider_number(INTEGER, BIGINT) == BIGINT
    assert wider_number(BIGINT, Decimal(5, 2)) == Decimal(21, 2)
    assert wider_number(Decimal(5, 2), Decimal(4, 3)) == Decimal(6, 3)
    assert wider_number(Decimal(5, 2), DOUBLE) == DOUBLE
