from __future__ import annotations

import re
import textwrap
from pathlib import Path

import pytest

from kestrel_qtt.cli.init import FILES
from tests.qtt.test_pytest_plugin import CONFTEST

pytest_plugins = ["pytester"]

PAGE = Path(__file__).resolve().parents[2] / "docs" / "testing.md"


@pytest.fixture
def project(pytester: pytest.Pytester) -> pytest.Pytester:
    pytester.makeconftest(CONFTEST)
    pytester.path.joinpath("copy.sql").write_text("COPY")
    return pytester


def ran(project: pytest.Pytester, body: str) -> pytest.RunResult:
    project.path.joinpath("test_mine.py").write_text(f"def test_it(qtt):\n{textwrap.indent(body.strip(), '    ')}\n")
    return project.runpytest("-p", "no:cacheprovider")


def test_a_case_as_a_dictionary(project: pytest.Pytester) -> None:
    result = ran(
        project,
        """
case = {"statements": ["COPY"], "inputs": [{"topic": "IN", "value": {"A": 2.5}}]}
(result,) = qtt.run({**case, "outputs": [{"topic": "OUT", "value": {"A": 2.5}}]})
assert (result.status, result.case.name) == ("passed", "test_mine - test_it")
qtt.run({**case, "outputs": [{"topic": "OUT", "value": {"A": 2.25}}]})
""",
    )
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(
        [
            '>*qtt.run(*"A": 2.25*',
            "E *test_mine.py:5: test_mine - test_it",
            "E *topic OUT, record 0*:",
            "*value.A*2.25*2.5*",
        ]
    )
    result.stdout.no_fnmatch_line("*fixture.py*")


def test_an_application(project: pytest.Pytester) -> None:
    result = ran(
        project,
        """
app = qtt.app("copy.sql")
one = app.given({"topic": "IN", "key": "a", "value": 1})
two = one.given({"topic": "IN", "key": "b", "value": 2})
one.expect({"topic": "OUT", "key": "a", "value": 1})
two.expect({"topic": "OUT", "key": "b", "value": 2}, {"topic": "OUT", "key": "a", "value": 1}, unordered=True)
assert [record["value"] for record in two.records()["OUT"]] == [1, 2]
two.expect({"topic": "OUT", "key": "a", "value": 1})
""",
    )
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["E *test_mine.py:8:*", "E *topic OUT* is not expected*", "*1 failed*"])


def test_files_of_cases(project: pytest.Pytester) -> None:
    case = "  - {name: c, statements: [COPY], inputs: [{topic: IN, value: 1}], outputs: [{topic: OUT, value: %d}]}\n"
    project.path.joinpath("good.yaml").write_text("tests:\n" + case % 1)
    project.path.joinpath("bad.yaml").write_text("tests:\n" + case % 2)
    result = ran(project, 'assert len(qtt.run("good.yaml")) == 1\nqtt.run("bad.yaml")')
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["E *bad.yaml:2: bad - c"])


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ('qtt.run({"statments": ["COPY"], "outputs": []})', "*test_mine.py:2:*did you mean `statements`?"),
        ('qtt.app("copi.sql").expect()', "*test_mine.py:2: *there is no file *copi.sql; did you mean `copy.sql`?"),
        (
            'qtt.app("copy.sql").given({"topic": "IN", "value": b"x"}).expect()',
            "*inputs[[]0].value: b'x' has no JSON*",
        ),
        ('qtt.app("copy.sql").given({"topic": "IN"}).records()', "*test_mine.py:2: *inputs[[]0]*`value` is missing"),
        ('qtt.run("none.yaml")', "*none.yaml does not exist"),
        ('qtt.app("copy.sql").expect(outputz=[])', "*`outputz` is not a field; did you mean `outputs`?"),
        ('qtt.run({"statements": ["REJECT no such thing"], "outputs": []})', "*was rejected: no such thing"),
        ('qtt.run({"statements": ["CRASH"], "outputs": []})', "*RuntimeError: engine broke"),
    ],
)
def test_errors_say_what_to_change(project: pytest.Pytester, line: str, message: str) -> None:
    result = ran(project, line)
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines([f"E {message}"])


def test_the_example_of_the_page(pytester: pytest.Pytester) -> None:
    for name, text in FILES.items():
        path = pytester.path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
    (example,) = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), flags=re.DOTALL)
    pytester.path.joinpath("test_orders.py").write_text(example)
    pytester.runpytest("test_orders.py").assert_outcomes(passed=2)
