from __future__ import annotations

from decimal import Decimal as Number

from kestrel_sql.formats.registry.memory import NO_SCHEMAS, RegistryView
from kestrel_sql.formats.serde import SerdeSpec, Side
from kestrel_sql.formats.table import FORMATS
from kestrel_sql.plan.step import FormatInfo, SerdeFeature
from kestrel_sql.sql.parse.parser import parse_columns

UNWRAP = frozenset({SerdeFeature.UNWRAP_SINGLES})

FLAT = "B BOOLEAN, I INT, L BIGINT, D DOUBLE, S STRING, Y BYTES, N DECIMAL(5, 2), T TIME, DA DATE, TS TIMESTAMP"
NESTED = FLAT + (
    ", A ARRAY<STRING>, M MAP<STRING, BIGINT>, R STRUCT<X INT, Y ARRAY<DECIMAL(4, 1)>, Z STRUCT<Q "
    "DOUBLE>>, RS ARRAY<STRUCT<P INT>>"
)

FLAT_ROW = (
    True,
    -7,
    2**40,
    1.0e10,
    'naïve, "quoted"',
    b"\x00\xff",
    Number("-12.30"),
    3_600_001,
    18_000,
    1_700_000_000_123,
)
NESTED_ROW = (
    *FLAT_ROW,
    ["p", "q"],
    {"k": 1, "j": 2},
    {"X": 3, "Y": [Number("1.5")], "Z": {"Q": 0.25}},
    [{"P": 1}, {"P": 2}],
)

SAMPLES = {NESTED: NESTED_ROW, FLAT: FLAT_ROW, "V BIGINT": (5,), "V STRING": ("naïve",), "": ()}

SCHEMAS = {
    name: next(each for each in SAMPLES if found.check(parse_columns(each) if each else ()) is None)
    for name, found in FORMATS.items()
}
"""For each format the columns of the first sample that fits it."""

ROWS = {name: SAMPLES[columns] for name, columns in SCHEMAS.items()}


def spec(
    format: str,
    columns: str,
    *,
    unwrapped: bool = False,
    side: Side = Side.VALUE,
    schemas: RegistryView = NO_SCHEMAS,
    **properties: str,
) -> SerdeSpec:
    parsed = parse_columns(columns) if columns else ()
    # The planner gives every PROTOBUF serde this property.
    always = {"unwrapPrimitives": "true"} if format == "PROTOBUF" else {}
    info = FormatInfo(format, tuple({**always, **properties}.items()))
    return SerdeSpec(info, parsed, UNWRAP if unwrapped else frozenset(), side, "topic", schemas)
