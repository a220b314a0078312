from __future__ import annotations

import pytest

from engine.errors import SerdeError
from engine.formats import windowed
from engine.formats.table import decoder, encoder
from engine.plan.step import WindowInfo, WindowType
from tests.engine.formats.samples import spec

TIME = WindowInfo(WindowType.TUMBLING, size_ms=10)
SESSION = WindowInfo(WindowType.SESSION)


def test_time_keys_carry_their_start() -> None:
    key = spec("KAFKA", "K STRING")
    data = windowed.encoder(encoder(key), TIME)(("a",), (1000, 1010))
    assert data == b"a" + (1000).to_bytes(8, "big")
    assert windowed.decoder(decoder(key), TIME)(data) == (("a",), (1000, 1010))


def test_session_keys_carry_end_then_start() -> None:
    key = spec("KAFKA", "K STRING")
    data = windowed.encoder(encoder(key), SESSION)(("a",), (1, 2))
    assert data == b"a" + (2).to_bytes(8, "big") + (1).to_bytes(8, "big")
    assert windowed.decoder(decoder(key), SESSION)(data) == (("a",), (1, 2))


def test_nulls_and_short_keys() -> None:
    key = spec("KAFKA", "K STRING")
    assert windowed.encoder(encoder(key), TIME)(None, (0, 10)) is None
    assert windowed.decoder(decoder(key), TIME)(None) is None
    with pytest.raises(SerdeError):
        windowed.decoder(decoder(key), SESSION)(b"short")
