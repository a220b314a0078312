"""Bulk codecs agree with record codecs: a share of the generated messages of every format."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from kestrel_sql.arrow.types import to_arrow
from kestrel_sql.errors import SerdeError
from kestrel_sql.formats import table
from kestrel_sql.formats.bulk.codec import NotPlainError
from kestrel_sql.formats.table import bulk_decoder
from tests.engine.formats.samples import spec
from tests.fuzz.codecs import FORMATS, decoded, differences

SHARE = 1_500


@pytest.mark.parametrize("format", FORMATS)
def test_bulk_and_record_codecs_agree(format: str) -> None:
    assert differences(format, 1, SHARE) == []


def test_a_difference_is_found() -> None:
    serde = spec("JSON", "A INT")
    bulk = bulk_decoder(serde, [to_arrow(column.type) for column in serde.columns])
    assert bulk is not None

    def wrong(data: Any) -> list[pa.Array]:
        assert bulk is not None
        return [pa.array([None if each.as_py() == 7 else each.as_py() for each in array]) for array in bulk(data)]

    batch = [b'{"A":6}', b'{"A":7}']
    assert decoded(serde, table.decoder(serde), bulk, batch) is None
    assert "in bulk as ['(6,)', '(None,)']" in (decoded(serde, table.decoder(serde), wrong, batch) or "")


def test_a_batch_that_the_bulk_codec_rejects_is_no_difference() -> None:
    def rejects(data: Any) -> list[pa.Array]:
        raise NotPlainError

    serde = spec("JSON", "A INT")
    assert decoded(serde, table.decoder(serde), rejects, [b'{"A":7}']) is None


@pytest.mark.parametrize(
    ("format", "columns", "message", "row"),
    [
        ("JSON", "A INT", b'{"A":1,"other":NaN}', "error"),
        ("JSON", "A INT", b'{"A":1,"other":[' + b"1" * 1001 + b"]}", "error"),
        ("JSON", "`Mixed` INT, MIXED INT", b'{"MIXED":2}', (None, 2)),
        ("JSON", "D DECIMAL(4, 2)", b'{"D":-0.00}', (Decimal("0.00"),)),
        ("DELIMITED", "D DECIMAL(4, 2)", b"-0.00", (Decimal("0.00"),)),
    ],
)
def test_what_once_differed(format: str, columns: str, message: bytes, row: Any) -> None:
    serde = spec(format, columns)
    types = [to_arrow(column.type) for column in serde.columns]
    assert decoded(serde, table.decoder(serde), bulk_decoder(serde, types), [message]) is None
    try:
        read: Any = table.decoder(serde)(message)
    except SerdeError:
        read = "error"
    assert repr(read) == repr(row)
