from __future__ import annotations

import pytest

from engine.functions.library.java_regex import BadPatternError, compile_pattern, matches, replace_all, split, split_all


@pytest.mark.parametrize(
    ("pattern", "value", "expected"),
    [
        (r"(?i)AB", "xaB", ["aB"]),
        (r"a(?i)b|c", "aB C", ["aB", "C"]),
        (r"(?<x>a)\k<x>", "aab", ["aa"]),
        (r"\Qa.b\E+", "a.bb", ["a.bb"]),
        (r".", "a\n\r\u2028b", ["a", "b"]),
        (r"(?s).", "a\n", ["a", "\n"]),
        (r"a$", "a\n", ["a"]),
        (r"a\z", "a\n", []),
        (r"(?m)^b$", "a\nb\nc", ["b"]),
        (r"\d", "1٣", ["1"]),
        (r"\p{Lu}\p{L}*", "aÄbc d", ["Äbc"]),
        (r"\p{Punct}", "a]b", ["]"]),
        (r"[^\W\d]+", "ab1 _", ["ab", "_"]),
        (r"[\p{Alpha}-]", "a-1", ["a", "-"]),
        (r"[a&-]", "a&-", ["a", "&", "-"]),
        (r"|a", "a", ["", ""]),
        (r"a*", "baac", ["", "aa", "", ""]),
        (r"\x41\u0042\x{43}\0104", "ABCD", ["ABCD"]),
        (r"a++b", "aab", ["aab"]),
        (r"x{2}", "xxx", ["xx"]),
        (r"\h\R", "\u3000\r\n", ["\u3000\r\n"]),
        (r"a # note", "a # note", ["a # note"]),
    ],
)
def test_matches(pattern, value, expected):
    assert [found.group() for found in matches(compile_pattern(pattern), value)] == expected


@pytest.mark.parametrize("pattern", ["(", ")", "[a", "a{", "a{,2}", "*", r"\y", "(?P<a>b)", "a\\", "[a&&b]", r"\p{Nope}", "(?q)", "a**"])
def test_bad_patterns(pattern):
    with pytest.raises(BadPatternError):
        compile_pattern(pattern)


def test_replacements():
    assert replace_all(compile_pattern("(a)(b)?"), "ab a", "[$2$1$11]") == "[baa1] [aa1]"
    assert replace_all(compile_pattern("(?<n>a)"), "a", r"${n}\$\\") == r"a$\ ".strip()
    for bad in ("$", "$3", "\\", "${m}"):
        with pytest.raises(BadPatternError):
            replace_all(compile_pattern("(?<n>a)"), "a", bad)


def test_splits():
    assert split(compile_pattern(""), "ab") == ["a", "b"]
    assert split(compile_pattern("x*"), "axxb") == ["a", "", "b"]
    assert split(compile_pattern("x*"), "") == [""]
    assert split_all(compile_pattern("x"), "xaxx") == ["", "a", "", ""]
