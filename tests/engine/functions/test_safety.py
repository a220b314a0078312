"""A pattern or a size that comes from data neither blocks nor kills a task; it is an error of its record."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from kestrel_sql.functions.library.text import regex
from kestrel_sql.functions.values.like import like_pattern
from kestrel_sql.functions.values.size_limits import MAX_SIZE
from kestrel_sql.java.regex import time_limit
from kestrel_sql.java.regex.time_limit import TimeLimitError, WorkTimeError, work_limit
from kestrel_sql.types import sql_types as t
from tests.engine.functions.values import outcome, outcomes

SLOW_PATTERNS = (
    ("(a+)+$", "a" * 40 + "!"),
    ("([a-zA-Z]+)*$", "a" * 40 + "!"),
    ("(a|aa)+$", "a" * 60 + "!"),
    ("(a|a?)+$", "a" * 40 + "!"),
    ("(.*a){20}$", "a" * 60 + "!"),
    ("(a*)*b", "a" * 40),
    ("(a*)+b", "a" * 40),
    ("(a+)*b", "a" * 40),
    ("(a|a)*b", "a" * 40),
    ("(a|b|ab)*c", "ab" * 30),
    ("(aa|a)*b", "a" * 60),
    ("(a?){40}a{40}b", "a" * 40),
    ("(?:a?){40}a{40}b", "a" * 40),
    ("(x+x+)+y", "x" * 60),
    ("(x*x*)*y", "x" * 40),
    ("(x+)+y", "x" * 40),
    ("(?:x+)+y", "x" * 40),
    ("(x+){2,}y", "x" * 40),
    ("(x{1,}){1,}y", "x" * 40),
    ("(\\w+\\s?)*$", "word " * 12 + "wordwordword!"),
    ("^(\\w+\\s?)*$", "word " * 12 + "wordwordword!"),
    ("(\\d+)*[.]", "1" * 40),
    ("(\\d+|\\d+x)*[.]", "1" * 40),
    ("^(([a-z])+.)+[A-Z]([a-z])+$", "a" * 60),
    ("^([a-zA-Z0-9])(([\\-.]|[_]+)?([a-zA-Z0-9]+))*(@){1}[a-z0-9]+$", "a" * 60 + "!"),
    ("^([0-9a-zA-Z]([-.\\w]*[0-9a-zA-Z])*@([0-9a-zA-Z][-\\w]*[0-9a-zA-Z]\\.)+[a-zA-Z]{2,9})$", "a" * 60),
    ('^(([^<>()\\[\\]\\\\.,;:\\s@"]+(\\.[^<>()]+)*)+)@$', "a" * 40),
    ("^(https?://)?([\\da-z.-]+)*\\.([a-z.]{2,6})([/\\w .-]*)*/?$", "http://" + "a" * 40 + "!"),
    ("<([a-z]+)(.*)*>!", "<a" + "x" * 60),
    ('("([^"]|"")*)*x', '"' * 60),
    ("([^=]+=?)*&", "a=" * 30),
    ("(\\s*\\S+\\s*)*;", "a b " * 20),
    ("\\s*(\\s*,\\s*)*x", " , " * 40),
    ("((a{0,5}){0,5})*[c]", "a" * 40),
    ("((a*)*)*b", "a" * 40),
    ("(((a+)+)+)+b", "a" * 40),
    ("(([ab]+)*c?)*d", "ab" * 30),
    ("(?=(a+))a*b\\1{2}(a+)+c", "a" * 30 + "b" + "a" * 60 + "!"),
    ("(a+)+(?!b)c", "a" * 40),
    ("(?<x>a+)+y", "a" * 40),
    ("(a+)+\\1b", "a" * 40),
    ("(?i)(A+)+b", "a" * 40),
    ("(?s)(.+)+\\z!", "a" * 40),
    ("(?:(?:a|b)+)+c", "ab" * 30),
    ("(?:[a-z]*)*[0-9]", "a" * 40),
    ("(a.*)*(b.*)*(c.*)*d", "abc" * 20),
    ("(.+)+(.+)+(.+)+x", "a" * 40),
    ("(.*)(.*)(.*)(.*)(.*)(.*)(.*)[^a]", "a" * 120),
    (".*.*.*.*.*.*=x", "=" * 300),
    ("(\\(([^()]|\\(.*\\))*)*x", "(" * 60),
    ("[^,]*(,[^,]*)*(,[^,]*)*(,[^,]*)*;", "," * 300),
)
CALLS = {
    "REGEXP_EXTRACT": lambda pattern, value: regex.regexp_extract.body(pattern, value),
    "REGEXP_EXTRACT_ALL": lambda pattern, value: regex.regexp_extract_all.body(pattern, value),
    "REGEXP_REPLACE": lambda pattern, value: regex.regexp_replace.body(value, pattern, ""),
    "REGEXP_SPLIT_TO_ARRAY": lambda pattern, value: regex.regexp_split_to_array.body(value, pattern),
}


def test_the_samples_are_fifty_patterns_and_all_regexp_functions():
    assert len(set(SLOW_PATTERNS)) >= 50
    assert set(CALLS) == {value.name for value in vars(regex).values() if type(value).__name__ == "Scalar"}


@pytest.fixture
def short_limit(monkeypatch):
    """Use a twentieth of the usual limit, so that two hundred matches take seconds."""
    monkeypatch.setattr(time_limit, "TICK", time_limit.TICK / 20)
    time_limit._timer.started = False
    yield
    time_limit._timer.started = False


@pytest.mark.rules("U2.3")
@pytest.mark.parametrize("function", CALLS)
def test_slow_patterns_are_stopped_in_any_thread_and_stop_no_other(function):
    outcome = []

    def run():
        try:
            outcome.append(CALLS[function]("(a+)+$", "a" * 40 + "b"))
        except TimeLimitError as error:
            outcome.append(error)

    other = threading.Thread(target=run)
    other.start()
    steps = 0
    while other.is_alive():
        time.sleep(0.001)
        steps += 1
    assert isinstance(outcome[0], TimeLimitError)
    # A match in this process would hold Python's lock.
    assert steps > 20


@pytest.mark.rules("U2.3")
@pytest.mark.parametrize(
    ("function", "arguments"),
    [
        ("REGEXP_EXTRACT", ("(a+)+(\\ud83d|é)", "aé\ud800")),
        ("REGEXP_EXTRACT", ("(a+)+x", "b" * 3000)),
        ("REGEXP_EXTRACT_ALL", ("(a+)(b)?" + "c*" * 100, "a ab" * 50)),
        ("REGEXP_REPLACE", ("(a+){2}", "aaaa" * 50)),
        ("REGEXP_SPLIT_TO_ARRAY", ("(,+)*", "1,,2")),
        ("REGEXP_EXTRACT", ("(a+)+(", "a")),
        ("REGEXP_EXTRACT", ("[" * 5_000, "a")),
        ("REGEXP_EXTRACT", ("(" * 5_000, "a")),
    ],
)
def test_threads_get_what_the_main_thread_gets(function, arguments):
    def outcome():
        try:
            return CALLS[function](*arguments)
        except ValueError as error:
            return str(error)

    with ThreadPoolExecutor(1) as threads:
        assert threads.submit(outcome).result() == outcome()


def test_work_has_a_limit_of_time_in_any_thread():
    def endless():
        with time_limit.work_limit(0.01):
            while True:
                time_limit.check_work()

    time_limit.check_work()
    with ThreadPoolExecutor(1) as threads, pytest.raises(TimeLimitError, match=r"more than 0\.01 seconds"):
        threads.submit(endless).result()


@pytest.mark.rules("U2.3")
@pytest.mark.parametrize("function", CALLS)
def test_slow_patterns_are_stopped(function, short_limit):
    stopped = 0
    for pattern, value in SLOW_PATTERNS:
        start = time.process_time()
        try:
            CALLS[function](pattern, value)
        except TimeLimitError:
            stopped += 1
        assert time.process_time() - start < 1 / 5, pattern
    assert stopped > 30


def test_calls_outside_of_the_main_thread_have_no_limit():
    results = []
    thread = threading.Thread(target=lambda: results.append(regex.regexp_extract.body("b+", "abbc")))
    thread.start()
    thread.join()
    assert results == ["bb"]


def test_a_process_exits_cleanly_while_the_timer_runs():
    code = """
