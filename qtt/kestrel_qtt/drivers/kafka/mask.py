"""Mask columns of records: equal values get equal masks, in all topics and recordings."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from decimal import Decimal
from hashlib import blake2b

import msgspec

from kestrel_qtt.cases.model import Actual


class Mask(msgspec.Struct, frozen=True):
    """A column to be masked: `path` names a column and its fields; without a path it is the whole key or value."""

    is_key: bool
    path: tuple[str, ...]
    salt: str = ""

    @staticmethod
    def of(text: str, salt: str = "") -> Mask:
        """Read a mask such as `value.EMAIL`, `key.ID` or `key`.

        Raises:
            ValueError: the text does not begin with `key` or `value`.
        """
        side, *path = text.split(".")
        if side not in ("key", "value") or not all(path) or (side == "value" and not path):
            raise ValueError(f"{text} is not a column; write it as value.EMAIL, value.ADDRESS.STREET or key.ID")
        return Mask(side == "key", tuple(path), salt)

    def __str__(self) -> str:
        return ".".join(("key" if self.is_key else "value", *self.path))

    def applied(self, content: Actual, columns: Sequence[str]) -> Actual:
        """Return a key or value with the column masked; `columns` are those of its source.

        Raises:
            ValueError: the column is inside a string, such as a DELIMITED value.
        """
        if content is None or (self.path and self.path[0] not in columns):
            return content
        if self.path and not isinstance(content, Mapping):
            if len(columns) > 1:
                raise ValueError(f"{self} cannot be masked, because the columns are parts of one text")
            return self._at(content, self.path[1:])
        return self._at(content, self.path)

    def _at(self, content: Actual, path: Sequence[str]) -> Actual:
        if not path:
            return self.hidden(content)
        if isinstance(content, Mapping):
            name, *rest = path
            return {each: self._at(value, rest) if each == name else value for each, value in content.items()}
        if isinstance(content, Sequence) and not isinstance(content, str | bytes):
            return [self._at(value, path) for value in content]
        return content

    def hidden(self, content: Actual) -> Actual:
        """Return what stands for a value; equal values have equal masks."""
        match content:
            case None | bool():
                return content
            case int():
                return self._number(content)
            case float():
                return float(self._number(int(content)))
            case Decimal():
                exponent = content.as_tuple().exponent
                return Decimal(self._number(int(content.scaleb(-int(exponent))))).scaleb(int(exponent))
            case str() | bytes():
                # Twelve letters and digits are also valid base64, so a BYTES column can still be encoded.
                return f"mask{self._hash(str(content))[:8]}"
            case Mapping():
                return {name: self.hidden(value) for name, value in content.items()}
            case _:
                return [self.hidden(value) for value in content]

    def _number(self, number: int) -> int:
        """Return a number with fewer digits, so that it fits the type of the original."""
        digits = max(1, len(str(abs(number))) - 1)
        found: int = int(self._hash(str(number)), 16) % 10**digits
        return -found if number < 0 else found

    def _hash(self, text: str) -> str:
        return blake2b(text.encode(), key=self.salt.encode()[:64], digest_size=16).hexdigest()


def changed_values(before: Actual, after: Actual) -> Iterator[str]:
    """Yield the values, as text, that a mask has replaced in a key or value."""
    match before, after:
        case Mapping(), Mapping():
            for name, value in before.items():
                yield from changed_values(value, after[name])
        case (str() | bytes() | None, _) | (_, str() | bytes() | None):
            if before != after and before is not None:
                yield str(before)
        case Sequence(), Sequence():
            for old, new in zip(before, after, strict=True):
                yield from changed_values(old, new)
        case _:
            if before != after:
                yield str(before)


def hidden_everywhere(content: Actual, values: Collection[str], mask: Mask) -> Actual:
    """Return a key or value in which nothing equals one of `values`, whatever its type and place."""
    match content:
        case None | bool():
            return content
        case Mapping():
            return {name: hidden_everywhere(value, values, mask) for name, value in content.items()}
        case str() | bytes() | int() | float() | Decimal():
            return mask.hidden(content) if str(content) in values else content
        case _:
            return [hidden_everywhere(value, values, mask) for value in content]


def holds_in_part(content: Actual, values: Collection[str], *, is_whole: bool = True) -> bool:
    """Whether one of `values` is a part of a text in a key or value, or a name below its columns, as in a map."""
    match content:
        case Mapping():
            is_named = not is_whole and any(name in values for name in content)
            return is_named or any(holds_in_part(each, values, is_whole=False) for each in content.values())
        case str():
            return content not in values and not set(re.split(r"[^\w.@-]+", content)).isdisjoint(values)
        case None | bytes() | int() | float() | Decimal():
            return False
        case _:
            return any(holds_in_part(each, values, is_whole=False) for each in content)
