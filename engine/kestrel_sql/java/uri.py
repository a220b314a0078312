"""Parses URIs as `java.net.URI` does: RFC 2396 with Java's deviations."""

from __future__ import annotations

import re
from ipaddress import IPv6Address

import msgspec

from kestrel_sql.java.utf16 import decode_utf8

_ALNUM = "A-Za-z0-9"
_OTHER = r"[^\x00-\x20\x7f-\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000\x21-\x7e]"
_ESCAPE = "%[0-9A-Fa-f]{2}"


def _characters(marks: str, *, repeat: str = "*") -> re.Pattern[str]:
    # Possessive, which takes a twentieth of the time: no character fits two of the parts.
    return re.compile(f"(?:[{_ALNUM}_!.~'()*{marks}-]++|(?:{_ESCAPE})++|{_OTHER}++){repeat}+")


_PATH = _characters(r":@&=+$,;/")
_URIC = _characters(r";/?:@&=+$,\[\]")
_USER_INFO = _characters(r";:&=+$,")
_REGISTRY = _characters(r"$,;:@&=+", repeat="+")
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*")
_LABEL = f"[{_ALNUM}](?:[{_ALNUM}-]*[{_ALNUM}])?"
_HOST_NAME = re.compile(rf"{_LABEL}(?:\.{_LABEL})*\.?", re.ASCII)
_IPV4 = re.compile(r"(\d{1,3})\.(\d{1,3})\.(\d{1,3})\.(\d{1,3})", re.ASCII)
_IPV6 = re.compile(r"\[([0-9A-Fa-f:.]{2,45})(?:%[A-Za-z0-9_.~-]+)?\]", re.ASCII)
_PORT = re.compile(r"\d*", re.ASCII)
_ESCAPES = re.compile(f"(?:{_ESCAPE})++")
_MAX_PORT = 2**31 - 1


class Uri(msgspec.Struct, frozen=True):
    """The parts of a URI; None for a part that is absent. Path, query and fragment are decoded."""

    scheme: str | None
    host: str | None
    port: int | None
    path: str | None
    query: str | None
    fragment: str | None


def parse_uri(text: str) -> Uri:
    """Parse a URI or a relative reference.

    Raises:
        ValueError: the text is neither.
    """
    rest, hash_mark, fragment = text.partition("#")
    _check_characters(_URIC, fragment, "fragment")
    scheme, rest = _scheme(rest)
    decoded_fragment = decode(fragment) if hash_mark else None
    if scheme is not None and not rest.startswith("/"):
        if not rest:
            raise ValueError("Expected scheme-specific part")
        _check_characters(_URIC, rest, "opaque part")
        return Uri(scheme, None, None, None, None, decoded_fragment)
    before, mark, query = rest.partition("?")
    _check_characters(_URIC, query, "query")
    host, port, path = _authority(before, bool(mark or hash_mark))
    _check_characters(_PATH, path, "path")
    return Uri(scheme, host, port, decode(path), decode(query) if mark else None, decoded_fragment)


def decode(text: str) -> str:
    """Replace percent escapes by the characters of their UTF-8 bytes; invalid bytes become U+FFFD."""
    return _ESCAPES.sub(lambda match: decode_utf8(bytes.fromhex(match[0].replace("%", ""))), text)


def _check_characters(allowed: re.Pattern[str], text: str, part: str) -> None:
    if not allowed.fullmatch(text):
        raise ValueError(f"Illegal character in {part}")


def _scheme(text: str) -> tuple[str | None, str]:
    before, colon, after = text.partition(":")
    if not colon or "/" in before or "?" in before:
        return None, text
    if not _SCHEME.fullmatch(before):
        raise ValueError("Illegal character in scheme name" if before else "Expected scheme name")
    return before, after


def _authority(text: str, repeat: bool) -> tuple[str | None, int | None, str]:
    """Split what precedes the query into host, port and path."""
    if not text.startswith("//"):
        return None, None, text
    authority, slash, path = text[2:].partition("/")
    if not authority and not slash and not repeat:
        raise ValueError("Expected authority")
    host, port = _server(authority) if authority else (None, None)
    return host, port, slash + path


def _server(authority: str) -> tuple[str | None, int | None]:
    """Return host and port, or (None, None) for a registry-based authority."""
    user, at, server = authority.rpartition("@")
    host = _host(server)
    if host is not None and "@" not in user and (not at or _USER_INFO.fullmatch(user)):
        rest = server[len(host) :]
        if not rest:
            return host, None
        if rest.startswith(":") and _PORT.fullmatch(rest, 1):
            digits = rest[1:].lstrip("0")
            if len(digits) <= len(str(_MAX_PORT)) and int(digits or 0) <= _MAX_PORT:
                return host, int(digits or 0) if rest[1:] else None
    _check_characters(_REGISTRY, authority, "authority")
    return None, None


def _is_ipv6(text: str) -> bool:
    try:
        IPv6Address(text)
    except ValueError:
        return False
    return True


def _host(server: str) -> str | None:
    if server.startswith("["):
        literal = _IPV6.match(server)
        return literal[0] if literal and _is_ipv6(literal[1]) else None
    address = _IPV4.match(server)
    if (
        address
        and all(int(byte) < 256 for byte in address.groups())
        and server[address.end() : address.end() + 1] in ("", ":")
    ):
        return address[0]
    name = _HOST_NAME.match(server)
    if not name:
        return None
    labels = name[0].rstrip(".").split(".")
    return name[0] if len(labels) == 1 or labels[-1][0].isalpha() else None
