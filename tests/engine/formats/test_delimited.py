from __future__ import annotations

import pytest

from kestrel_sql.errors import SerdeError
from kestrel_sql.formats.table import decoder, encoder
from tests.engine.formats.samples import spec


@pytest.mark.rules("F4.3.5")
@pytest.mark.parametrize(
    ("row", "line"),
    [
        ((-5, "x"), '"-5",x'),
        ((5, "-x"), "5,-x"),
        ((5, "#x"), '5,"#x"'),
        ((5, "x "), '5,"x "'),
        ((5, 'a"b'), '5,"a""b"'),
        ((5, "a,b"), '5,"a,b"'),
        ((5, ""), "5,"),
        ((None, None), ","),
    ],
)
def test_quoting(row: tuple[object, ...], line: str) -> None:
    assert encoder(spec("DELIMITED", "A INT, B STRING"))(row) == line.encode()


def test_an_empty_first_field_is_quoted() -> None:
    assert encoder(spec("DELIMITED", "A STRING, B STRING"))(("", "")) == b'"",'


@pytest.mark.rules("F4.3.1", "F4.3.4")
@pytest.mark.parametrize(
    ("line", "row"),
    [
        ("1,x", (1, "x")),
        ('"1","a""b"', (1, 'a"b')),
        ("\n\n1,x\n2,y", (1, "x")),
        (",", (None, None)),
        ('1,"" ', (1, None)),
    ],
)
def test_lines(line: str, row: tuple[object, ...]) -> None:
    assert decoder(spec("DELIMITED", "A INT, B STRING"))(line.encode()) == row


@pytest.mark.parametrize("line", ["", "\n", "1", "1,2,3", " 1,x", '1,"x', '1,"x"y'])
def test_invalid_records(line: str) -> None:
    with pytest.raises(SerdeError, match="Error deserializing delimited"):
        decoder(spec("DELIMITED", "A INT, B STRING"))(line.encode())


@pytest.mark.parametrize(("delimiter", "character"), [("TAB", "\t"), ("space", " "), (";", ";")])
def test_delimiters(delimiter: str, character: str) -> None:
    made = spec("DELIMITED", "A INT, B INT", delimiter=delimiter)
    assert encoder(made)((1, 2)) == f"1{character}2".encode()
    assert decoder(made)(f"1{character}2".encode()) == (1, 2)
