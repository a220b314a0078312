from __future__ import annotations

import pytest

from kestrel_sql.functions.library.text.regex import regexp_extract
from kestrel_sql.java.regex.character_classes import _categories, category
from kestrel_sql.java.regex.patterns import BadPatternError, compile_pattern, matches, replace_all, split, split_all


@pytest.mark.rules("U4.1")
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
        (r"[a-z&&[^bc]]+", "abcd", ["a", "d"]),
        (r"[a-z&&b-m&&[d-z]]+", "abcdmn", ["dm"]),
        (r"[a-d[m-p]]+", "afmq", ["a", "m"]),
        (r"[^a-z&&[^b]]+", "abc", ["b"]),
        (r"[a&&b]|c", "abc", ["c"]),
        (r"[^a&&b]", "a", ["a"]),
        (r"[\P{L}]+", "ab12", ["12"]),
        (r"[\w-.]+", "a-b.c d", ["a-b.c", "d"]),
        (r"(?i)É", "é", []),
        (r"(?iu)É", "é", ["é"]),
        (r"(?iu:É)É", "éÉ", ["éÉ"]),
        (r"\h\R", "\u3000\r\n", ["\u3000\r\n"]),
        (r"a # note", "a # note", ["a # note"]),
    ],
)
def test_matches(pattern, value, expected):
    assert [match.group() for match in matches(compile_pattern(pattern), value)] == expected


@pytest.mark.parametrize(
    "pattern", ["(", ")", "[a", "a{", "a{,2}", "*", r"\y", "(?P<a>b)", "a\\", r"\p{Nope}", "(?q)", "a**"]
)
def test_invalid_patterns(pattern):
    with pytest.raises(BadPatternError):
        compile_pattern(pattern)


def test_replacements():
    assert replace_all(compile_pattern("(a)(b)?"), "ab a", "[$2$1$11]", 100) == "[baa1] [aa1]"
    assert replace_all(compile_pattern("(?<n>a)"), "a", r"${n}\$\\", 100) == r"a$\ ".strip()
    for bad in ("$", "$3", "\\", "${m}"):
        with pytest.raises(BadPatternError):
            replace_all(compile_pattern("(?<n>a)"), "a", bad, 100)


def test_splits():
    assert split(compile_pattern(""), "ab") == ["a", "b"]
    assert split(compile_pattern("x*"), "axxb") == ["a", "", "b"]
    assert split(compile_pattern("x*"), "") == [""]
    assert split_all(compile_pattern("x"), "xaxx") == ["", "a", "", ""]


def test_building_the_character_tables_does_not_count_towards_the_time_limit():
    _categories.cache_clear()
    category.cache_clear()
    assert regexp_extract.body(r"[\p{Lu}&&[^\P{L}]]+", "xAB1") == "AB"