from kestrel_sql.functions.library.text.regex import regexp_extract
import time
from concurrent.futures import ThreadPoolExecutor
regexp_extract.body("a", "a")

class Late:
    def __del__(self):
        end = time.process_time() + 0.5
        while time.process_time() < end:
            pass

late = Late()
"""
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_the_first_timeout_ends_a_lambda_over_many_items():
    pattern, value = SLOW_PATTERNS[0]
    text = f"TRANSFORM(GENERATE_SERIES(1, 50), x => COALESCE(REGEXP_EXTRACT('{pattern}', '{value}'), 'none'))"
    start = time.process_time()
    assert outcome(text) == (None, True)
    assert time.process_time() - start < 1


@pytest.mark.rules("R14.6")
@pytest.mark.parametrize(
    ("text", "column"),
    [
        ("LPAD(V, 1048577, 'x')", "a"),
        ("V || V", "a" * 600_000),
        ("CONCAT(V, V)", "a" * 600_000),
        ("TRANSFORM(ARRAY[1], i => LPAD(V, 1048577, 'x'))", "a"),
        ("GENERATE_SERIES(1, CAST(V AS INT))", "65537"),
    ],
)
def test_the_work_for_one_request_makes_no_large_values(text, column):
    def is_error():
        ((_, fails),) = outcomes(text, {"V": t.STRING}, [{"V": column}])
        return fails

    assert not is_error()
    with work_limit(60):
        assert is_error()


@pytest.mark.rules("R14.6")
def test_the_work_for_one_request_may_compute_with_large_arguments():
    with work_limit(60):
        found = outcomes("LEN(UCASE(REPLACE(V, 'ab', 'c')))", {"V": t.STRING}, [{"V": "ab" * 2_000_000}])
    assert found == [(2_000_000, False)]


@pytest.mark.rules("R14.6")
def test_the_work_for_one_request_has_a_limit_of_memory(monkeypatch):
    monkeypatch.setattr(time_limit, "MOST_MADE", 20 << 20)
    text = "ARRAY_LENGTH(TRANSFORM(GENERATE_SERIES(1, {}), i => LPAD('a', 1000000, 'b')))"
    with work_limit(60):
        assert outcome(text.format(10)) == (10, False)
        with pytest.raises(WorkTimeError, match="more than 20 MB of large values"):
            outcome(text.format(20))


@pytest.mark.parametrize("pattern", ["%a" * 20 + "%b", "%a%a%a%", "_%" * 20 + "b", "%" * 200 + "b", "%ab%ab%ab%c"])
def test_like_takes_linear_time(pattern):
    start = time.process_time()
    assert (like_pattern(pattern, None).fullmatch("a" * 20_000) is not None) == (pattern == "%a%a%a%")
    assert time.process_time() - start < 1


_LONG = "'" + "a" * 10_000 + "'"
_PARTS = ["LPAD('a', 4000000, 'b')"] * 5
_DOUBLING = ", ".join(["1"] * 40)
SIZES = {
    f"REGEXP_EXTRACT('{SLOW_PATTERNS[0][0]}', '{SLOW_PATTERNS[0][1]}')": True,
    f"{_LONG} LIKE '{'%a' * 20}%b'": False,
    f"{_LONG} LIKE CONCAT('{'%a' * 20}%b')": False,
    f"LPAD('a', {MAX_SIZE + 1}, 'x')": True,
    f"RPAD('a', CAST('{MAX_SIZE + 1}' AS INT), 'x')": True,
    "RPAD(TO_BYTES('61', 'hex'), 2147483647, TO_BYTES('61', 'hex'))": True,
    "LEN(LPAD('a', 1000, 'x'))": False,
    "GENERATE_SERIES(1, 2000000000)": True,
    "GENERATE_SERIES(-9223372036854775807, 9223372036854775807)": False,
    "GENERATE_SERIES(0, 9223372036854775807, 2147483647)": False,
    f"LEN(REPLACE(REPLACE({_LONG}, 'a', {_LONG}), 'a', {_LONG}))": True,
    f"LEN(REPLACE(REPLACE({_LONG}, '', {_LONG}), '', {_LONG}))": True,
    f"LEN(REPLACE({_LONG}, 'a', 'bb'))": False,
    f"LEN(REGEXP_REPLACE({_LONG}, 'a', {_LONG}))": True,
    f"LEN(REGEXP_REPLACE({_LONG}, '(a)', '$1{_LONG[1:]}))": True,
    f"LEN(REGEXP_REPLACE({_LONG}, 'a', 'bb'))": False,
    f"LEN(REGEXP_REPLACE({_LONG}, 'b', {_LONG}))": False,
    f"LEN(REDUCE(ARRAY[{_DOUBLING}], 'a', (s, x) => CONCAT(s, s)))": True,
    f"ARRAY_LENGTH(REDUCE(ARRAY[{_DOUBLING}], ARRAY[1], (s, x) => ARRAY_CONCAT(s, s)))": True,
    f"LEN(REDUCE(ARRAY[{_DOUBLING}], 'a', (s, x) => INITCAP(CONCAT(s, s))))": True,
    "REDUCE(ARRAY['b', 'c'], 'a', (s, x) => CONCAT(s, x, s))": False,
    f"LEN({' || '.join(_PARTS)})": True,
    f"LEN(CONCAT({', '.join(_PARTS)}))": True,
    f"LEN(CONCAT_WS('', {', '.join(_PARTS)}))": True,
    f"LEN(ARRAY_JOIN(ARRAY[{', '.join(_PARTS)}]))": True,
    "ARRAY_LENGTH(ARRAY_CONCAT(GENERATE_SERIES(1, 1000000), GENERATE_SERIES(1, 1000000)))": True,
    f"ARRAY_LENGTH(SPLIT({_LONG}, ''))": False,
    f"ARRAY_LENGTH(SPLIT({_LONG}, 'a'))": False,
    "CAST('1e999999999' AS DECIMAL(38, 2))": True,
    "CAST('1e-999999999' AS DECIMAL(38, 2))": True,
    "CAST('1e2147483648' AS DECIMAL(38, 2))": True,
    "CAST('1e999999999' AS DOUBLE)": True,
    f"CAST('{'9' * 5_000}' AS BIGINT)": True,
    "ROUND(1.5E0, 2147483647)": True,
    "ROUND(1.5E0, -2147483647)": True,
    "ROUND(1.5, -2147483647)": True,
    f"JSON_ARRAY_LENGTH('{'[' * 20_000}')": True,
    f"EXTRACTJSONFIELD('{'[' * 900}{']' * 900}', '${'[0]' * 900}')": False,
    "EXTRACTJSONFIELD('{\"a\": 1e999999999}', '$.a')": False,
    "JSON_ARRAY_CONTAINS('[1e999999999]', 1)": False,
    "JSON_ARRAY_CONTAINS('[1e-999999999]', 1.5)": False,
}


@pytest.mark.rules("U2.3")
@pytest.mark.parametrize("text", SIZES, ids=lambda text: text[:80])
def test_oversized_results_are_errors_of_their_record(text):
    start = time.process_time()
    assert outcome(text, nested=False)[1] is SIZES[text]
    assert time.process_time() - start < 5
