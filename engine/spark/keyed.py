"""Keys as operators see them, and the store that gives a table its old rows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from engine.errors import SerdeError
from engine.formats.base import SerdeSpec, Side
from engine.formats.table import encoder
from engine.spark.group import QueryBuild
from engine.spark.handles import Handle
from engine.state.codec import dump_state
from engine.state.materialise import Materialise
from engine.state.operator import Operator


@dataclass(slots=True)
class EncodedKey:
    """A key's bytes in the operator's key format; made anew in each worker.

    A key that its format cannot write still has an identity, behind all others in order.
    """

    spec: SerdeSpec
    encode: Callable[[Any], bytes | None] | None = None

    def __call__(self, key: tuple[Any, ...]) -> bytes:
        """Serialise a key."""
        if self.encode is None:
            self.encode = encoder(self.spec)
        try:
            return self.encode(key) or b""
        except SerdeError:
            return b"\xff" + dump_state({"key": list(key)})

    def __reduce__(self) -> tuple[Any, ...]:
        return EncodedKey, (self.spec,)


def key_bytes(build: QueryBuild, handle: Handle) -> EncodedKey:
    """How operators over a relation serialise its keys."""
    codec = handle.key_codec
    return EncodedKey(build.serde(SerdeSpec(codec.format, handle.schema.key, codec.features, Side.KEY, handle.topic)))


def with_old(build: QueryBuild, source: Handle, logger: str) -> Handle:
    """The same table with its old rows tracked: behind a store, unless they already are."""
    if source.has_old:
        return source

    def make(relation: int, level: int) -> tuple[Operator, Handle]:
        output = replace(source, relation=relation, level=level, has_old=True)
        rowtime = next((at for at, column in enumerate(source.schema.value) if column.name == "ROWTIME"), None)
        return Materialise(key_bytes=key_bytes(build, source), rowtime=rowtime), output

    return build.stateful(make, (source,), logger)
