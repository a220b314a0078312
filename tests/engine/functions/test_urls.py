from __future__ import annotations

import pytest

from kestrel_sql.functions.library.text import urls
from kestrel_sql.java.uri import Uri, parse_uri


@pytest.mark.parametrize(
    ("text", "uri"),
    [
        ("http://www.test.com?query#fragment", Uri("http", "www.test.com", None, "", "query", "fragment")),
        ("http://me@example.org:8080/a%20b?c%3Dd", Uri("http", "example.org", 8080, "/a b", "c=d", None)),
        ("www.example.org", Uri(None, None, None, "www.example.org", None, None)),
        ("mailto:a@b.c#x", Uri("mailto", None, None, None, None, "x")),
        ("http://a_b.c/x", Uri("http", None, None, "/x", None, None)),
        ("http://[::1]:80/", Uri("http", "[::1]", 80, "/", None, None)),
        ("http://1.2.3.4:", Uri("http", "1.2.3.4", None, "", None, None)),
        ("http://x.300", Uri("http", None, None, "", None, None)),
        ("http:///p", Uri("http", None, None, "/p", None, None)),
        ("http://é/é?%e4", Uri("http", None, None, "/é", "\ufffd", None)),
        ("", Uri(None, None, None, "", None, None)),
    ],
)
def test_parse_uri(text: str, uri: Uri) -> None:
    assert parse_uri(text) == uri


@pytest.mark.parametrize(
    "text",
    [
        "http://a b/",
        "http:",
        "http://",
        "://x",
        "1http://x",
        "http://x/%zz",
        "http://x/|",
        "a#b#c",
        "http://[::x]/",
        "[x",
    ],
)
def test_invalid_uris(text: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        parse_uri(text)


def test_parsing_takes_linear_time() -> None:
    assert parse_uri("http://x/" + "a" * 200_000).path == "/" + "a" * 200_000
    assert parse_uri("http://" + "a-" * 50_000 + "a").host == "a-" * 50_000 + "a"
    assert parse_uri("http://" + "a." * 50_000 + "_").host is None


@pytest.mark.parametrize(
    ("name", "value"),
    [("one", "a"), ("two", "url encoded"), ("three", ""), ("four", ""), ("five", "x=y"), ("six", None), ("ONE", None)],
)
def test_parameter(name: str, value: str | None) -> None:
    url = "http://example.org/?one=a&two=url%20encoded&three&four=&five=x=y&one=b"
    assert urls.url_extract_parameter.body(url, name) == value


def test_parameter_without_a_query() -> None:
    assert urls.url_extract_parameter.body("http://example.org/", "a") is None


@pytest.mark.parametrize(("text", "escaped"), [("?foo $bar", "%3Ffoo+%24bar"), ("a-_.*~é", "a-_.*%7E%C3%A9"), ("", "")])
def test_encode(text: str, escaped: str) -> None:
    assert urls.url_encode_param.body(text) == escaped
    assert urls.url_decode_param.body(escaped) == text


@pytest.mark.parametrize("text", ["%", "%2", "%zz", "a%-1"])
def test_malformed_escapes(text: str) -> None:
    with pytest.raises(ValueError, match="hex"):
        urls.url_decode_param.body(text)


def test_bytes_that_are_not_utf_8_are_replaced() -> None:
    assert urls.url_decode_param.body("%e4+%C3%A9") == "\ufffd é"
