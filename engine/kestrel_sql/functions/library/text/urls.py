"""Functions of URLs: their parts as in `java.net.URI`, and the escapes of parameters."""

from __future__ import annotations

import re
from functools import lru_cache
from urllib.parse import quote_plus

from kestrel_sql.functions.declaration import Nulls, scalar
from kestrel_sql.java.uri import Uri, parse_uri
from kestrel_sql.java.utf16 import decode_utf8

_ESCAPES = re.compile("(?:%.{0,2}+)++", re.DOTALL)
_VALID = re.compile("(?:%[0-9A-Fa-f]{2})++")


@lru_cache(maxsize=64)
def _parsed(url: str) -> Uri:
    """Parse a URL; cached because rows often call several functions on one URL."""
    return parse_uri(url)


@scalar("(input STRING) -> STRING", display_name="url_decode_param")
def url_decode_param(text: str) -> str:
    """Decode a form parameter; a malformed escape is an error.

    Example: URL_DECODE_PARAM('url+enc%6Fded') -> 'url encoded'
    """
    return _ESCAPES.sub(lambda match: _decoded(match[0]), text.replace("+", " "))


def _decoded(escapes: str) -> str:
    if not _VALID.fullmatch(escapes):
        raise ValueError("URLDecoder: Illegal hex characters in escape (%) pattern")
    return decode_utf8(bytes.fromhex(escapes.replace("%", "")))


@scalar("(input STRING) -> STRING", display_name="url_encode_param")
def url_encode_param(text: str) -> str:
    """Encode a string as a form parameter.

    Example: URL_ENCODE_PARAM('?foo $bar') -> '%3Ffoo+%24bar'
    """
    return quote_plus(text, safe="-_.*").replace("~", "%7E")


@scalar("(input STRING) -> STRING", display_name="url_extract_fragment")
def url_extract_fragment(url: str) -> str | None:
    """Return the fragment after `#`, decoded; NULL if there is none.

    Example: URL_EXTRACT_FRAGMENT('http://example.org/?q#top') -> 'top'
    """
    return _parsed(url).fragment


@scalar("(input STRING) -> STRING", display_name="url_extract_host")
def url_extract_host(url: str) -> str | None:
    """Return the host; NULL if there is none.

    Example: URL_EXTRACT_HOST('https://user@example.org:8080/path') -> 'example.org'
    """
    return _parsed(url).host


@scalar("(input STRING, paramToFind STRING) -> STRING", nulls=Nulls.BODY, display_name="url_extract_parameter")
def url_extract_parameter(url: str | None, name: str | None) -> str | None:
    """Return the first value of a query parameter; '' if it has no value, NULL if there is no such parameter.

    What is no URL is an error, also where `paramToFind` is NULL.

    Example: URL_EXTRACT_PARAMETER('http://example.org/?one=a%20b&two=c', 'one') -> 'a b'
    """
    query = None if url is None else _parsed(url).query
    if query is None or name is None:
        return None
    for parameter in query.split("&"):
        key, _, value = parameter.partition("=")
        if key == name:
            return value
    return None


@scalar("(input STRING) -> STRING", display_name="url_extract_path")
def url_extract_path(url: str) -> str | None:
    """Return the path, decoded; '' if the URL has none.

    Example: URL_EXTRACT_PATH('http://example.org/a%20b/c?q') -> '/a b/c'
    """
    return _parsed(url).path


@scalar("(input STRING) -> INT", display_name="url_extract_port")
def url_extract_port(url: str) -> int | None:
    """Return the port; NULL if the URL has none.

    Example: URL_EXTRACT_PORT('https://example.org:8080/path') -> 8080
    """
    return _parsed(url).port


@scalar("(input STRING) -> STRING", display_name="url_extract_protocol")
def url_extract_protocol(url: str) -> str | None:
    """Return the scheme, such as `https`; NULL if there is none.

    Example: URL_EXTRACT_PROTOCOL('https://example.org/path') -> 'https'
    """
    return _parsed(url).scheme


@scalar("(input STRING) -> STRING", display_name="url_extract_query")
def url_extract_query(url: str) -> str | None:
    """Return the query between `?` and `#`, decoded; NULL if there is none.

    Example: URL_EXTRACT_QUERY('http://example.org/path?a=1&b#top') -> 'a=1&b'
    """
    return _parsed(url).query
