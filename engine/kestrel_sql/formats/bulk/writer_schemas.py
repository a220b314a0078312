"""Shared by the bulk decoders with schemas: one reader per schema of a batch, and the fields of columns."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

import numpy as np
import pyarrow as pa

from kestrel_sql.errors import EngineError, RegistryError
from kestrel_sql.formats.bulk import varints as n
from kestrel_sql.formats.bulk.codec import NotPlainError, require
from kestrel_sql.formats.connect import read as connect_read
from kestrel_sql.formats.connect.schema import ConnectSchema
from kestrel_sql.formats.registered.framing import resolve, split_frame
from kestrel_sql.formats.registered.languages import LANGUAGES, Selector
from kestrel_sql.formats.registry.memory import RegisteredSchema
from kestrel_sql.formats.serde import BulkDecoder, SerdeSpec
from kestrel_sql.types.schema import Column

_MAX_SCHEMAS = 8
"""The maximal number of schemas in a batch for which one pass each pays off."""


Reader = Callable[[pa.BinaryArray, bytes], list[pa.Array]]
"""Reads records that were written with one schema, which all start with some bytes, to an array per column."""


class NamedField(Protocol):
    """A field of a schema."""

    @property
    def name(self) -> str:
        """Its name."""

    @property
    def schema(self) -> ConnectSchema:
        """Its Connect form."""


def framed_decoder(
    spec: SerdeSpec, language: str, open_reader: Callable[[RegisteredSchema, Selector], Reader | None]
) -> BulkDecoder:
    """Return a decoder that reads each record with the reader of its schema.

    `open_reader` returns None for a schema that is not plain.
    """
    readers: dict[bytes, Reader | None] = {}
    read_selector = LANGUAGES[language].read_selector

    def decode(data: pa.BinaryArray) -> list[pa.Array]:
        first = data[0].as_py()
        try:
            schema_id, rest = split_frame(first)
            selector, body = read_selector(rest)
            header = first[: len(first) - len(body)]
            if header not in readers:
                readers[header] = open_reader(resolve(spec, schema_id), selector)
        except RegistryError:
            raise
        except (ValueError, EngineError):
            raise NotPlainError from None
        reader = readers[header]
        if reader is None:
            raise NotPlainError
        return reader(data, header)

    return _by_schema(decode)


def _by_schema(decode: BulkDecoder) -> BulkDecoder:
    """Apply `decode` to the records of each schema id, and restore the order of the rows.

    A batch holds several schema ids while producers change to a new version.
    """

    def decode_all(data: pa.BinaryArray) -> list[pa.Array]:
        cursor = n.open_records(data)
        n.skip_header(cursor, b"\x00")
        ids = n.read_fixed(cursor, ">u4")
        if (ids == ids[0]).all():
            return decode(data)
        schema_ids, schema_of = np.unique(ids, return_inverse=True)
        require(len(schema_ids) <= _MAX_SCHEMAS)
        parts = [decode(data.take(pa.array(np.nonzero(schema_of == at)[0]))) for at in range(len(schema_ids))]
        # The position of each record after the records have been grouped by schema.
        back = pa.array(np.argsort(np.argsort(schema_of, kind="stable")))
        return [pa.concat_arrays(columns).take(back) for columns in zip(*parts, strict=True)]

    return decode_all


def find_fields(columns: Sequence[Column], fields: Sequence[NamedField]) -> dict[int, int] | None:
    """Return the index of the field for each column, by the column's index; None if a value needs a conversion.

    A field matches the column with its name, else the one with its name in upper case (rules F4).
    """
    index = {column.name: at for at, column in enumerate(columns)}
    positions: dict[int, int] = {}
    for position, field in enumerate(fields):
        at = index.get(field.name, index.get(field.name.upper()))
        if at is not None:
            positions[at] = position
    try:
        converted = any(
            connect_read.converter(fields[position].schema, columns[at].type, "") for at, position in positions.items()
        )
    except connect_read.MismatchError:
        return None
    return None if converted else positions


def as_columns(
    count: int,
    types: Sequence[pa.DataType],
    fields: Sequence[pa.Array],
    positions: Mapping[int, int],
    cast: Callable[[pa.Array, pa.DataType], pa.Array],
) -> list[pa.Array]:
    """Return the arrays of the columns; a column without a field is NULL in all `count` rows."""
    return [
        cast(fields[positions[at]], kind) if at in positions else pa.nulls(count, kind) for at, kind in enumerate(types)
    ]
