from __future__ import annotations

import json
import pickle
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest
from pyspark import cloudpickle

from kestrel_sql.errors import FunctionError
from kestrel_sql.functions.bind.bind import bind
from kestrel_sql.functions.table import FUNCTIONS
from kestrel_sql.functions.user_functions import load_functions
from kestrel_sql.sql.parse.parser import parse_expression

GOOD = """
from kestrel_sql.functions.declaration import Aggregator, aggregate, scalar, tabular

_FACTOR = 3

def _times(value):
    return value * _FACTOR

@scalar("(value INT) -> INT")
def triple(value: int) -> int:
    "Multiply by three."
    return _times(value)

@scalar("(value STRING) -> STRING", name="SAME")
def same_text(value):
    "Give it back."
    return value

@tabular("(items ARRAY<T>) -> T")
def each(items):
    "Give one row for each item."
    return items

@aggregate("(value BIGINT) -> BIGINT", undoable=False)
def last_seen(call):
    "Keep the last."
    return Aggregator(initialize=lambda: None, aggregate=lambda s, v: v, merge=lambda a, b: b, result=lambda s: s)
"""


@pytest.fixture
def written(tmp_path):
    def write(text: str) -> Path:
        path = tmp_path / "mine.py"
        path.write_text(text)
        return path

    return write


@pytest.mark.rules("U7.1")
def test_all_kinds_are_loaded(written):
    functions = load_functions(written(GOOD))
    assert [function.name for function in functions] == ["TRIPLE", "SAME", "EACH", "LAST_SEEN"]
    registry = FUNCTIONS.with_functions(*functions)
    assert bind(parse_expression("TRIPLE(2)"), {}, registry).function is functions[0]
    assert registry.is_table_function("each")
    assert registry.is_aggregate("last_seen")
    assert functions[0].body(2) == 6
    assert "TRIPLE" not in FUNCTIONS


def test_a_module_is_accepted_by_name_or_as_an_object():
    import kestrel_qtt.ksqldb.corpus_functions as module

    assert load_functions(module) == load_functions("kestrel_qtt.ksqldb.corpus_functions")


def test_functions_of_a_file_are_pickled_by_value(written):
    cloudpickle = pytest.importorskip("pyspark.cloudpickle")
    triple = load_functions(written(GOOD))[0]
    assert cloudpickle.loads(cloudpickle.dumps(triple.body))(5) == 15


def test_built_in_functions_are_pickled_by_name():
    functions = {overload.function for name in FUNCTIONS for overload in FUNCTIONS.get(name)}
    assert len(functions) > 150
    assert [f.name for f in functions if pickle.loads(pickle.dumps(f)) is not f] == []


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "declares no functions"),
        ("x = (", "SyntaxError"),
        ("raise ValueError('no')", "ValueError: no"),
        ("import there_is_no_such_module", "there_is_no_such_module"),
        (GOOD.replace("(value INT) -> INT", "(value INTEGERS) -> INT"), "unknown type INTEGERS"),
        (GOOD.replace("(value INT) -> INT", "value INT"), "Function TRIPLE"),
        (GOOD.replace('name="SAME"', 'name="same-text"'), "name that no call can use"),
        (GOOD.replace('@scalar("(value STRING) -> STRING", name="SAME")', "@scalar()"), "has no signature"),
        (GOOD.replace('"Multiply by three."', "pass"), "has no docstring"),
    ],
)
def test_a_malformed_module_is_rejected(written, text, message):
    with pytest.raises(FunctionError) as raised:
        load_functions(written(text))
    assert message in str(raised.value)


@pytest.mark.parametrize("source", ["no/such/file.py", "no_such_module_here", Path("nowhere")])
def test_a_missing_module_is_rejected(source):
    with pytest.raises(FunctionError):
        load_functions(source)


def test_an_existing_overload_is_rejected(written):
    text = GOOD.replace('name="SAME"', 'name="LCASE"')
    with pytest.raises(ValueError, match="declared twice"):
        FUNCTIONS.with_functions(*load_functions(written(text)))


def test_case_files_cannot_load_code():
    schema = json.loads((Path(__file__).parents[3] / "qtt" / "kestrel_qtt" / "cases" / "case.schema.json").read_text())
    text = json.dumps(schema).lower()
    assert schema.get("additionalProperties") is False
    assert not any(word in text for word in ('"functions"', '"module"', '"python"', '"udf"', '"plugin"', '"import"'))


def test_a_file_imports_what_stands_beside_it_and_takes_it_along(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "rates").mkdir()
    (tmp_path / "rates" / "__init__.py").write_text("from rates.table import RATE\n")
    (tmp_path / "rates" / "table.py").write_text("RATE = 3\n")
    (tmp_path / "helper.py").write_text("import rates\n\ndef shout(text):\n    return text * rates.RATE\n")
    mine = tmp_path / "mine.py"
    mine.write_text(
        "import helper\nfrom kestrel_sql.functions.declaration import scalar\n\n"
        "@scalar('(input STRING) -> STRING')\n"
        "def yell(input_):\n    'Shout.'\n    return helper.shout(input_)\n"
    )
    other = ModuleType("helper")
    monkeypatch.setitem(sys.modules, "helper", other)
    (function,) = load_functions(mine)
    assert sys.modules["helper"] is other
    assert "rates" not in sys.modules
    assert str(tmp_path) not in sys.path
    script = "import pickle, sys; print(pickle.load(sys.stdin.buffer).body('a'))"
    done = subprocess.run(
        [sys.executable, "-c", script], input=cloudpickle.dumps(function), cwd="/", capture_output=True, check=False
    )
    assert (done.stdout.decode(), done.stderr.decode()) == ("aaa\n", "")
