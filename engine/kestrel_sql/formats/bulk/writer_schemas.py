"""What the bulk readers of the schema languages share: a reader for each schema of a batch, and fields found for columns."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

import numpy as np
import pyarrow as pa

from kestrel_sql.errors import EngineError, RegistryError
from kestrel_sql.formats.bulk import varints as n
from kestrel_sql.formats.bulk.codec import BulkDecoder, NotPlainError, require
from kestrel_sql.formats.connect import read as connect_read
from kestrel_sql.formats.connect.schema import ConnectSchema
from kestrel_sql.formats.registered.framing import resolve, split_frame
from kestrel_sql.formats.registered.languages import LANGUAGES, Selector
from kestrel_sql.formats.registry.memory import RegisteredSchema
from kestrel_sql.formats.serde import SerdeSpec
from kestrel_sql.types.sql_types import SqlType

_MAX_SCHEMAS = 8
"""How many schemas are worth a pass of their own."""


class Reader(Protocol):
    """Reads records that were written with one schema."""

    def read(self, data: pa.BinaryArray, header: bytes) -> list[pa.Array]:
        """Give an array per column of the records, which must all begin with `header`."""
        ...


def framed_decoder(
    spec: SerdeSpec, language: str, open_reader: Callable[[RegisteredSchema, Selector], Reader | None]
) -> BulkDecoder:
    """Read framed records, each with the reader of its schema; `open_reader` gives None for a schema that is not plain."""
    readers: dict[bytes, Reader | None] = {}
    locate = LANGUAGES[language].locate

    def decode(data: pa.BinaryArray) -> list[pa.Array]:
        first = data[0].as_py()
        try:
            schema_id, rest = split_frame(first)
            selector, body = locate(rest)
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
        return reader.read(data, header)

    return _by_schema(decode)


def _by_schema(decode: BulkDecoder) -> BulkDecoder:
    """Let `decode` read the records of each schema id in turn, and put the rows back into their order.

    A batch holds several while producers change to a new version.
    """

    def decode_all(data: pa.BinaryArray) -> list[pa.Array]:
        cursor = n.open_records(data)
        n.skip_header(cursor, b"\x00")
        ids = n.read_fixed(cursor, ">u4")
        if (ids == ids[0]).all():
            return decode(data)
        known, schema_of = np.unique(ids, return_inverse=True)
        require(len(known) <= _MAX_SCHEMAS)
        parts = [decode(data.take(pa.array(np.nonzero(schema_of == at)[0]))) for at in range(len(known))]
        # Where each record stands once those of the first schema come first, then those of the second.
        back = pa.array(np.argsort(np.argsort(schema_of, kind="stable")))
        return [pa.concat_arrays(columns).take(back) for columns in zip(*parts, strict=True)]

    return decode_all


def find_fields(
    names: Sequence[str], types: Sequence[SqlType], fields: Sequence[tuple[str, ConnectSchema]]
) -> dict[int, int] | None:
    """The place of the field that holds each column, by the column's place; None if a value would have to be converted.

    A field belongs to the column of its name, else to that of its name in upper case (rules F4).
    """
    index = {column: at for at, column in enumerate(names)}
    found: dict[int, int] = {}
    for position, (name, _) in enumerate(fields):
        at = index.get(name, index.get(name.upper()))
        if at is not None:
            found[at] = position
    try:
        converted = any(connect_read.converter(fields[position][1], types[at], "") for at, position in found.items())
    except connect_read.MismatchError:
        return None
    return None if converted else found


def as_columns(
    count: int,
    types: Sequence[pa.DataType],
    fields: Sequence[pa.Array],
    found: Mapping[int, int],
    cast: Callable[[pa.Array, pa.DataType], pa.Array],
) -> list[pa.Array]:
    """The arrays of the columns; those that no field holds are NULL in all `count` rows."""
    return [cast(fields[found[at]], kind) if at in found else pa.nulls(count, kind) for at, kind in enumerate(types)]
